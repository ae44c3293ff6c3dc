// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the figures are to show, and whether they do.

use crate::metric::{Kind, Metric};
use crate::suite::catalogue::Catalogue;
use crate::suite::job::{Job, Wait};
use crate::suite::results::{Cell, Measured, Results};
use anyhow::{bail, Result};
use measuring::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A goal in the file of scenarios.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The figure in words.
    pub figure: String,
    /// The goal in words.
    pub goal: String,
    /// Where it is measured.
    scenario: String,
    /// The settings that must all reach it.
    settings: Vec<String>,
    /// The figure.
    measure: Measure,
    /// What the figure is divided by: the same of the best of these settings. Empty: by nothing.
    #[serde(default = "c")]
    against: Vec<String>,
    /// The figure must not exceed this.
    at_most: Option<f64>,
    /// The figure must not fall short of this.
    at_least: Option<f64>,
    /// The interval must be above this; without it, it must reach the goal as the median does.
    interval_above: Option<f64>,
    /// Whether it is enough that the interval does not show the contrary.
    #[serde(default)]
    unless_refuted: bool,
    /// Only jobs with at least so many requests in flight.
    #[serde(default)]
    min_depth: u32,
    /// Only jobs with one of these paces.
    #[serde(default)]
    pace: Vec<u32>,
    /// Only jobs with this way to wait.
    wait: Option<Wait>,
}

fn c() -> Vec<String> {
    vec!["c".to_owned()]
}

/// What is compared with the goal.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
enum Measure {
    Metric(Metric),
    Other(Other),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Other {
    /// Instructions per I/O above the floor.
    DriverCost,
    /// Time until N and T have settled after a load step.
    SettleMs,
}

/// Whether a goal is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Met,
    /// The interval has values on both sides of the goal.
    NotShown,
    /// It is not.
    NotMet,
    /// The scenario was not measured.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Met => "met",
            Self::NotShown => "not shown",
            Self::NotMet => "not met",
            Self::NotMeasured => "not measured",
        })
    }
}

/// A goal with what was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shown {
    /// The figure in words.
    pub figure: String,
    /// The goal in words.
    pub goal: String,
    /// The scenario's name.
    pub scenario: String,
    /// The least favourable of all verdicts.
    pub verdict: Verdict,
    /// Every value, the least favourable first.
    pub values: Vec<ShownValue>,
}

/// One value.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShownValue {
    /// Where: the job, or the load step.
    pub cell: String,
    /// The setting's name.
    pub setting: String,
    /// The setting that it was divided by, if it was.
    pub against: Option<String>,
    /// Median and interval.
    #[serde(flatten)]
    pub value: Estimate,
    /// Whether it reaches the goal.
    pub verdict: Verdict,
}

impl Goal {
    /// Checks that the goal refers to what there is.
    pub fn check(&self, catalogue: &Catalogue) -> Result<()> {
        let scenario = catalogue.scenario(&self.scenario)?;
        for name in self.settings.iter().chain(&self.against) {
            if !scenario.settings.contains(name) {
                bail!(
                    "the scenario {} does not have the setting {name}",
                    self.scenario
                );
            }
        }
        let kind = match self.measure {
            Measure::Metric(metric) => metric.kind(),
            Measure::Other(Other::DriverCost) => Kind::Cost,
            Measure::Other(Other::SettleMs) => Kind::Steps,
        };
        if !scenario.has(kind) {
            bail!("the scenario {} has no figures of that kind", self.scenario);
        }
        if self.at_most.is_some() == self.at_least.is_some() {
            bail!("it needs either at_most or at_least");
        }
        Ok(())
    }

