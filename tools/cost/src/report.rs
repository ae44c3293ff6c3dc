// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The results, in the form of `results/cost.json`; Documentation/cost.rst describes the fields.

use std::cmp::Ordering;

use anyhow::Result;
use measuring::{median, spread_percent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::profile::Profile;
use crate::settings::Setting;

/// Functions that cost less than this, in instructions per I/O, are left out of profiles.
const NEGLIGIBLE: f64 = 0.5;

/// All results of one run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// What was measured on.
    pub environment: Environment,
    /// What was measured, in the order in which it was asked for.
    pub settings: Vec<Outcome>,
}

/// What was measured on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Environment {
    /// `uname -r` of the guest.
    pub kernel: String,
    /// QEMU's version.
    pub qemu: String,
    /// How the guest's processor is made.
    pub accelerator: String,
    /// The whole command line.
    pub qemu_command_line: String,
    /// Properties of the disk under test.
    pub disk: Map<String, Value>,
    /// The job, with DEVICE in the place of the block device.
    pub job: String,
    /// I/Os of a job.
    pub ios: u64,
    /// Kernel instructions of one tick of the guest's timer, with all else that time costs.
    pub instructions_per_tick: f64,
    /// Distance of the extremes of the line above.
    pub instructions_per_tick_spread_percent: f64,
}

/// What one setting costs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// Its name.
    pub setting: String,
    /// `null_blk`, `virtio_blk` or `virtio_blk_rs`.
    pub driver: String,
    /// Module parameters of ours.
    pub parameters: Map<String, Value>,
    /// Features of the disk that the driver has accepted.
    pub features: Vec<String>,
    /// Median over the passes.
    pub kernel_instructions_per_io: f64,
    /// Half the distance of the extremes, in percent of the median.
    pub spread_percent: f64,
    /// What is left without the floor.
    pub driver_cost: f64,
    /// Driver cost as a ratio to the C driver's.
    pub ratio_to_c: Option<f64>,
    /// Median over the passes.
    pub irq_per_kio: f64,
    /// Every pass, none dropped.
    pub passes: Vec<Pass>,
    /// The dearest functions first; empty without a profile.
    pub profile: Vec<Function>,
}

/// One pass of one setting.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Pass {
    /// Without the timer's ticks and what comes with them.
    pub kernel_instructions_per_io: f64,
    /// As counted.
    pub kernel_instructions_per_io_with_ticks: f64,
    /// fio's own.
    pub user_instructions_per_io: f64,
    /// Ticks of the guest's timer during the job.
    pub ticks: u64,
    /// Interrupts of the request queues per 1,000 I/Os.
    pub irq_per_kio: f64,
    /// How fast the guest was while it was counted; no measure of the driver.
    pub iops: f64,
}

/// One function's part.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Function {
    /// Its name, with the module in brackets.
    pub function: String,
    /// Median over the passes.
    pub instructions_per_io: f64,
    /// The same without what it costs with null_blk.
    pub over_null_blk: f64,
}

/// The passes of one setting.
pub struct Measured {
    /// What was measured.
    pub setting: Setting,
    /// Features of the disk that the driver has accepted.
    pub features: Vec<String>,
    /// The figures.
    pub passes: Vec<Pass>,
    /// Profile of each pass, without the timer's ticks.
    pub profiles: Vec<Profile>,
}

