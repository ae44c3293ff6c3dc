// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Configurations and reports of zones that make no sense: a disk is refused, or a report fails,
//! with words that say why, and soon.

use super::{plug, ZONE, ZONES};
use crate::guest::{expect, secs, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use serde_json::json;
use vm::{Backend, DeviceConfig, Disk, Vm};

/// A disk whose reports become false.
const DISK: &str = "liar";

/// What a device says of its zones, and why that is refused.
const UNUSABLE: [(&str, &[&str], &str); 8] = [
    ("no-size", &["sectors=0"], "zone_sectors 0 is unusable"),
    (
        "odd-size",
        &["sectors=2047"],
        "zone_sectors 2047 is unusable",
    ),
    (
        "no-granularity",
        &["sectors=2048", "write-granularity=0"],
        "write_granularity 0 is unusable",
    ),
    (
        "odd-granularity",
        &["sectors=2048", "write-granularity=1536"],
        "write_granularity 1536 is unusable",
    ),
    (
        "large-granularity",
        &["sectors=2048", "write-granularity=2147483648"],
        "write_granularity 2147483648 is unusable",
    ),
    (
        "short-append",
        &["sectors=2048", "write-granularity=4096", "max-append=7"],
        "max_append_sectors 7 is unusable",
    ),
    (
        "more-open",
        &["sectors=2048", "max-open=5", "max-active=4"],
        "max_open_zones 5 is unusable",
    ),
    (
        "model",
        &["sectors=2048", "model=3"],
        "zone model 3 is unknown",
    ),
];

/// How a report is false, and what is said about it.
const LIES: [(&str, &str); 8] = [
    ("empty", "it is not reported"),
    ("stuck", "one at 0 is reported in its place"),
    ("skip", "one at 2048 is reported in its place"),
    ("far", "one at 18446744073709549568 is reported"),
    ("large", "invalid capacity 2049"),
    ("pointer", "invalid write pointer"),
    ("kind", "invalid type 0x4"),
    ("state", "invalid state 0x5"),
];

pub fn group() -> Group {
    Group::new("zoned")
        .guest(|_| {
            let disk = Disk::new(DISK, Backend::device(config(&["sectors=2048"])));
            Ok(Vm::builder().disk(disk))
        })
        .shared("unusable values are refused with their range", unusable)
        .shared(
            "a disk that reports nonsense is refused",
            lying_from_the_start,
        )
        .shared("a report that is nonsense fails", lying_later)
        .shared("other models are disks without zones", other_models)
        .shared("a disk without appends has them by writes", without_appends)
}

fn config(options: &[&str]) -> DeviceConfig {
    // One segment: a report of all zones takes more than one request.
    // The last zone is a short one.
    DeviceConfig::ram((2 * ZONES * ZONE - ZONE / 2) * 512)
        .argument("--seg-max=1")
        .zoned(options)
}

/// Plugs a disk in, demands that it is refused with these words, and takes it out.
fn refused(vm: &Vm, id: &str, options: &[&str], words: &str) -> Result<()> {
    plug(vm, id, config(options))?;
    let device = vm.virtio_device(id)?;
    wait_until(&format!("{id} is refused"), secs(30), || {
        let log = vm.dmesg()?;
        let mut lines = log.lines();
        Ok(lines.any(|line| line.contains(&device) && line.contains(words)))
    })?;
    wait_until(&format!("{id} has no driver"), secs(30), || {
        let bound = format!("test ! -e /sys/bus/virtio/devices/{device}/driver");
        Ok(vm.try_sh(secs(10), &bound)?.status == 0)
    })?;
    vm.unplug(id)
}

fn unusable(_lab: &Lab, vm: &Vm) -> Result<()> {
    let mut cases = UNUSABLE.iter();
    cases.try_for_each(|(id, options, words)| refused(vm, id, options, words))
}

fn lying_from_the_start(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (lie, words) in LIES {
        let option = format!("lie={lie}");
        refused(
            vm,
            &format!("first-{lie}"),
            &["sectors=2048", &option],
            words,
        )?;
    }
    Ok(())
}

fn lying_later(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let lie = |about: &str| {
        vm.device(DISK)?
            .ask(&json!({"command": "lie", "about": about}))
    };
    let report = format!("blkzone report /dev/{name}");
    for (about, words) in LIES {
        lie(about)?;
        let before = vm.dmesg()?.matches(words).count();
        let output = vm.try_sh(secs(30), &report)?;
        ensure!(
            output.status != 0 && output.stderr.contains("Input/output error"),
            "a report that lies about {about}: {output:?}"
        );
        let said = vm.dmesg()?.matches(words).count() - before;
        ensure!(said > 0, "nobody says {words:?} about {about}");
    }
    // More than there are is as many as there are.
    for about in ["many", "nothing"] {
        lie(about)?;
        let lines = vm.sh(&format!("{report} | wc -l"))?;
        expect("zones", lines.trim(), &(2 * ZONES).to_string())?;
    }
    Ok(())
}

fn other_models(_lab: &Lab, vm: &Vm) -> Result<()> {
    for model in [0, 2] {
        let id = format!("model-{model}");
        let options = [&format!("model={model}"), "sectors=2048"];
        plug(vm, &id, config(&options))?;
        let name = vm.block_device(&id)?;
        let zoned = vm.sh(&format!("cat /sys/block/{name}/queue/zoned"))?;
        expect("whether it is zoned", zoned.trim(), "none")?;
        vm.sh(&format!(
            "dd if=/dev/zero of=/dev/{name} bs=4k seek=77 count=9 oflag=direct status=none"
        ))?;
        vm.unplug(&id)?;
    }
    Ok(())
}

/// The C driver refuses such a disk, which the specification allows.
fn without_appends(_lab: &Lab, vm: &Vm) -> Result<()> {
    let id = "no-append";
    let options = ["sectors=2048", "max-append=0"];
    plug(vm, id, config(&options))?;
    let name = vm.block_device(id)?;
    let most = vm.sh(&format!(
        "cat /sys/block/{name}/queue/zone_append_max_bytes"
    ))?;
    expect("the longest append", most.trim(), &(ZONE * 512).to_string())?;
    vm.sh(&format!(
        "dd if=/dev/zero of=/dev/{name} bs=4k count=9 oflag=direct status=none"
    ))?;
    vm.unplug(id)
}
