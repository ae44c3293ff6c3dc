// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! `make blktests` and `make xfstests`: test suites that were not written here, on the kernel's
//! own driver and on ours, side by side.
//!
//! | file | holds |
//! |---|---|
//! | `options` | the command line |
//! | `suite` | what a suite needs, and how its output is read |
//! | `blktests`, `xfstests` | the two |
//! | `run` | a guest in which a suite runs on one driver |
//! | `report` | what came out, as a table and as JSON |

mod blktests;
mod options;
mod report;
mod run;
mod suite;
mod xfstests;

use anyhow::Result;
use clap::Parser;
use options::Options;
use report::Report;
use std::process::ExitCode;
use vm::Driver;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let suite = options.suite();
    let mut report = Report::new(&options)?;
    for driver in [Driver::C, Driver::Rust] {
        let ran = run::on(driver, suite.as_ref(), &options)?;
        report.add(driver, ran);
    }
    report.publish()?;
    // What neither driver passes is not about ours.
    Ok(if report.lost().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
