// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What bench.json says; Documentation/bench.rst describes the fields.

use crate::metric::{Kind, Metric};
use crate::series::Series;
use crate::suite::catalogue::Setting;
use crate::suite::environment::Environment;
use crate::suite::goal::Shown;
use crate::suite::job::Job;
use crate::suite::steps::Step;
use anyhow::{bail, Context, Result};
use cost::Outcome;
use measuring::{paired_ratios, Estimate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The version of the format; it changes when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// Everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format.
    pub schema: u32,
    /// What was measured, by scenario.
    pub scenarios: Vec<Measured>,
    /// What was to be shown.
    pub goals: Vec<Shown>,
}

/// One scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Its name in the file of scenarios.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// What it is for.
    pub about: String,
    /// The kinds of its figures.
    pub figures: Vec<Kind>,
    /// Where, when and how it was measured.
    pub environment: Environment,
    /// Rounds, or passes.
    pub rounds: u32,
    /// Seconds of one run.
    pub runtime_s: f64,
    /// Seconds that everything took, with the boot.
    pub duration_s: f64,
    /// What took turns.
    pub settings: Vec<SettingRecord>,
    /// The disks.
    pub disks: Vec<DiskRecord>,
    /// Counts and times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Cell>,
    /// Guest cost, one element a setting, with the floor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost: Vec<Outcome>,
    /// What happened when the load changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A driver with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettingRecord {
    /// Its name in the file of scenarios.
    pub name: String,
    /// What a person reads.
    pub label: String,
    /// Name of the module.
    pub driver: String,
    /// Parameters other than the defaults.
    pub parameters: BTreeMap<String, String>,
}

/// A disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiskRecord {
    /// Its name in the file of scenarios.
    pub name: String,
    /// Whether it is the programmable device.
    pub paced: bool,
    /// QEMU's properties of it.
    pub properties: Map<String, Value>,
    /// By driver, what it has agreed on with the device.
    pub features: BTreeMap<String, Vec<String>>,
}

/// One job on one disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cell {
    /// The job in words.
    pub job: String,
    /// The disk's name.
    pub disk: String,
    /// The job.
    pub parameters: Job,
    /// One element a setting.
    pub results: Vec<CellResult>,
}

/// One job on one disk with one setting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellResult {
    /// The setting's name.
    pub setting: String,
    /// How often things happened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Metric, Figure>,
    /// Time on the wall.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wall: BTreeMap<Metric, Figure>,
}

/// A figure over all rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// Median and interval.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Median and interval of the ratios to the C driver in the same rounds.
    pub ratio_to_c: Option<Estimate>,
    /// The value of each round.
    pub rounds: Vec<Option<f64>>,
}

impl SettingRecord {
    /// The record of a setting.
    pub fn of(setting: &Setting) -> Self {
        Self {
            name: setting.name.clone(),
            label: setting.label.clone(),
            driver: setting.driver.to_string(),
            parameters: setting.knobs.iter().cloned().collect(),
        }
    }
}

impl CellResult {
    /// Sums up what all rounds have measured.
    pub fn new(setting: &str, kinds: &[Kind], ours: &Series, c: Option<&Series>) -> Self {
        let of = |kind| {
            let wanted = kinds.contains(&kind);
            let metrics = ours
                .metrics()
                .filter(|metric| metric.kind() == kind && wanted);
            let figure = |metric| {
                let figure = Figure {
                    estimate: ours.estimate(metric)?,
                    ratio_to_c: c.and_then(|c| ours.ratio_to(c, metric)),
                    rounds: ours.rounds(metric).to_vec(),
                };
                Some((metric, figure))
            };
            metrics.filter_map(figure).collect()
        };
        Self {
            setting: setting.to_owned(),
            counts: of(Kind::Counts),
            wall: of(Kind::Wall),
        }
    }

    /// The figure, of whatever kind it is.
    pub fn figure(&self, metric: Metric) -> Option<&Figure> {
        match metric.kind() {
            Kind::Counts => self.counts.get(&metric),
            _ => self.wall.get(&metric),
        }
    }
}

impl Figure {
    /// Median and interval of the ratios to another setting's figure in the same rounds.
    pub fn ratio_to(&self, other: &Self) -> Option<Estimate> {
        Estimate::of(&paired_ratios(&self.rounds, &other.rounds))
    }
}

impl Cell {
    /// What was measured with a setting.
    pub fn result(&self, setting: &str) -> Option<&CellResult> {
        self.results.iter().find(|result| result.setting == setting)
    }

    /// The job, and the disk where a scenario has several.
    pub fn name(&self, scenario: &Measured) -> String {
        match scenario.disks.len() {
            0 | 1 => self.job.clone(),
            _ => format!("{}, {}", self.disk, self.job),
        }
    }
}

