// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Whether the figures of the quick form are still what they were.

use crate::metric::Metric;
use crate::suite::results::{Measured, Results};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Figures that are kept an eye on. Those that depend on the host's speed more than on the driver
/// are not among them.
const COUNTS: [Metric; 6] = [
    Metric::Interrupts,
    Metric::Signals,
    Metric::EmptyInterrupts,
    Metric::LateInterrupts,
    Metric::TimerFires,
    Metric::Missed,
];

/// Counts depend on how fast the guest is in relation to the device: within this factor, and by
/// so many more or fewer per 1,000 I/Os, they are the same.
const FACTOR: f64 = 2.5;
const MARGIN: f64 = 5.0;

/// Driver costs are ratios to the C driver's. They depend on the number of interrupts.
const COST_MARGIN: f64 = 0.12;

/// A figure and what it may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// What it was when the reference was made.
    pub value: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most that it may be.
    pub high: f64,
}

/// All figures by scenario, job, setting and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    figures: BTreeMap<String, Expected>,
}

impl Reference {
    /// What was measured, with room for what does not matter.
    pub fn of(results: &Results) -> Self {
        let figures = results.scenarios.iter().flat_map(figures);
        let expected = figures.map(|(name, figure)| {
            let value = figure.value;
            let (low, high) = match figure.kind {
                Sort::Cost => (value - COST_MARGIN, value + COST_MARGIN),
                Sort::Never => (0.0, 0.0),
                Sort::Count => ((value / FACTOR - MARGIN).max(0.0), value * FACTOR + MARGIN),
            };
            (name, Expected { value, low, high })
        });
        Self {
            figures: expected.collect(),
        }
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| {
            format!(
                "cannot read the reference {}. Make one with --update-reference.",
                path.display()
            )
        })?;
        serde_json::from_slice(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let value = cost::rounded(serde_json::to_value(self)?);
        let text = serde_json::to_string_pretty(&value)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A sentence for each figure of the measured scenarios that is out of its range, is new, or
    /// is gone.
    pub fn compare(&self, results: &Results) -> Vec<String> {
        let mut drifts = Vec::new();
        let mut measured = BTreeSet::new();
        for (name, figure) in results.scenarios.iter().flat_map(figures) {
            let value = figure.value;
            match self.figures.get(&name) {
                None => drifts.push(format!("{name} is {value:.3} and not in the reference")),
                Some(expected) if !expected.holds(&figure) => drifts.push(format!(
                    "{name} is {value:.3}, was {:.3}, and may be {:.3} to {:.3}",
                    expected.value, expected.low, expected.high
                )),
                Some(_) => {}
            }
            measured.insert(name);
        }
        let concerned = self.figures.keys().filter(|name| {
            let mut scenarios = results.scenarios.iter();
            scenarios.any(|scenario| name.starts_with(&format!("{} / ", scenario.name)))
        });
        let gone = concerned.filter(|name| !measured.contains(*name));
        drifts.extend(gone.map(|name| format!("{name} is in the reference but was not measured")));
        drifts
    }

    /// How many figures there are.
    pub fn len(&self) -> usize {
        self.figures.len()
    }
}

/// A figure as it was measured.
struct Now {
    kind: Sort,
    value: f64,
    rounds: Vec<f64>,
}

/// What decides how far a figure may be from what it was.
enum Sort {
    Cost,
    Count,
    /// It must be zero in each round.
    Never,
}

impl Expected {
    /// Whether a figure is in the range. Another program that takes the processor away can spoil a
    /// round, but no program makes a driver that has changed do in one of them what it did before.
    fn holds(&self, now: &Now) -> bool {
        let mut rounds = now
            .rounds
            .iter()
            .map(|round| (self.low..=self.high).contains(round));
        match now.kind {
            Sort::Never => rounds.all(|holds| holds),
            Sort::Cost | Sort::Count => rounds.any(|holds| holds),
        }
    }
}

/// The figures of a scenario by name.
fn figures(measured: &Measured) -> Vec<(String, Now)> {
    let mut figures = Vec::new();
    for cell in &measured.cells {
        for result in &cell.results {
            let present = COUNTS
                .iter()
                .filter_map(|m| Some((*m, result.counts.get(m)?)));
            figures.extend(present.map(|(metric, figure)| {
                let (scenario, cell) = (&measured.name, cell.name(measured));
                let (setting, field) = (&result.setting, metric.field());
                let now = Now {
                    kind: match metric {
                        Metric::Missed => Sort::Never,
                        _ => Sort::Count,
                    },
                    value: figure.estimate.median,
                    rounds: figure.rounds.iter().copied().flatten().collect(),
                };
                (format!("{scenario} / {cell} / {setting} / {field}"), now)
            }));
        }
    }
    let costs = measured.cost.iter().filter_map(|outcome| {
        let value = outcome
            .ratio_to_c
            .filter(|_| !measured.is_c(&outcome.setting))?;
        let name = format!("{} / {} / driver_cost_to_c", measured.name, outcome.setting);
        let now = Now {
            kind: Sort::Cost,
            value,
            rounds: vec![value],
        };
        Some((name, now))
    });
    figures.extend(costs);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::tests::{cell, measured};

    fn results(interrupts: f64) -> Results {
        rounds(&[interrupts])
    }

    fn rounds(interrupts: &[f64]) -> Results {
        let mut results = Results::default();
        let cell = cell(Metric::Interrupts, interrupts, &[300.0]);
        results.put(measured("s", vec![cell]));
        results
    }

    #[test]
    fn figures_that_drift_are_named_with_their_range() {
        let reference = Reference::of(&results(20.0));
        assert_eq!(reference.len(), 2);
        assert!(reference.compare(&results(40.0)).is_empty());
        assert!(reference.compare(&rounds(&[80.0, 90.0, 40.0])).is_empty());
        let drifts = reference.compare(&results(80.0));
        assert_eq!(
            drifts,
            ["s / j / x / irq_per_kio is 80.000, was 20.000, and may be 3.000 to 55.000"]
        );
    }

    #[test]
    fn new_and_lost_figures_are_named() {
        let reference = Reference::of(&results(20.0));
        let mut other = results(20.0);
        other.scenarios[0].cells[0].job = "k".into();
        let drifts = reference.compare(&other);
        assert_eq!(drifts.len(), 4);
        assert!(drifts[0].contains("not in the reference"), "{drifts:?}");
        assert!(drifts[3].contains("was not measured"), "{drifts:?}");
        assert!(reference.compare(&Results::default()).is_empty());
    }

    #[test]
    fn a_missed_interrupt_is_never_right() {
        let missed = |rounds: &[f64]| {
            let mut results = Results::default();
            let cell = cell(Metric::Missed, rounds, &[0.0]);
            results.put(measured("s", vec![cell]));
            results
        };
        let reference = Reference::of(&missed(&[0.0]));
        assert!(reference.compare(&missed(&[0.0, 0.0])).is_empty());
        assert_eq!(reference.compare(&missed(&[0.0, 1.0, 0.0])).len(), 1);
    }
}
