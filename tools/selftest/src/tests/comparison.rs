// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What user space sees of a disk, by the kernel's own driver and by ours: the same, but for
//! improvements that are listed here, and explained in Documentation/differences.rst.

use crate::guest::secs;
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use vm::{Backend, DeviceConfig, Disk, Driver, FrontEnd, Vm, VmBuilder, JOB_DIR};

/// Collects what there is to see of disks.
const COLLECT: &str = include_str!("comparison/collect.py");

/// Has udev look at all disks, and go before it gets into the way.
const UDEV: &str = "set -e
    /usr/lib/systemd/systemd-udevd --daemon --resolve-names=never
    udevadm trigger --settle --action=add --subsystem-match=block
    udevadm control --exit";

/// Where the improvements are explained.
const DIFFERENCES: &str = include_str!("../../../../Documentation/differences.rst");

/// What is seen of a disk.
type Seen = BTreeMap<String, Value>;

/// A difference that is wanted.
struct Improvement {
    /// Where it is met: a name, or the start of one before a star, for all disks or for that before
    /// a colon.
    key: &'static str,
    /// Its heading in the document.
    heading: &'static str,
}

const fn improvement(key: &'static str, heading: &'static str) -> Improvement {
    Improvement { key, heading }
}

const IMPROVEMENTS: &[Improvement] = &[
    improvement("batch*", "Files of its own"),
    improvement("coalesce_*", "Files of its own"),
    improvement("indirect*", "Files of its own"),
    improvement("lock*", "Files of its own"),
    improvement("num_request_queues*", "Files of its own"),
    improvement("poll_queues*", "Files of its own"),
    improvement("queue_depth*", "Files of its own"),
    improvement("suppress*", "Files of its own"),
    improvement("used_event_hint*", "Files of its own"),
    improvement("queue/io_timeout*", "The timeout of requests"),
    improvement("write '0' to queue/io_timeout", "The timeout of requests"),
    improvement(
        "write '31000' to queue/io_timeout",
        "The timeout of requests",
    ),
    improvement("no-id: serial*", "A device without a serial number"),
    improvement(
        "blocks-of-4096: queue/write_zeroes_max_bytes",
        "Ranges of the disk",
    ),
];

impl Improvement {
    fn is_about(&self, disk: &str, key: &str) -> bool {
        let (name, is_about_it) = match self.key.split_once(": ") {
            Some((only, name)) => (name, only == disk),
            None => (self.key, true),
        };
        is_about_it
            && match name.strip_suffix('*') {
                Some(start) => key.starts_with(start),
                None => key == name,
            }
    }
}

pub fn groups() -> Vec<Group> {
    let group = Group::new("comparison")
        .alone(
            "both drivers show user space the same disks, QEMU's",
            |lab| compare(lab, &qemus_disks(lab)?),
        )
        .alone(
            "both drivers show user space the same disks, programmable ones",
            |lab| compare(lab, &programmable_disks()),
        );
    vec![group]
}

fn qemus_disks(lab: &Lab) -> Result<Vec<Disk>> {
    let disk = |id| anyhow::Ok(Disk::new(id, lab.scratch(64 << 20)?.backend()));
    let read_only = serde_json::json!({
        "driver": "file", "filename": lab.scratch(64 << 20)?.path(), "read-only": true
    });
    Ok(vec![
        disk("plain")?
            .property("discard", false)
            .property("write-zeroes", false),
        Disk::new("read-only", Backend::Blockdev(read_only)),
        disk("blocks-of-4096")?
            .property("logical_block_size", 4096)
            .property("physical_block_size", 4096),
        disk("topology")?
            .property("physical_block_size", 4096)
            .property("min_io_size", 8192)
            .property("opt_io_size", 65536),
        disk("two-queues")?.num_queues(2).queue_size(128),
        disk("discard")?
            .property("discard", true)
            .property("write-zeroes", true)
            .property("max-discard-sectors", 2048)
            .property("discard_granularity", 4096),
        disk("no-cache")?.property("write-cache", "off"),
        disk("cache-modes")?
            .property("config-wce", true)
            .property("write-cache", "on"),
        disk("fixed-cache")?
            .property("config-wce", false)
            .property("write-cache", "on"),
        disk("geometry")?
            .property("cyls", 100)
            .property("heads", 16)
            .property("secs", 63),
        disk("legacy")?
            .property("disable-modern", true)
            .property("disable-legacy", "off"),
        disk("modern")?
            .property("disable-legacy", "on")
            .property("packed", true),
        disk("direct")?
            .property("serial", "12345678901234567890")
            .indirect_desc(false),
        disk("no-serial")?.property("serial", ""),
    ])
}

fn programmable_disks() -> Vec<Disk> {
    let disk = |id, config| Disk::new(id, Backend::device(config));
    let ram = || DeviceConfig::ram(64 << 20);
    vec![
        disk("device", ram()),
        disk("test-device", ram().front_end(FrontEnd::Test)),
        disk("few-segments", ram().argument("--seg-max=2")),
        disk("no-id", ram().argument("--no-serial")),
        disk("no-cache", ram().argument("--write-cache=off")),
    ]
}

/// Demands that each improvement is explained under its heading.
fn check_document() -> Result<()> {
    for improvement in IMPROVEMENTS {
        let heading = improvement.heading;
        let title = format!("\n{heading}\n{}\n", "=".repeat(heading.chars().count()));
        ensure!(
            DIFFERENCES.contains(&title),
            "no heading explains {heading:?}"
        );
    }
    Ok(())
}

/// Has both drivers show the disks, one after the other, and demands that nothing differs but what
/// is listed.
fn compare(lab: &Lab, disks: &[Disk]) -> Result<()> {
    check_document()?;
    let guest = disks
        .iter()
        .cloned()
        .fold(Vm::builder().vcpus(2), VmBuilder::disk);
    let vm = lab.boot(guest)?;
    fs::write(vm.job_dir().join("collect.py"), COLLECT)?;
    let c = collect(&vm, Driver::C, disks)?;
    let rust = collect(&vm, Driver::Rust, disks)?;
    let mut wrong = Vec::new();
    for (disk, ours) in &rust {
        let theirs = c.get(disk).with_context(|| format!("C has no {disk}"))?;
        ensure!(
            theirs.len() > 100 && theirs.contains_key("udev DEVLINKS"),
            "too little is seen of {disk}: {theirs:?}"
        );
        let keys: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
        for key in keys {
            let (c, rust) = (theirs.get(key), ours.get(key));
            if c != rust && !IMPROVEMENTS.iter().any(|one| one.is_about(disk, key)) {
                let show = |value: Option<&Value>| value.map_or("absent".into(), Value::to_string);
                wrong.push(format!("{disk}: {key}: {} with C, {}", show(c), show(rust)));
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} differences that are no listed improvements:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    vm.shutdown()
}

fn collect(vm: &Vm, driver: Driver, disks: &[Disk]) -> Result<BTreeMap<String, Seen>> {
    vm.load(driver, "")?;
    let mut arguments = String::new();
    for disk in disks {
        let id = disk.id();
        arguments += &format!(" {}={id}", vm.block_device(id)?);
    }
    vm.sh(UDEV).context("udev does not work")?;
    let script = format!("python3 {JOB_DIR}/collect.py{arguments}");
    let text = vm.sh_for(secs(600), &script)?;
    vm.unload(driver)?;
    serde_json::from_str(&text).with_context(|| format!("{driver}: {text:?} is no collection"))
}