    /// Compares the goal with what was measured.
    pub fn judge(&self, results: &Results) -> Shown {
        let mut values = match results.scenario(&self.scenario) {
            Some(measured) => self.values(measured),
            None => Vec::new(),
        };
        let sign = if self.at_most.is_some() { -1.0 } else { 1.0 };
        values.sort_by(|a, b| {
            let margin = (sign * a.value.median).total_cmp(&(sign * b.value.median));
            b.verdict.cmp(&a.verdict).then(margin)
        });
        Shown {
            figure: self.figure.clone(),
            goal: self.goal.clone(),
            scenario: self.scenario.clone(),
            verdict: values.first().map_or(Verdict::NotMeasured, |v| v.verdict),
            values,
        }
    }

    fn values(&self, measured: &Measured) -> Vec<ShownValue> {
        let settings = self.settings.iter();
        settings
            .flat_map(|setting| match self.measure {
                Measure::Metric(metric) => self.metric(measured, setting, metric),
                Measure::Other(Other::DriverCost) => self.driver_cost(measured, setting),
                Measure::Other(Other::SettleMs) => self.settling(measured, setting),
            })
            .collect()
    }

    fn metric(&self, measured: &Measured, setting: &str, metric: Metric) -> Vec<ShownValue> {
        let cells = measured.cells.iter();
        let cells = cells.filter(|cell| self.concerns(&cell.parameters));
        cells
            .filter_map(|cell| {
                let ours = cell.result(setting)?.figure(metric)?;
                let (against, value) = match self.best(cell, metric) {
                    Some((name, best)) => (Some(name), ours.ratio_to(best)?),
                    None if self.against.is_empty() => (None, ours.estimate),
                    None => return None,
                };
                Some(self.value(cell.name(measured), setting, against, value))
            })
            .collect()
    }

