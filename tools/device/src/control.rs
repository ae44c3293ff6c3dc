// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The control socket: a JSON object a line asks, and one answers.

use crate::device::Device;
use crate::failures::Failures;
use crate::policy::{check_micros, Policy, MAX_MICROS};
use crate::zoned::Zoned;
use crate::zones::State;
use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Map, Value};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const COMMANDS: &str = "counts, reset_counts, get, set, signal, power_cut, zones, lie or break";
const SETTINGS: &str = "pace_us, latency_us, wait, order, signal or fail";

/// Most signals that one command sends.
const MAX_UNASKED: u64 = 1_000_000;

/// Answers whoever connects, each in a thread of its own.
pub fn start(device: Arc<Device>, listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let device = Arc::clone(&device);
            match stream {
                // Who has gone needs no answer.
                Ok(stream) => drop(thread::spawn(move || converse(&device, stream))),
                Err(error) => eprintln!("control socket: {error}"),
            }
        }
    });
}

fn converse(device: &Device, stream: UnixStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let answer = answer(device, &line);
        writeln!(reader.get_ref(), "{answer}")?;
        line.clear();
    }
    Ok(())
}

/// Answers one line.
pub fn answer(device: &Device, line: &str) -> Value {
    execute(device, line).unwrap_or_else(|error| json!({"error": format!("{error:#}")}))
}

fn execute(device: &Device, line: &str) -> Result<Value> {
    let request: Value =
        serde_json::from_str(line).with_context(|| format!("{:?} is no JSON", line.trim_end()))?;
    let Value::Object(mut request) = request else {
        bail!("{request} is no object: send {{\"command\": ...}}");
    };
    let command = request.remove("command").unwrap_or_default();
    let Some(command) = command.as_str() else {
        bail!("the command is {command}: choose {COMMANDS}");
    };
    let has_arguments = matches!(command, "set" | "signal" | "lie" | "break");
    if !has_arguments {
        if let Some(name) = request.keys().next() {
            bail!("{command} has no argument {name:?}: leave it out");
        }
    }
    match command {
        "counts" => Ok(counts(device)),
        "reset_counts" => {
            for queue in device.queues() {
                queue.counters.reset();
            }
            Ok(json!({}))
        }
        "get" => Ok(json!({"settings": device.policy()})),
        "set" => {
            let policy = change(device.policy(), &request)?;
            device.set_policy(policy);
            Ok(json!({"settings": policy}))
        }
        "signal" => signal(device, &request),
        "power_cut" => Ok(json!({"lost_sectors": device.power_cut()?})),
        "zones" => Ok(json!({"zones": zoned(device)?.describe()})),
        "lie" => {
            let lie = argument(&request, "about")?;
            zoned(device)?.lie(text("about", lie)?.parse()?);
            Ok(json!({}))
        }
        "break" => break_down(device, &request),
        other => bail!("{other:?} is no command: choose {COMMANDS}"),
    }
}

fn counts(device: &Device) -> Value {
    let queues = device.queues().iter();
    let queues: Vec<_> = queues.map(|queue| queue.counters.snapshot()).collect();
    json!({"queues": queues, "last_bad_chain": device.last_malformed()})
}

/// Sends signals that nothing has happened for.
fn signal(device: &Device, request: &Map<String, Value>) -> Result<Value> {
    let index = argument(request, "queue")?;
    let queue = index.as_u64().and_then(|index| usize::try_from(index).ok());
    let queue = queue.and_then(|index| device.queues().get(index));
    let queue = queue.with_context(|| {
        let last = device.queues().len() - 1;
        format!("there is no queue {index}: give 0 to {last}")
    })?;
    let count = argument(request, "count")?;
    let number = count
        .as_u64()
        .filter(|count| (1..=MAX_UNASKED).contains(count));
    let number = number.with_context(|| {
        format!("count cannot be {count}: give a number from 1 to {MAX_UNASKED}")
    })?;
    let gap = micros("gap_us", argument(request, "gap_us")?)?;
    queue.signal_unasked(number, Duration::from_micros(gap))?;
    Ok(json!({}))
}