impl Measured {
    /// What a person reads of a setting.
    pub fn label<'a>(&'a self, setting: &'a str) -> &'a str {
        let found = self.settings.iter().find(|record| record.name == setting);
        found.map_or(setting, |record| &record.label)
    }

    /// Whether a setting is the C driver.
    pub fn is_c(&self, setting: &str) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|record| record.name == setting && record.driver == vm::Driver::C.name())
    }
}

impl Default for Results {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            scenarios: Vec::new(),
            goals: Vec::new(),
        }
    }
}

impl Results {
    /// Reads a file that [`Self::write`] has written.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| {
            format!(
                "cannot read {}. Measure first, with `make bench`.",
                path.display()
            )
        })?;
        let value: Value = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no JSON", path.display()))?;
        if value["schema"] != SCHEMA {
            bail!(
                "{} has schema {}, and this program knows {SCHEMA}. Measure anew.",
                path.display(),
                value["schema"]
            );
        }
        serde_json::from_value(value).with_context(|| format!("in {}", path.display()))
    }

    /// Writes the file, with numbers of at most three decimals.
    pub fn write(&self, path: &Path) -> Result<()> {
        let value = cost::rounded(serde_json::to_value(self)?);
        let text = serde_json::to_string_pretty(&value)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts a scenario in the place of an earlier measurement of it, or at the end.
    pub fn put(&mut self, measured: Measured) {
        let place = self.scenarios.iter().position(|s| s.name == measured.name);
        match place {
            Some(index) => self.scenarios[index] = measured,
            None => self.scenarios.push(measured),
        }
    }

    /// The scenario called `name`, if it was measured.
    pub fn scenario(&self, name: &str) -> Option<&Measured> {
        self.scenarios.iter().find(|scenario| scenario.name == name)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Figures of which `ours` is as given, by round, and the C driver's are `c`.
    pub fn cell(metric: Metric, ours: &[f64], c: &[f64]) -> Cell {
        let series = |values: &[f64]| {
            let mut series = Series::default();
            values.iter().for_each(|v| series.push(metric, Some(*v)));
            series
        };
        let (ours, c) = (series(ours), series(c));
        let kinds = [Kind::Counts, Kind::Wall];
        let parameters = toml::from_str::<crate::suite::job::JobText>("rw = \"randread\"")
            .unwrap()
            .jobs()
            .remove(0);
        Cell {
            job: "j".into(),
            disk: "disk".into(),
            parameters,
            results: vec![
                CellResult::new("c", &kinds, &c, Some(&c)),
                CellResult::new("x", &kinds, &ours, Some(&c)),
            ],
        }
    }

    /// A scenario with these cells, and the settings `c` and `x`.
    pub fn measured(name: &str, cells: Vec<Cell>) -> Measured {
        let setting = |name: &str, driver: &str| SettingRecord {
            name: name.to_owned(),
            label: name.to_uppercase(),
            driver: driver.to_owned(),
            parameters: BTreeMap::new(),
        };
        Measured {
            name: name.to_owned(),
            title: format!("The scenario {name}"),
            about: String::new(),
            figures: vec![Kind::Counts, Kind::Wall],
            environment: Environment::unknown(),
            rounds: 6,
            runtime_s: 1.0,
            duration_s: 2.0,
            settings: vec![setting("c", "virtio_blk"), setting("x", "virtio_blk_rs")],
            disks: Vec::new(),
            cells,
            cost: Vec::new(),
            steps: Vec::new(),
        }
    }

    #[test]
    fn kinds_are_kept_apart_and_survive_the_file() {
        let cell = cell(Metric::Iops, &[2.0; 6], &[1.0; 6]);
        assert!(cell.results[1].counts.is_empty());
        let mut results = Results::default();
        results.put(measured("s", vec![cell]));
        results.put(measured("s", Vec::new()));
        assert_eq!(results.scenarios.len(), 1);
        results.put(measured(
            "t",
            vec![super::tests::cell(Metric::Interrupts, &[2.0; 6], &[1.0; 6])],
        ));
        let file = tempfile::NamedTempFile::new().unwrap();
        results.write(file.path()).unwrap();
        let again = Results::read(file.path()).unwrap();
        let cell = &again.scenario("t").unwrap().cells[0];
        let figure = cell
            .result("x")
            .unwrap()
            .figure(Metric::Interrupts)
            .unwrap();
        assert_eq!(figure.ratio_to_c.unwrap().ci95, Some([2.0, 2.0]));
        assert_eq!(figure.rounds.len(), 6);
    }

    #[test]
    fn another_schema_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "{\"schema\": 0}").unwrap();
        let message = Results::read(file.path()).unwrap_err().to_string();
        assert!(
            message.contains("schema 0") && message.contains("anew"),
            "{message}"
        );
    }
}
