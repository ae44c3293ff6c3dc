// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What a suite needs, and how its output is read.

use serde::Serialize;
use std::fmt;
use vm::Transport;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It found that it does not apply.
    NotRun,
    /// The suite did not get that far.
    Missing,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotRun => "not run",
            Self::Missing => "missing",
        })
    }
}

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name, such as `block/003`.
    pub test: String,
    /// How it ended.
    pub status: Status,
    /// What the suite says of that.
    pub words: String,
}

/// The disks that a suite needs.
#[derive(Debug, Clone, Copy)]
pub struct Disks {
    /// `/dev/vda` and so on.
    pub names: &'static [&'static str],
    /// Bytes of each.
    pub size: u64,
    /// What they are behind.
    pub transport: Transport,
}

/// A suite.
pub trait Suite {
    /// The disks that it needs.
    fn disks(&self) -> Disks;

    /// A script that runs it in its own folder, on these disks.
    fn script(&self) -> String;

    /// Reads its output, which need not be complete.
    fn parse(&self, output: &str) -> Vec<Outcome>;
}