fn zoned(device: &Device) -> Result<&Zoned> {
    device
        .zoned()
        .context("the disk has no zones: give it some with --zone-sectors")
}

fn argument<'a>(request: &'a Map<String, Value>, name: &str) -> Result<&'a Value> {
    match request.get(name) {
        Some(value) => Ok(value),
        None => bail!("there is no argument {name:?}: give it"),
    }
}

/// Makes a zone unusable.
fn break_down(device: &Device, request: &Map<String, Value>) -> Result<Value> {
    let zoned = zoned(device)?;
    let index = argument(request, "zone")?;
    let state = match text("state", argument(request, "state")?)? {
        "read-only" => State::ReadOnly,
        "offline" => State::Offline,
        other => bail!("{other:?} is no way to break: choose read-only or offline"),
    };
    let number = index.as_u64().and_then(|index| usize::try_from(index).ok());
    number
        .and_then(|number| zoned.break_down(number, state))
        .with_context(|| format!("there is no zone {index}: see the command zones"))?;
    Ok(json!({}))
}

/// Applies settings to a policy. One of pace and latency that is set ends the other.
fn change(mut policy: Policy, settings: &Map<String, Value>) -> Result<Policy> {
    ensure!(!settings.is_empty(), "set needs a setting: {SETTINGS}");
    for (name, value) in settings {
        match name.as_str() {
            "pace_us" => policy.pace_us = micros(name, value)?,
            "latency_us" => policy.latency_us = micros(name, value)?,
            "wait" => policy.wait = text(name, value)?.parse()?,
            "order" => policy.order = text(name, value)?.parse()?,
            "signal" => policy.signal = text(name, value)?.parse()?,
            "fail" => policy.fail = Failures::from_json(value)?,
            _ => bail!("{name:?} is no setting: choose {SETTINGS}"),
        }
    }
    match (
        settings.contains_key("pace_us"),
        settings.contains_key("latency_us"),
    ) {
        (true, false) if policy.pace_us > 0 => policy.latency_us = 0,
        (false, true) if policy.latency_us > 0 => policy.pace_us = 0,
        _ => policy.check()?,
    }
    Ok(policy)
}

