// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What is compared: a driver with its parameters.

use std::fmt;
use std::str::FromStr;

use anyhow::{bail, ensure, Result};
use vm::Driver;

/// A driver with its parameters, under the name that results have it by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// Unique among the settings of a run.
    pub name: String,
    /// Nothing for the floor, which is not on virtio-blk.
    pub driver: Option<Driver>,
    /// Module parameters that are set before the driver binds the disk.
    pub parameters: Vec<(String, String)>,
}

impl Setting {
    /// The name of the floor.
    pub const FLOOR: &str = "null_blk";
    /// The name of the yardstick: the kernel's own driver.
    pub const YARDSTICK: &str = "c";

    /// null_blk: what everything but a driver for virtio-blk costs.
    pub fn floor() -> Self {
        Self {
            name: Self::FLOOR.to_owned(),
            driver: None,
            parameters: Vec::new(),
        }
    }

    /// Whether this is the floor.
    pub fn is_floor(&self) -> bool {
        self.driver.is_none()
    }

    /// The name of the driver's module.
    pub fn driver_name(&self) -> &'static str {
        self.driver.map_or(Self::FLOOR, Driver::name)
    }

    /// Whether this is the yardstick.
    pub fn is_yardstick(&self) -> bool {
        self.driver == Some(Driver::C)
    }
}

/// `c`, a value of `suppress`, or `NAME:PARAMETER=VALUE[+PARAMETER=VALUE]...`.
impl FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let setting = |driver, parameters| Self {
            name: text.split(':').next().unwrap_or_default().to_owned(),
            driver,
            parameters,
        };
        Ok(match text.split_once(':') {
            Some((name, assignments)) => {
                ensure!(
                    !name.is_empty() && name != Self::FLOOR && name != Self::YARDSTICK,
                    "{text:?} needs a name of its own before the colon"
                );
                let parameters = assignments.split('+').map(assignment);
                setting(Some(Driver::Rust), parameters.collect::<Result<_>>()?)
            }
            None => match text {
                Self::YARDSTICK => setting(Some(Driver::C), Vec::new()),
                "off" | "loop" | "delayed" => {
                    let parameter = ("suppress".to_owned(), text.to_owned());
                    setting(Some(Driver::Rust), vec![parameter])
                }
                _ => bail!(
                    "{text:?} is no setting. Choose c, off, loop, delayed, or \
                     NAME:PARAMETER=VALUE[+PARAMETER=VALUE]... for any other parameters of ours"
                ),
            },
        })
    }
}

fn assignment(text: &str) -> Result<(String, String)> {
    let word = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    match text.split_once('=') {
        Some((name, value)) if word(name) && word(value) => Ok((name.to_owned(), value.to_owned())),
        _ => bail!("{text:?} is no PARAMETER=VALUE of letters, digits, '_', '-' and '.'"),
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stand_for_their_parameters() {
        let setting: Setting = "loop".parse().unwrap();
        assert_eq!(setting.driver, Some(Driver::Rust));
        assert_eq!(setting.parameters, [("suppress".into(), "loop".into())]);
        assert!("c".parse::<Setting>().unwrap().is_yardstick());
    }

    #[test]
    fn any_parameters_can_be_named() {
        let setting: Setting = "slow:suppress=delayed+queue_depth=64".parse().unwrap();
        assert_eq!(setting.name, "slow");
        assert_eq!(
            setting.parameters,
            [
                ("suppress".into(), "delayed".into()),
                ("queue_depth".into(), "64".into())
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in [
            "fast",
            ":suppress=off",
            "c:suppress=off",
            "x:suppress",
            "x:a=;rm",
        ] {
            let message = wrong.parse::<Setting>().unwrap_err().to_string();
            let culprit = wrong.rsplit_once(':').map_or(wrong, |(_, last)| last);
            assert!(message.contains(culprit), "{message}");
        }
    }
}
