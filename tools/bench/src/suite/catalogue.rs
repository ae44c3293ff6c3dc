// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The file of scenarios: what is measured, with which settings, and what is to be shown.

use crate::metric::Kind;
use crate::suite::device::Device;
use crate::suite::goal::Goal;
use crate::suite::job::{Job, JobText};
use anyhow::{bail, Context, Result};
use measuring::Knobs;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vm::Driver;

/// The scenarios that come with the program.
const BUILT_IN: &str = include_str!("../../scenarios.toml");

/// The name of the disk of a scenario that has but one.
const ONLY_DISK: &str = "disk";

/// The whole file.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Drivers with their parameters, by name.
    pub settings: BTreeMap<String, Setting>,
    /// What is measured, in this order.
    pub scenarios: Vec<Scenario>,
    /// What the figures are to show.
    pub goals: Vec<Goal>,
}

/// A driver with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Unique.
    pub name: String,
    /// What a person reads.
    pub label: String,
    /// The driver.
    pub driver: Driver,
    /// Parameters other than the defaults.
    pub knobs: Knobs,
}

/// One boot of one guest and what is measured there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique.
    pub name: String,
    /// What a person reads.
    pub title: String,
    /// What it is for.
    #[serde(default)]
    pub about: String,
    /// The kinds of figures.
    pub figures: BTreeSet<Kind>,
    /// Whether it belongs to the quick form, and only to that.
    #[serde(default)]
    pub quick: bool,
    /// The guest's processors.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// How often everything is measured; of costs, passes.
    pub rounds: u32,
    /// Seconds of one run.
    #[serde(default = "second")]
    pub runtime: f64,
    /// I/Os of one run that counts instructions.
    #[serde(default = "hundred_thousand")]
    pub ios: u64,
    /// How many of them are in flight.
    #[serde(default = "deep")]
    pub iodepth: u16,
    /// Names of the settings that take turns.
    pub settings: Vec<String>,
    /// What all disks have in common.
    #[serde(default)]
    device: Device,
    /// In what they differ, by name; without it there is one disk.
    #[serde(default)]
    disks: BTreeMap<String, Device>,
    /// What fio does.
    #[serde(default, rename = "job")]
    jobs: Vec<JobText>,
}

fn one() -> u32 {
    1
}

fn second() -> f64 {
    1.0
}

fn hundred_thousand() -> u64 {
    100_000
}

fn deep() -> u16 {
    128
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    settings: BTreeMap<String, SettingText>,
    scenario: Vec<Scenario>,
    #[serde(default)]
    goal: Vec<Goal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingText {
    label: String,
    #[serde(default)]
    driver: DriverText,
    #[serde(default)]
    knobs: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DriverText {
    C,
    #[default]
    Rust,
}

impl Catalogue {
    /// Reads `path`, or else the built-in file.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        match path {
            None => Self::parse(BUILT_IN).context("in the built-in file of scenarios"),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Self::parse(&text).with_context(|| format!("in {}", path.display()))
            }
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut settings = BTreeMap::new();
        for (name, text) in file.settings {
            settings.insert(name.clone(), Setting::from_text(name, text)?);
        }
        let catalogue = Self {
            settings,
            scenarios: file.scenario,
            goals: file.goal,
        };
        catalogue.check()?;
        Ok(catalogue)
    }

    fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for scenario in &self.scenarios {
            if !names.insert(&scenario.name) {
                bail!(
                    "two scenarios are called {}: give each a name of its own",
                    scenario.name
                );
            }
            scenario
                .check(self)
                .with_context(|| format!("in the scenario {}", scenario.name))?;
        }
        for goal in &self.goals {
            goal.check(self)
                .with_context(|| format!("in the goal {:?}", goal.figure))?;
        }
        Ok(())
    }

    /// The scenario called `name`.
    pub fn scenario(&self, name: &str) -> Result<&Scenario> {
        let found = self.scenarios.iter().find(|other| other.name == name);
        found.with_context(|| {
            let names = self.scenarios.iter().map(|other| other.name.as_str());
            let names: Vec<_> = names.collect();
            format!("{name:?} is no scenario. Choose from {}", names.join(", "))
        })
    }

    /// The setting called `name`.
    pub fn setting(&self, name: &str) -> Result<&Setting> {
        self.settings.get(name).with_context(|| {
            let names: Vec<_> = self.settings.keys().map(String::as_str).collect();
            format!("{name:?} is no setting. Choose from {}", names.join(", "))
        })
    }
}

impl Setting {
    fn from_text(name: String, text: SettingText) -> Result<Self> {
        let knob = |(knob, value): (String, Value)| {
            let value = match value {
                Value::String(text) => text,
                Value::Number(number) if number.is_u64() => number.to_string(),
                other => bail!(
                    "the knob {knob} of the setting {name} is {other}; give a number or a word in \
                     quotation marks"
                ),
            };
            let word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !word(&knob) || !word(&value) {
                bail!("the knob {knob} = {value} of the setting {name} is not made of words");
            }
            Ok((knob, value))
        };
        Ok(Self {
            label: text.label,
            driver: match text.driver {
                DriverText::C => Driver::C,
                DriverText::Rust => Driver::Rust,
            },
            knobs: text.knobs.into_iter().map(knob).collect::<Result<_>>()?,
            name,
        })
    }
}

