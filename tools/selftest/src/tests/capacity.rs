// SPDX-License-Identifier: GPL-2.0

//! The size of a disk, and its changes.

use crate::guest::{expect, number, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vm::{Disk, Driver, Transport, Vm};

const DISK: &str = "sparse";

/// Sizes in sectors that differ in both halves of the 64-bit field, so that a torn read of it is
/// neither of them.
const BELOW: u64 = 0xffff_fff8;
const ABOVE: u64 = 0x1_0000_0008;

pub fn groups() -> Vec<Group> {
    [("pci", Transport::Pci), ("mmio", Transport::Mmio)]
        .into_iter()
        .map(|(name, transport)| {
            Group::new("capacity").alone(
                format!("no torn size while it changes across 2 TiB, {name}"),
                move |lab| across_2_tib(lab, transport),
            )
        })
        .collect()
}

/// Case 13: the field is read in two halves, between which the device may change it.
fn across_2_tib(lab: &Lab, transport: Transport) -> Result<()> {
    let scratch = lab.scratch(BELOW * 512)?;
    let disk = Disk::new(DISK, scratch.backend()).transport(transport);
    let node = disk.node();
    let vm = lab.boot(
        Vm::builder()
            .disk(disk)
            // The modern interface, which has a generation counter.
            .qemu_arguments(["-global", "virtio-mmio.force-legacy=off"])
            .kernel_argument("log_buf_len=16M"),
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device(DISK)?;
    let file = format!("/sys/block/{name}/size");
    expect("the size in sectors", number(&vm, &file)?, BELOW)?;

    let seconds = lab.scale(5, 120);
    let reader = vm.spawn(
        Duration::from_secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); while test $SECONDS -lt $end; do \
             read size <{file}; echo $size; done | sort | uniq -c"
        ),
    )?;
    let resize = |sectors: u64| {
        let size = sectors * 512;
        let arguments = json!({"node-name": node, "size": size});
        vm.monitor().execute("block_resize", arguments)
    };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut resizes = 0;
    while Instant::now() < deadline {
        resize(ABOVE)?;
        resize(BELOW)?;
        resizes += 2;
    }
    let mut seen = counts(&reader.wait_ok()?)?;
    // What the driver has read from the device, every single time.
    let log =
        vm.sh("dmesg | sed -n 's/.*new size: \\([0-9]*\\) sectors.*/\\1/p' | sort | uniq -c")?;
    let read_by_driver = counts(&log)?;
    let changes: u64 = read_by_driver.values().sum();
    ensure!(
        changes > 20,
        "the driver saw {changes} of {resizes} changes"
    );
    for (size, count) in read_by_driver {
        *seen.entry(size).or_default() += count;
    }
    let sizes: Vec<_> = seen.keys().copied().collect();
    expect(
        "the list of sizes that were seen",
        sizes,
        vec![BELOW, ABOVE],
    )?;

    // The last change is never lost.
    resize(ABOVE)?;
    wait_until(
        "the disk has its last size",
        Duration::from_secs(10),
        || Ok(number::<u64>(&vm, &file)? == ABOVE),
    )?;
    vm.sh(&format!(
        "dd if=/dev/{name} of=/dev/null bs=512 skip={} count=1 iflag=direct status=none",
        ABOVE - 1
    ))?;
    vm.shutdown()
}

/// Parses what uniq(1) has counted.
fn counts(text: &str) -> Result<BTreeMap<u64, u64>> {
    let lines = text.lines().map(|line| {
        let mut fields = line.split_whitespace().map(str::parse);
        let mut next = || {
            fields
                .next()
                .with_context(|| format!("{line:?} is no count"))
        };
        let (count, size) = (next()??, next()??);
        Ok((size, count))
    });
    lines.collect()
}
