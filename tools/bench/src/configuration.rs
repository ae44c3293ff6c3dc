// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What is compared: a driver with a way to suppress interrupts.

use anyhow::{bail, Result};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use vm::Driver;

/// One column of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Configuration {
    /// The kernel's own driver, whose loop cannot be changed.
    C,
    /// Ours, which never disables callbacks.
    Off,
    /// Ours, which disables callbacks while it drains.
    Loop,
    /// Ours, which asks for the next callback later.
    Delayed,
}

impl Configuration {
    /// The driver to load.
    pub fn driver(self) -> Driver {
        match self {
            Self::C => Driver::C,
            Self::Off | Self::Loop | Self::Delayed => Driver::Rust,
        }
    }

    /// The value of our driver's parameter `suppress`.
    pub fn suppress(self) -> Option<&'static str> {
        match self {
            Self::C => None,
            Self::Off => Some("off"),
            Self::Loop => Some("loop"),
            Self::Delayed => Some("delayed"),
        }
    }

    /// What a person reads in the table and in the picture.
    pub fn label(self) -> String {
        match self.suppress() {
            None => "C".to_owned(),
            Some(mode) => format!("Rust {mode}"),
        }
    }
}

impl FromStr for Configuration {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "c" => Ok(Self::C),
            "off" => Ok(Self::Off),
            "loop" => Ok(Self::Loop),
            "delayed" => Ok(Self::Delayed),
            _ => bail!("{text:?} is no configuration. Choose from c, off, loop and delayed"),
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.suppress().unwrap_or("c"))
    }
}

impl Serialize for Configuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The order in which a job of a round is run: each contestant comes first, second, ... equally
/// often, so that a machine that grows slower or faster favours none. Every other job goes back
/// the way that the one before came, which spares loading a driver between them.
pub fn order<T: Clone>(contestants: &[T], round: u32, job: usize) -> Vec<T> {
    let mut order = contestants.to_vec();
    let shift = round as usize % order.len().max(1);
    order.rotate_left(shift);
    if job % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use Configuration::*;

    #[test]
    fn names_are_read_back() {
        for configuration in [C, Off, Loop, Delayed] {
            assert_eq!(
                configuration.to_string().parse::<Configuration>().unwrap(),
                configuration
            );
        }
    }

    #[test]
    fn each_configuration_takes_each_place() {
        let all = [C, Off, Loop, Delayed];
        for (job, place) in (0..2).flat_map(|job| (0..4).map(move |place| (job, place))) {
            let mut seen: Vec<_> = (0..4).map(|round| order(&all, round, job)[place]).collect();
            seen.sort();
            assert_eq!(seen, all);
        }
    }

    #[test]
    fn the_last_of_a_job_is_the_first_of_the_next() {
        let all = [C, Off, Loop, Delayed];
        assert_eq!(order(&all, 3, 0).last(), order(&all, 3, 1).first());
    }
}
