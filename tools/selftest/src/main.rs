// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Tests the driver in guests: each test is a function, registered in [`tests::all`].
//!
//! The output is TAP, with a closing line `N passed, N failed` and an exit status that agrees.

mod fio;
mod guest;
mod lab;
mod load;
mod open_disk;
mod options;
mod qmp;
mod runner;
mod suite;
mod tap;
mod tests;

use anyhow::Result;
use clap::Parser;
use options::Options;
use std::process::ExitCode;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let groups = options.select(tests::all());
    if groups.is_empty() {
        anyhow::bail!(
            "No test has all of the words {:?}. See --list.",
            options.words
        );
    }
    if options.list {
        for group in &groups {
            for test in &group.tests {
                println!("{}/{}", group.name, test.name);
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if runner::run(groups, &options)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