fn micros(name: &str, value: &Value) -> Result<u64> {
    let number = value.as_u64().with_context(|| {
        format!("{name} cannot be {value}: give a whole number from 0 to {MAX_MICROS}")
    })?;
    check_micros(number).with_context(|| format!("{name} is too large"))
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str> {
    value
        .as_str()
        .with_context(|| format!("{name} cannot be {value}: give a string"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::zones::Lie;
    use clap::Parser;

    fn device() -> Device {
        let line = [
            "vbr-device",
            "--socket",
            "s",
            "--backing",
            "null",
            "--num-queues",
            "2",
        ];
        Device::new(&Options::parse_from(line)).unwrap()
    }

    #[test]
    fn counts_are_by_queue() {
        let device = device();
        device.queues()[1].counters.signals.add(3);
        let counts = answer(&device, "{\"command\":\"counts\"}");
        assert_eq!(counts["queues"][0]["signals"], 0);
        assert_eq!(counts["queues"][1]["signals"], 3);
        assert_eq!(answer(&device, "{\"command\":\"reset_counts\"}"), json!({}));
        let counts = answer(&device, "{\"command\":\"counts\"}\n");
        assert_eq!(counts["queues"][1]["signals"], 0);
        assert_eq!(counts["last_bad_chain"], Value::Null);
    }

    #[test]
    fn settings_change_alone_and_together() {
        let device = device();
        let set = json!({"command": "set", "pace_us": 20, "wait": "spin", "signal": "delayed=7"});
        let right = json!({"pace_us": 20, "latency_us": 0, "wait": "spin", "order": "in",
                           "signal": "delayed=7", "fail": {}});
        assert_eq!(answer(&device, &set.to_string())["settings"], right);
        let get = json!({"command": "get"}).to_string();
        assert_eq!(answer(&device, &get)["settings"], right);
        assert!(device.queues().iter().all(|queue| queue.bell.is_rung()));
        let set = json!({"command": "set", "latency_us": 50, "order": "random"});
        let settings = &answer(&device, &set.to_string())["settings"];
        assert_eq!(
            (&settings["pace_us"], &settings["latency_us"]),
            (&json!(0), &json!(50))
        );
        let set = json!({"command": "set", "fail": {"read": "ioerr"}}).to_string();
        assert_eq!(answer(&device, &set)["settings"]["fail"]["read"], "ioerr");
        let set = json!({"command": "set", "fail": {}}).to_string();
        assert_eq!(answer(&device, &set)["settings"]["fail"], json!({}));
        let set = json!({"command": "set", "pace_us": 0}).to_string();
        assert_eq!(answer(&device, &set)["settings"]["latency_us"], 50);
    }

    #[test]
    fn zones_are_told_and_broken() {
        let line = "vbr-device --socket s --backing null --size 1048576 --zone-sectors 1024";
        let device = Device::new(&Options::parse_from(line.split(' '))).unwrap();
        let ask = |request: Value| answer(&device, &request.to_string());
        let broken = json!({"command": "break", "zone": 1, "state": "offline"});
        assert_eq!(ask(broken), json!({}));
        let zones = &ask(json!({"command": "zones"}))["zones"];
        assert_eq!(zones[0]["state"], "empty");
        assert_eq!(
            zones[1],
            json!({"start": 1024, "length": 1024, "capacity": 1024, "state": "offline",
                   "written": 1024})
        );
        assert_eq!(ask(json!({"command": "lie", "about": "many"})), json!({}));
        for (request, words) in [
            (
                json!({"command": "lie", "about": "size"}),
                ["size", Lie::NAMES],
            ),
            (json!({"command": "lie"}), ["about", "give it"]),
            (
                json!({"command": "break", "zone": 2, "state": "offline"}),
                ["zone 2", "zones"],
            ),
            (
                json!({"command": "break", "zone": 0, "state": "full"}),
                ["full", "read-only"],
            ),
        ] {
            let error = ask(request)["error"].to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn errors_name_value_range_and_remedy() {
        let device = device();
        let before = device.policy();
        for (line, words) in [
            ("nonsense", ["nonsense", "no JSON"]),
            ("[1]", ["[1]", "command"]),
            ("{}", ["null", COMMANDS]),
            (
                "{\"command\":\"power_cut\"}",
                ["volatile", "--volatile-cache"],
            ),
            ("{\"command\":\"stop\"}", ["stop", COMMANDS]),
            (
                "{\"command\":\"counts\",\"queue\":1}",
                ["queue", "leave it out"],
            ),
            (
                "{\"command\":\"signal\",\"queue\":2,\"count\":1,\"gap_us\":0}",
                ["queue 2", "0 to 1"],
            ),
            (
                "{\"command\":\"signal\",\"queue\":0,\"count\":0,\"gap_us\":0}",
                ["count cannot be 0", "1 to 1000000"],
            ),
            (
                "{\"command\":\"signal\",\"queue\":0,\"count\":1,\"gap_us\":0}",
                ["not in use", "wait"],
            ),
            ("{\"command\":\"zones\"}", ["no zones", "--zone-sectors"]),
            ("{\"command\":\"set\"}", ["setting", SETTINGS]),
            ("{\"command\":\"set\",\"pace\":1}", ["pace", SETTINGS]),
            (
                "{\"command\":\"set\",\"pace_us\":-1}",
                ["-1", "0 to 600000000"],
            ),
            (
                "{\"command\":\"set\",\"pace_us\":600000001}",
                ["600000001", "0 to 600000000"],
            ),
            (
                "{\"command\":\"set\",\"wait\":\"nap\"}",
                ["nap", "sleep or spin"],
            ),
            ("{\"command\":\"set\",\"wait\":3}", ["3", "string"]),
            (
                "{\"command\":\"set\",\"fail\":{\"trim\":\"ioerr\"}}",
                ["trim", "discard"],
            ),
            (
                "{\"command\":\"set\",\"pace_us\":1,\"latency_us\":2}",
                ["1", "set one of them to 0"],
            ),
        ] {
            let answer = answer(&device, line);
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(
                words.iter().all(|word| error.contains(word)),
                "{line}: {answer}"
            );
        }
        assert_eq!(device.policy(), before);
    }
}
