// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What can be changed while a guest is at work: how long a request takes, in which order
//! requests end, how the worker waits, when it signals, and what fails.

use crate::failures::Failures;
use anyhow::{bail, ensure, Result};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Longest time that can be asked for, in microseconds: ten minutes.
pub const MAX_MICROS: u64 = 600_000_000;

/// All that can be changed while a guest is at work; the default holds nothing back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// A queue's requests end one after the other, each this many microseconds after the one
    /// before, or after it was fetched if the queue was idle. 0: no pace.
    pub pace_us: u64,
    /// Each request ends this many microseconds after it was fetched, many at a time. 0: at once.
    /// Never together with a pace.
    pub latency_us: u64,
    /// How the worker waits.
    pub wait: Wait,
    /// Which request ends when one is due.
    pub order: Order,
    /// When the worker considers a signal.
    pub signal: Signal,
    /// Which operations fail.
    pub fail: Failures,
}

impl Policy {
    /// The same, but nothing is held back.
    pub fn at_once(self) -> Self {
        Self {
            pace_us: 0,
            latency_us: 0,
            signal: Signal::Batch,
            ..self
        }
    }

    /// Checks what belongs together.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.pace_us == 0 || self.latency_us == 0,
            "a pace of {} and a latency of {} us exclude each other: set one of them to 0",
            self.pace_us,
            self.latency_us
        );
        Ok(())
    }
}

/// How a worker waits for the time at which a request ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// The thread sleeps: the host's scheduler adds to each wait.
    #[default]
    Sleep,
    /// The thread looks at the clock all the time: exact, at the price of a processor.
    Spin,
}

/// Which request ends when one is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The one that was fetched first.
    #[default]
    In,
    /// Any of those that have been fetched.
    Random,
}

/// When a worker considers a signal, which the guest may have suppressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Signal {
    /// After each request.
    #[default]
    Each,
    /// After all requests that were due at the same time.
    Batch,
    /// As [`Self::Batch`], but at most once in this many microseconds.
    Delayed(u64),
}

/// Parses a number of microseconds.
pub fn parse_micros(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(micros) => check_micros(micros),
        Err(_) => bail!(
            "{text:?} is no number of microseconds: give a whole number from 0 to {MAX_MICROS}"
        ),
    }
}

/// Checks a number of microseconds.
pub fn check_micros(micros: u64) -> Result<u64> {
    ensure!(
        micros <= MAX_MICROS,
        "{micros} microseconds are too long: choose 0 to {MAX_MICROS}"
    );
    Ok(micros)
}

impl FromStr for Wait {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sleep" => Ok(Self::Sleep),
            "spin" => Ok(Self::Spin),
            _ => bail!("{text:?} is no way to wait: choose sleep or spin"),
        }
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "in" => Ok(Self::In),
            "random" => Ok(Self::Random),
            _ => bail!("{text:?} is no order: choose in or random"),
        }
    }
}

impl FromStr for Signal {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("delayed=")) {
            ("each", _) => Ok(Self::Each),
            ("batch", _) => Ok(Self::Batch),
            (_, Some(micros)) => Ok(Self::Delayed(parse_micros(micros)?)),
            _ => bail!("{text:?} is no signal policy: choose each, batch or delayed=MICROSECONDS"),
        }
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleep => "sleep",
            Self::Spin => "spin",
        })
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Random => "random",
        })
    }
}

impl Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Each => f.write_str("each"),
            Self::Batch => f.write_str("batch"),
            Self::Delayed(micros) => write!(f, "delayed={micros}"),
        }
    }
}

impl Serialize for Wait {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Order {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for name in ["sleep", "spin"] {
            assert_eq!(name.parse::<Wait>().unwrap().to_string(), name);
        }
        for name in ["in", "random"] {
            assert_eq!(name.parse::<Order>().unwrap().to_string(), name);
        }
        for name in ["each", "batch", "delayed=0", "delayed=250"] {
            assert_eq!(name.parse::<Signal>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        for (error, words) in [
            ("nap".parse::<Wait>().unwrap_err(), ["nap", "sleep or spin"]),
            ("".parse::<Order>().unwrap_err(), ["\"\"", "in or random"]),
            (
                "delayed".parse::<Signal>().unwrap_err(),
                ["delayed", "delayed=MICROSECONDS"],
            ),
            (
                "delayed=-1".parse::<Signal>().unwrap_err(),
                ["-1", "0 to 600000000"],
            ),
            (
                parse_micros("600000001").unwrap_err(),
                ["600000001", "0 to 600000000"],
            ),
        ] {
            let message = error.to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }

    #[test]
    fn pace_and_latency_exclude_each_other() {
        let mut policy = Policy {
            pace_us: 20,
            ..Policy::default()
        };
        policy.check().unwrap();
        policy.latency_us = 1;
        assert!(policy.check().unwrap_err().to_string().contains("20"));
    }
}
