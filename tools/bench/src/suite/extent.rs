// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How much of a scenario is measured.

use crate::suite::catalogue::Scenario;
use std::time::Duration;

/// Rounds and their length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// How often everything is measured.
    pub rounds: u32,
    /// How long one run lasts.
    pub runtime: Duration,
    /// I/Os of one run that counts instructions.
    pub ios: u64,
}

impl Extent {
    /// What the scenario says, unless the command line says something else.
    pub fn of(scenario: &Scenario, rounds: Option<u32>, runtime: Option<f64>) -> Self {
        Self {
            rounds: rounds.unwrap_or(scenario.rounds),
            runtime: Duration::from_secs_f64(runtime.unwrap_or(scenario.runtime)),
            ios: scenario.ios,
        }
    }
}
