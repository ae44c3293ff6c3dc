// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command lines of `vbr bench` and `vbr report`.

use crate::options::seconds;
use crate::suite::catalogue::{Catalogue, Scenario};
use crate::suite::extent::Extent;
use anyhow::{bail, Context, Result};
use clap::Args;
use std::path::PathBuf;
use vm::Accel;

/// Where the reference lies in the checkout.
const REFERENCE: &str = "tools/bench/reference.json";

/// Options of `vbr bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchOptions {
    /// List the scenarios and end
    #[arg(long)]
    pub list: bool,

    /// Counts and guest cost only, compared with the reference; takes less than five minutes
    #[arg(long)]
    pub quick: bool,

    /// Measure only these scenarios
    #[arg(long = "scenario", value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    names: Vec<String>,

    /// How often everything is measured, instead of what the scenarios say; 95 % intervals need
    /// at least 6
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// Seconds that each job runs, from 0.1 to 3600, instead of what the scenarios say
    #[arg(long, value_parser = seconds)]
    runtime: Option<f64>,

    /// Keep what an earlier run has measured of other scenarios
    #[arg(long)]
    pub update: bool,

    /// A file of scenarios instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,

    /// The reference for --quick [default: tools/bench/reference.json of the checkout]
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,

    /// Make a new reference of what --quick measures
    #[arg(long, requires = "quick")]
    pub update_reference: bool,

    /// How the guest's processors are made, where no instructions are counted: auto (KVM if it
    /// works), kvm or tcg
    #[arg(long, default_value = "auto")]
    pub accel: Accel,
}

/// Options of `vbr report`.
#[derive(Debug, Clone, Args)]
pub struct ReportOptions {
    /// What was measured [default: bench.json in the folder for results]
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,

    /// The folder to write to [default: the folder for results]
    #[arg(long, value_name = "FOLDER")]
    pub into: Option<PathBuf>,
}

impl BenchOptions {
    /// The scenarios to measure.
    pub fn scenarios<'a>(&self, catalogue: &'a Catalogue) -> Result<Vec<&'a Scenario>> {
        if self.names.is_empty() {
            let all = catalogue.scenarios.iter();
            return Ok(all
                .filter(|scenario| scenario.quick == self.quick)
                .collect());
        }
        let named = self.names.iter().map(|name| {
            let scenario = catalogue.scenario(name)?;
            if scenario.quick != self.quick {
                let remedy = if scenario.quick { "add" } else { "leave out" };
                bail!("the scenario {name} is not of this form: {remedy} --quick");
            }
            Ok(scenario)
        });
        named.collect()
    }

    /// How much of a scenario to measure.
    pub fn extent(&self, scenario: &Scenario) -> Extent {
        Extent::of(scenario, self.rounds, self.runtime)
    }

    /// Where the reference is.
    pub fn reference(&self) -> Result<PathBuf> {
        if let Some(path) = &self.reference {
            return Ok(path.clone());
        }
        let checkout = std::env::var_os("SOURCE_DIR").context(
            "The environment variable SOURCE_DIR is not set. Start this program with `make`, or \
             name the reference with --reference.",
        )?;
        Ok(PathBuf::from(checkout).join(REFERENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: BenchOptions,
    }

    fn names(arguments: &str) -> Result<Vec<String>> {
        let words = format!("x {arguments}");
        let options = Program::try_parse_from(words.split_whitespace())?.options;
        let catalogue = Catalogue::read(None)?;
        let scenarios = options.scenarios(&catalogue)?;
        Ok(scenarios.into_iter().map(|s| s.name.clone()).collect())
    }

    #[test]
    fn the_forms_have_no_scenario_in_common() {
        let (full, quick) = (names("").unwrap(), names("--quick").unwrap());
        assert!(full.contains(&"classic".to_owned()) && !quick.is_empty());
        assert!(quick.iter().all(|name| !full.contains(name)));
        assert_eq!(names("--scenario qd1 steps").unwrap(), ["qd1", "steps"]);
        assert_eq!(names("--scenario qd1,steps").unwrap(), ["qd1", "steps"]);
    }

    #[test]
    fn mistakes_are_named_with_a_remedy() {
        for (arguments, words) in [
            ("--scenario fast", ["fast", "Choose from cost"]),
            ("--scenario qd1 --quick", ["qd1", "leave out --quick"]),
            ("--scenario quick-cost", ["quick-cost", "add --quick"]),
            ("--rounds 0", ["'0'", "1..=1000"]),
            ("--runtime 0", ["'0'", "0.1 to 3600"]),
            ("--update-reference", ["--quick", "required"]),
        ] {
            let message = format!("{:#}", names(arguments).unwrap_err());
            assert!(
                words.iter().all(|word| message.contains(word)),
                "{arguments}: {message}"
            );
        }
    }
}
