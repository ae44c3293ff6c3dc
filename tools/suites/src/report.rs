// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What came out, as a table and as JSON.

use crate::options::Options;
use crate::run::Ran;
use crate::suite::{Outcome, Status};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use vm::Driver;

/// Letters of the words that are printed; the JSON file has all.
const WIDTH: usize = 60;

/// Both drivers' results.
#[derive(Serialize)]
pub struct Report {
    suite: String,
    tests: Vec<String>,
    outcomes: BTreeMap<String, Vec<Outcome>>,
    /// What the guest's kernel complained about.
    trouble: BTreeMap<String, String>,
    #[serde(skip)]
    file: PathBuf,
}

impl Report {
    /// A report that is to be filled.
    pub fn new(options: &Options) -> Result<Self> {
        let name = options.name();
        Ok(Self {
            file: options.results()?.join(format!("{name}.json")),
            suite: name,
            tests: options.tests.clone(),
            outcomes: BTreeMap::new(),
            trouble: BTreeMap::new(),
        })
    }

    /// Adds what a driver did.
    pub fn add(&mut self, driver: Driver, ran: Ran) {
        let name = driver.name().to_owned();
        if let Some(trouble) = ran.trouble {
            self.trouble.insert(name.clone(), trouble);
        }
        self.outcomes.insert(name, ran.outcomes);
    }

    fn of(&self, driver: Driver) -> &[Outcome] {
        self.outcomes
            .get(driver.name())
            .map_or(&[], |outcomes| outcomes)
    }

    /// Tests that the kernel's driver passes and ours does not.
    pub fn lost(&self) -> Vec<&str> {
        let c = self.of(Driver::C).iter();
        c.filter(|outcome| outcome.status == Status::Passed)
            .map(|outcome| outcome.test.as_str())
            .filter(|test| status(self.of(Driver::Rust), test) != Status::Passed)
            .collect()
    }

    /// Prints the table and writes the file.
    pub fn publish(&self) -> Result<()> {
        println!("{}", self.table());
        for driver in [Driver::C, Driver::Rust] {
            let of = self.of(driver);
            let count = |status| of.iter().filter(|outcome| outcome.status == status).count();
            println!(
                "{driver}: {} passed, {} failed, {} not run",
                count(Status::Passed),
                count(Status::Failed),
                count(Status::NotRun)
            );
            if let Some(trouble) = self.trouble.get(driver.name()) {
                println!("  {}", trouble.lines().next().unwrap_or_default());
            }
        }
        fs::write(&self.file, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("cannot write {}", self.file.display()))?;
        println!(
            "Results: {}, and the output of both beside it",
            self.file.display()
        );
        match self.lost().as_slice() {
            [] => {}
            lost => println!("Only virtio_blk passes: {}", lost.join(" ")),
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let header = ["test", Driver::C.name(), Driver::Rust.name(), "words"];
        table.load_preset(UTF8_FULL_CONDENSED).set_header(header);
        let (c, ours) = (self.of(Driver::C), self.of(Driver::Rust));
        let only_ours = ours
            .iter()
            .filter(|outcome| status(c, &outcome.test) == Status::Missing);
        for outcome in c.iter().chain(only_ours) {
            let words: String = outcome.words.chars().take(WIDTH).collect();
            table.add_row([
                outcome.test.clone(),
                status(c, &outcome.test).to_string(),
                status(ours, &outcome.test).to_string(),
                words,
            ]);
        }
        table
    }
}

/// How a test ended, if it is among these.
fn status(outcomes: &[Outcome], test: &str) -> Status {
    let found = outcomes.iter().find(|outcome| outcome.test == test);
    found.map_or(Status::Missing, |outcome| outcome.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(test: &str, status: Status) -> Outcome {
        Outcome {
            test: test.to_owned(),
            status,
            words: String::new(),
        }
    }

    #[test]
    fn what_only_c_passes_is_lost() {
        let outcomes = |third| {
            vec![
                outcome("block/001", Status::Passed),
                outcome("block/002", Status::Failed),
                outcome("block/003", third),
            ]
        };
        let mut report = Report {
            suite: "blktests".to_owned(),
            tests: Vec::new(),
            outcomes: BTreeMap::new(),
            trouble: BTreeMap::new(),
            file: PathBuf::new(),
        };
        let ran = |outcomes| Ran {
            outcomes,
            trouble: None,
        };
        report.add(Driver::C, ran(outcomes(Status::Passed)));
        report.add(Driver::Rust, ran(outcomes(Status::Passed)));
        assert!(report.lost().is_empty());
        report.add(Driver::Rust, ran(outcomes(Status::NotRun)));
        assert_eq!(report.lost(), ["block/003"]);
        report.add(Driver::Rust, ran(outcomes(Status::Passed)[..2].to_vec()));
        assert_eq!(report.lost(), ["block/003"]);
    }
}