impl Report {
    /// The text of the JSON file.
    pub fn to_json(&self) -> Result<String> {
        let value = rounded(serde_json::to_value(self)?);
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

impl Outcome {
    /// Sums up all settings of a run; `top` functions are kept of each profile.
    pub fn all(measured: &[Measured], top: usize) -> Vec<Self> {
        let find = |is: fn(&Setting) -> bool| measured.iter().find(|m| is(&m.setting));
        let floor = find(Setting::is_floor);
        let floor_profile = floor
            .map(|m| Profile::median(&m.profiles))
            .unwrap_or_default();
        let cost = |m: &Measured| m.total() - floor.map_or(0.0, Measured::total);
        let yardstick = find(Setting::is_yardstick).map(cost);
        measured
            .iter()
            .map(|m| Self {
                setting: m.setting.name.clone(),
                driver: m.setting.driver_name().to_owned(),
                parameters: m.setting.parameters.iter().map(json_pair).collect(),
                features: m.features.clone(),
                kernel_instructions_per_io: m.total(),
                spread_percent: spread_percent(&m.column(|p| p.kernel_instructions_per_io)),
                driver_cost: cost(m),
                ratio_to_c: yardstick
                    .filter(|c| *c > 0.0 && !m.setting.is_floor())
                    .map(|c| cost(m) / c),
                irq_per_kio: median(&m.column(|pass| pass.irq_per_kio)),
                passes: m.passes.clone(),
                profile: functions(&Profile::median(&m.profiles), &floor_profile, top),
            })
            .collect()
    }

    /// Whether this is the floor itself.
    pub fn is_floor(&self) -> bool {
        self.setting == Setting::FLOOR
    }
}

impl Measured {
    fn total(&self) -> f64 {
        median(&self.column(|pass| pass.kernel_instructions_per_io))
    }

    fn column(&self, of: impl Fn(&Pass) -> f64) -> Vec<f64> {
        self.passes.iter().map(of).collect()
    }
}

fn json_pair((name, value): &(String, String)) -> (String, Value) {
    (name.clone(), value.as_str().into())
}

/// The `top` functions by how much more or less they cost than on the floor, and the floor's own by
/// what they cost.
fn functions(profile: &Profile, floor: &Profile, top: usize) -> Vec<Function> {
    let over = profile.minus(floor).functions;
    let mut functions: Vec<Function> = over
        .into_iter()
        .map(|(function, over_null_blk)| Function {
            instructions_per_io: profile
                .functions
                .get(&function)
                .copied()
                .unwrap_or_default(),
            over_null_blk,
            function,
        })
        .filter(|f| f.over_null_blk.abs().max(f.instructions_per_io) >= NEGLIGIBLE)
        .collect();
    let key = |f: &Function| (f.over_null_blk.abs(), f.instructions_per_io);
    functions.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal));
    functions.truncate(top);
    functions
}

/// All numbers with three decimals at most: the others mean nothing.
pub fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or_default();
            ((exact * 1000.0).round() / 1000.0).into()
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, rounded(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(setting: &str, costs: &[f64], functions: &[(&str, f64)]) -> Measured {
        let pass = |cost: &f64| Pass {
            kernel_instructions_per_io: *cost,
            kernel_instructions_per_io_with_ticks: cost + 50.0,
            user_instructions_per_io: 1000.0,
            ticks: 10,
            irq_per_kio: 300.0,
            iops: 1.0,
        };
        let functions = functions.iter().map(|(name, n)| ((*name).to_owned(), *n));
        let profile = Profile {
            total: 0.0,
            functions: functions.collect(),
        };
        Measured {
            setting: match setting {
                Setting::FLOOR => Setting::floor(),
                name => name.parse().unwrap(),
            },
            features: Vec::new(),
            passes: costs.iter().map(pass).collect(),
            profiles: vec![profile; costs.len()],
        }
    }

    #[test]
    fn costs_are_what_is_above_the_floor() {
        let outcomes = Outcome::all(
            &[
                measured("null_blk", &[5000.0, 4990.0, 5010.0], &[]),
                measured("c", &[7000.0, 7100.0, 6900.0], &[]),
                measured("loop", &[6500.0, 6500.0, 6500.0], &[]),
            ],
            9,
        );
        let costs: Vec<_> = outcomes.iter().map(|o| o.driver_cost).collect();
        let ratios: Vec<_> = outcomes.iter().map(|o| o.ratio_to_c).collect();
        assert_eq!(costs, [0.0, 2000.0, 1500.0]);
        assert_eq!(ratios, [None, Some(1.0), Some(0.75)]);
        assert_eq!(outcomes[2].driver, "virtio_blk_rs");
    }

    #[test]
    fn without_the_c_driver_there_is_no_ratio() {
        let both = [
            measured("null_blk", &[1.0], &[]),
            measured("off", &[3.0], &[]),
        ];
        let all = Outcome::all(&both, 9);
        assert_eq!((all[1].driver_cost, all[1].ratio_to_c), (2.0, None));
    }

    #[test]
    fn functions_are_sorted_by_their_difference_to_the_floor() {
        let floor = measured("null_blk", &[1.0], &[("common", 100.0), ("null", 9.0)]);
        let functions = [
            ("common", 101.0),
            ("kick", 8.0),
            ("add", 30.0),
            ("rare", 0.1),
        ];
        let all = Outcome::all(&[floor, measured("c", &[1.0], &functions)], 2);
        let names: Vec<_> = all[1].profile.iter().map(|f| f.function.as_str()).collect();
        assert_eq!(names, ["add", "null"]);
        assert_eq!(all[0].profile[0].function, "common");
        assert_eq!(all[1].profile[0].over_null_blk, 30.0);
        assert_eq!(all[1].profile[1].over_null_blk, -9.0);
    }

    #[test]
    fn numbers_are_rounded_and_counts_are_not() {
        let value = rounded(json!({"a": [0.12345, 123456789], "b": null}));
        assert_eq!(value, json!({"a": [0.123, 123456789], "b": null}));
    }
}