impl Scenario {
    /// The disks by name.
    pub fn disks(&self) -> BTreeMap<String, Device> {
        if self.disks.is_empty() {
            return BTreeMap::from([(ONLY_DISK.to_owned(), self.device.clone())]);
        }
        let disks = self.disks.iter();
        disks
            .map(|(name, disk)| (name.clone(), disk.over(&self.device)))
            .collect()
    }

    /// What fio does, one by one.
    pub fn jobs(&self) -> Vec<Job> {
        self.jobs.iter().flat_map(JobText::jobs).collect()
    }

    /// Whether figures of this kind are wanted.
    pub fn has(&self, kind: Kind) -> bool {
        self.figures.contains(&kind)
    }

    fn check(&self, catalogue: &Catalogue) -> Result<()> {
        for (index, name) in self.settings.iter().enumerate() {
            catalogue.setting(name)?;
            if self.settings[..index].contains(name) {
                bail!("the setting {name} is listed twice; list each once");
            }
        }
        if self.settings.is_empty() || self.rounds == 0 || self.rounds > 1000 {
            bail!("it needs settings, and from 1 to 1000 rounds");
        }
        if !(0.1..=3600.0).contains(&self.runtime) {
            bail!(
                "a run of {} s is out of range; choose 0.1 to 3600",
                self.runtime
            );
        }
        let jobs = self.jobs();
        jobs.iter().try_for_each(Job::check)?;
        let disks = self.disks();
        for (name, disk) in &disks {
            disk.disk(name)?;
            if let Some(job) = jobs
                .iter()
                .find(|job| job.pace.is_some() != disk.is_paced())
            {
                bail!(
                    "the job {job} and the disk {name} do not belong together: give a pace to the \
                     jobs of a paced disk, and to no others"
                );
            }
        }
        let alone = self.has(Kind::Cost) || self.has(Kind::Steps);
        if alone && (self.figures.len() > 1 || disks.len() > 1 || !jobs.is_empty()) {
            bail!(
                "cost and steps have a job of their own and one disk: leave out the other kinds \
                 of figures, jobs and disks"
            );
        }
        if !alone && jobs.is_empty() {
            bail!("it has no job; add [[scenario.job]]");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_file_is_complete() {
        let catalogue = Catalogue::read(None).unwrap();
        assert!(catalogue.scenarios.iter().any(|scenario| scenario.quick));
        for kind in [Kind::Counts, Kind::Cost, Kind::Wall, Kind::Steps] {
            let mut full = catalogue.scenarios.iter().filter(|s| !s.quick);
            assert!(full.any(|scenario| scenario.has(kind)), "{kind:?}");
        }
        let mut quick = catalogue.scenarios.iter().filter(|s| s.quick);
        assert!(quick.all(|scenario| !scenario.has(Kind::Wall)));
    }

    const FILE: &str = "[settings]\nc = { label = \"C\", driver = \"c\" }\n\
        x = { label = \"X\", knobs = { coalesce_usecs = 5 } }\n\
        [[scenario]]\nname = \"s\"\ntitle = \"S\"\nfigures = [\"counts\"]\nrounds = 2\n\
        settings = [\"c\", \"x\"]\ndisks.a.packed = true\ndisks.b.packed = false\n\
        device.queue_size = 64\n\
        [[scenario.job]]\nrw = [\"read\", \"randread\"]\niodepth = [1, 8]\n";

    #[test]
    fn lists_are_multiplied_and_disks_share_the_device() {
        let catalogue = Catalogue::parse(FILE).unwrap();
        let scenario = catalogue.scenario("s").unwrap();
        assert_eq!(scenario.jobs().len(), 4);
        let disk = scenario.disks()["a"].disk("a").unwrap();
        assert_eq!(disk.properties()["packed"], true);
        assert_eq!(disk.properties()["queue-size"], 64);
        let knobs = &catalogue.setting("x").unwrap().knobs;
        assert_eq!(knobs[0], ("coalesce_usecs".to_owned(), "5".to_owned()));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, words) in [
            ("\"x\"]", "\"y\"]", ["\"y\"", "Choose from c, x"]),
            ("rounds = 2", "rounds = 0", ["scenario s", "1 to 1000"]),
            ("= 5", "= 1.5", ["coalesce_usecs", "1.5"]),
            ("_size = 64", "_size = 48", ["48", "4 to 1024"]),
            ("[1, 8]", "[0]", ["0", "1 to 4096"]),
            ("\"read\"", "\"erase\"", ["erase", "randwrite"]),
            ("title", "tilte", ["tilte", "expected"]),
            ("\"c\", \"x\"]", "\"c\", \"c\"]", ["twice", "once"]),
        ] {
            let error = Catalogue::parse(&FILE.replace(from, to)).unwrap_err();
            let message = format!("{error:#}");
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
