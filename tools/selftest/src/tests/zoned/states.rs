// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Opening, closing, finishing and resetting zones, and how many may be open.

use super::{expect_good, reset, zones, CAPACITY, CONVENTIONAL, DISK, PLAIN, ZONE, ZONES};
use crate::guest::{expect, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use vm::Vm;

/// Adds the tests to a group whose guest has both disks.
pub fn add_to(group: Group) -> Group {
    group
        .shared("zones are opened, closed, finished and reset", states)
        .shared("too many open or active zones are an error", resources)
        .shared("all zones are reset at once", reset_all)
        .shared("zonefs works", zonefs)
}

/// The states of some zones behind the conventional ones, as the device has them, and the letters
/// that the guest reports for them.
fn look(vm: &Vm, disk: &str, count: usize) -> Result<(Vec<String>, Vec<String>)> {
    let name = vm.block_device(disk)?;
    let zones = zones(vm, disk)?.into_iter().skip(CONVENTIONAL as usize);
    let states = zones.take(count).map(|zone| {
        let state = zone["state"].as_str().map(str::to_owned);
        state.with_context(|| format!("a zone without a state: {zone}"))
    });
    let report = vm.sh(&format!(
        "blkzone report -o {} -c {count} /dev/{name}",
        CONVENTIONAL * ZONE
    ))?;
    let letters = report.lines().map(|line| {
        let letters = line.split_once("zcond:").map(|(_, rest)| rest);
        let letters = letters.and_then(|rest| Some(rest.split_once('(')?.1.split_once(')')?.0));
        letters
            .map(str::to_owned)
            .with_context(|| format!("a zone without a condition: {line:?}"))
    });
    Ok((
        states.collect::<Result<_>>()?,
        letters.collect::<Result<_>>()?,
    ))
}

/// Demands that both sides see these states.
fn expect_states(vm: &Vm, right: &[(&str, &str)]) -> Result<()> {
    let (states, letters) = look(vm, DISK, right.len())?;
    let (state, letter): (Vec<_>, Vec<_>) = right.iter().copied().unzip();
    expect(
        "what the device has",
        states,
        state.into_iter().map(str::to_owned).collect(),
    )?;
    expect(
        "what the guest reports",
        letters,
        letter.into_iter().map(str::to_owned).collect(),
    )
}

fn manage(vm: &Vm, action: &str, zone: u64, count: u64) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let sector = (CONVENTIONAL + zone) * ZONE;
    vm.sh(&format!(
        "blkzone {action} -o {sector} -c {count} /dev/{name}"
    ))?;
    Ok(())
}

fn write(vm: &Vm, zone: u64, kib: u64) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let block = (CONVENTIONAL + zone) * ZONE / 8;
    vm.sh(&format!(
        "dd if=/dev/zero of=/dev/{name} bs=4k seek={block} count={} oflag=direct status=none",
        kib / 4
    ))?;
    Ok(())
}

fn states(_lab: &Lab, vm: &Vm) -> Result<()> {
    const EMPTY: (&str, &str) = ("empty", "em");
    const OPEN: (&str, &str) = ("explicitly-open", "oe");
    const WRITTEN: (&str, &str) = ("implicitly-open", "oi");
    const CLOSED: (&str, &str) = ("closed", "cl");
    const FULL: (&str, &str) = ("full", "fu");
    reset(vm, DISK)?;
    let before = vm.device(DISK)?.total()?;
    expect_states(vm, &[EMPTY; 4])?;
    manage(vm, "open", 0, 2)?;
    write(vm, 2, 4)?;
    expect_states(vm, &[OPEN, OPEN, WRITTEN, EMPTY])?;
    write(vm, 1, 8)?;
    manage(vm, "close", 0, 3)?;
    // Nothing was written to the first one.
    expect_states(vm, &[EMPTY, CLOSED, CLOSED, EMPTY])?;
    manage(vm, "finish", 2, 2)?;
    expect_states(vm, &[EMPTY, CLOSED, FULL, FULL])?;
    write(vm, 0, CAPACITY / 2)?;
    expect_states(vm, &[FULL, CLOSED, FULL, FULL])?;
    manage(vm, "reset", 1, 2)?;
    expect_states(vm, &[FULL, EMPTY, EMPTY, FULL])?;
    let did = vm.device(DISK)?.total()? - before;
    let counts = (
        did.zone_opens,
        did.zone_closes,
        did.zone_finishes,
        did.zone_resets,
    );
    expect("opens, closes, finishes and resets", counts, (2, 3, 2, 2))?;
    expect("refusals", did.zone_refusals, 0)?;
    expect_good(vm, DISK)
}