    /// Of the settings to compare with, the one that is best in a cell.
    fn best<'a>(
        &self,
        cell: &'a Cell,
        metric: Metric,
    ) -> Option<(&'a str, &'a crate::suite::results::Figure)> {
        let sign = if self.at_most.is_some() { -1.0 } else { 1.0 };
        let others = self.against.iter().filter_map(|name| {
            let result = cell.result(name)?;
            Some((result.setting.as_str(), result.figure(metric)?))
        });
        let key = |figure: &crate::suite::results::Figure| sign * figure.estimate.median;
        others.max_by(|a, b| key(a.1).total_cmp(&key(b.1)))
    }

    fn driver_cost(&self, measured: &Measured, setting: &str) -> Vec<ShownValue> {
        let cost = |name: &str| {
            let found = measured.cost.iter().find(|outcome| outcome.setting == name);
            found.map(|outcome| outcome.driver_cost)
        };
        let against = self.against.first().map(String::as_str);
        let base = against.map_or(Some(1.0), cost);
        let ratio = cost(setting).zip(base).filter(|(_, base)| *base > 0.0);
        let value = ratio.map(|(cost, base)| Estimate {
            median: cost / base,
            ci95: None,
        });
        let value = value.map(|v| self.value(measured.title.clone(), setting, against, v));
        value.into_iter().collect()
    }

    fn settling(&self, measured: &Measured, setting: &str) -> Vec<ShownValue> {
        let of = |times: Vec<f64>, words: &str| {
            let value = Estimate::of(&times)?;
            Some(self.value(words.to_owned(), setting, None, value))
        };
        let steps = || measured.steps.iter().filter(|step| step.setting == setting);
        let up = of(steps().map(|step| step.settle_up_ms).collect(), "step up");
        let down = of(
            steps().map(|step| step.settle_down_ms).collect(),
            "step down",
        );
        up.into_iter().chain(down).collect()
    }

    fn concerns(&self, job: &Job) -> bool {
        let pace = job.pace;
        job.depth() >= self.min_depth
            && (self.pace.is_empty() || pace.is_some_and(|pace| self.pace.contains(&pace.us)))
            && (self.wait.is_none() || pace.map(|pace| pace.wait) == self.wait)
    }

    fn value(
        &self,
        cell: String,
        setting: &str,
        against: Option<&str>,
        value: Estimate,
    ) -> ShownValue {
        ShownValue {
            cell,
            setting: setting.to_owned(),
            against: against.map(str::to_owned),
            value,
            verdict: self.verdict(value),
        }
    }

    fn verdict(&self, value: Estimate) -> Verdict {
        let reached = |value: f64| {
            self.at_most.is_none_or(|most| value <= most)
                && self.at_least.is_none_or(|least| value >= least)
        };
        let ends = value.ci95.unwrap_or([value.median; 2]);
        let (all, any) = (ends.iter().all(|end| reached(*end)), ends.map(reached));
        match (reached(value.median), self.interval_above) {
            (true, Some(above)) if value.ci95.is_some_and(|[low, _]| low > above) => Verdict::Met,
            (true, None) if all => Verdict::Met,
            _ if self.unless_refuted && any.contains(&true) => Verdict::Met,
            (false, _) if !any.contains(&true) => Verdict::NotMet,
            _ => Verdict::NotShown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::tests::{cell, measured};

    fn goal(text: &str) -> Goal {
        let text =
            format!("figure = \"f\"\ngoal = \"g\"\nscenario = \"s\"\nsettings = [\"x\"]\n{text}");
        toml::from_str(&text).unwrap()
    }

    fn judged(goal: &Goal, metric: Metric, ours: &[f64], c: &[f64]) -> Shown {
        let mut results = Results::default();
        results.put(measured("s", vec![cell(metric, ours, c)]));
        goal.judge(&results)
    }

    #[test]
    fn a_goal_needs_the_whole_interval() {
        let goal = goal("measure = \"iops\"\nat_least = 1.1");
        let verdict = |ours: &[f64]| judged(&goal, Metric::Iops, ours, &[1.0; 6]).verdict;
        assert_eq!(verdict(&[1.2; 6]), Verdict::Met);
        assert_eq!(verdict(&[1.0, 1.2, 1.2, 1.2, 1.2, 1.2]), Verdict::NotShown);
        assert_eq!(verdict(&[1.05; 6]), Verdict::NotMet);
        let missing = goal.judge(&Results::default());
        assert_eq!(missing.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn a_goal_may_ask_less_of_the_interval() {
        let ours = [1.05, 1.2, 1.2, 1.2, 1.2, 1.2];
        let above = goal("measure = \"iops\"\nat_least = 1.1\ninterval_above = 1.0");
        assert_eq!(
            judged(&above, Metric::Iops, &ours, &[1.0; 6]).verdict,
            Verdict::Met
        );
        let low = judged(
            &above,
            Metric::Iops,
            &[0.9, 1.2, 1.2, 1.2, 1.2, 1.2],
            &[1.0; 6],
        );
        assert_eq!(low.verdict, Verdict::NotShown);
        let worse = goal("measure = \"lat_p99_us\"\nat_most = 1.0\nunless_refuted = true");
        let p99 = |ours: &[f64]| judged(&worse, Metric::LatencyP99, ours, &[1.0; 6]).verdict;
        assert_eq!(p99(&[0.9, 1.1, 1.1, 1.1, 1.1, 1.1]), Verdict::Met);
        assert_eq!(p99(&[1.1; 6]), Verdict::NotMet);
    }

    #[test]
    fn counts_can_be_judged_by_themselves() {
        let goal = goal("measure = \"irq_per_kio\"\nagainst = []\nat_most = 15");
        let shown = judged(&goal, Metric::Interrupts, &[9.0; 6], &[300.0; 6]);
        assert_eq!(shown.verdict, Verdict::Met);
        assert_eq!(shown.values[0].value.median, 9.0);
        assert_eq!(shown.values[0].against, None);
    }

    #[test]
    fn what_is_not_measured_there_is_refused() {
        let catalogue = Catalogue::read(None).unwrap();
        let goal = Goal {
            scenario: "qd1".into(),
            settings: vec!["nonsense".into()],
            ..goal("measure = \"iops\"\nat_least = 1.1")
        };
        let message = goal.check(&catalogue).unwrap_err().to_string();
        assert!(message.contains("nonsense"), "{message}");
    }
}