fn resources(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    reset(vm, DISK)?;
    let refused = |zone: u64, words: &str| -> Result<()> {
        let sector = (CONVENTIONAL + zone) * ZONE;
        let script = format!("blkzone open -o {sector} -c 1 /dev/{name}");
        let output = vm.try_sh(secs(60), &script)?;
        ensure!(
            output.status != 0 && output.stderr.contains(words),
            "opening zone {zone} does not fail with {words:?}: {output:?}"
        );
        Ok(())
    };
    manage(vm, "open", 0, 4)?;
    refused(4, "Too many references")?;
    for zone in 0..4 {
        write(vm, zone, 4)?;
    }
    manage(vm, "close", 0, 4)?;
    manage(vm, "open", 4, 2)?;
    refused(6, "Value too large")?;
    // What the device closes by itself makes room for writes.
    write(vm, 4, 4)?;
    write(vm, 5, 4)?;
    manage(vm, "close", 4, 2)?;
    for zone in 0..6 {
        let name = vm.block_device(DISK)?;
        let block = (CONVENTIONAL + zone) * ZONE / 8 + 1;
        vm.sh(&format!(
            "dd if=/dev/zero of=/dev/{name} bs=4k seek={block} count=1 oflag=direct status=none"
        ))?;
    }
    let (states, _) = look(vm, DISK, 6)?;
    let open = states.iter().filter(|state| *state == "implicitly-open");
    expect("open zones", open.count(), 4)?;
    expect_good(vm, DISK)
}

fn reset_all(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PLAIN)?;
    reset(vm, PLAIN)?;
    vm.sh(&format!("blkzone finish /dev/{name}"))?;
    let before = vm.device(PLAIN)?.total()?;
    vm.sh(&format!("blkzone reset /dev/{name}"))?;
    let did = vm.device(PLAIN)?.total()? - before;
    expect("resets of all zones", did.zone_resets, 1)?;
    let (states, letters) = look(vm, PLAIN, (ZONES - CONVENTIONAL) as usize)?;
    ensure!(
        states.iter().all(|state| state == "empty") && letters.iter().all(|word| word == "em"),
        "after a reset of all zones there are {states:?}"
    );
    expect_good(vm, PLAIN)
}

/// A file system that maps each zone to a file.
fn zonefs(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PLAIN)?;
    reset(vm, PLAIN)?;
    // Its superblock: magic, checksum, label, UUID and features, of which there are none.
    vm.sh(&format!(
        "set -e
         python3 -c '
import struct, zlib
block = lambda crc: struct.pack(\"<4sI\", b\"SFOZ\", crc).ljust(4096, b\"\\0\")
open(\"/tmp/super\", \"wb\").write(block(zlib.crc32(block(0)) ^ 0xffffffff))
'
         dd if=/tmp/super of=/dev/{name} bs=4k oflag=direct status=none
         modprobe zonefs
         mkdir -p /tmp/zonefs
         busybox mount -t zonefs /dev/{name} /tmp/zonefs
         head -c 1M /dev/urandom >/tmp/data
         cd /tmp/zonefs/seq
         dd if=/tmp/data of=3 bs=64k oflag=direct,append conv=notrunc status=none
         dd if=/tmp/data of=4 bs=4k count=5 oflag=direct,append conv=notrunc status=none
         cmp 3 /tmp/data
         cmp -n 20480 4 /tmp/data
         stat -c %s 3 4 5
         truncate -s 0 3
         stat -c %s 3
         cd /tmp
         busybox umount /tmp/zonefs
         busybox mount -t zonefs /dev/{name} /tmp/zonefs
         stat -c %s /tmp/zonefs/seq/3 /tmp/zonefs/seq/4
         busybox umount /tmp/zonefs"
    ))
    .and_then(|sizes| {
        let sizes: Vec<_> = sizes.lines().map(str::to_owned).collect();
        let right = ["1048576", "20480", "0", "0", "0", "20480"];
        expect(
            "the sizes of files",
            sizes,
            right.map(str::to_owned).to_vec(),
        )
    })?;
    expect_good(vm, PLAIN)
}
