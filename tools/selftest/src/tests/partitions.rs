// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Partition tables and the nodes of partitions.

use crate::guest::{expect, reload};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::Result;
use vm::{Backend, Disk, Vm};

const DISK: &str = "disk";

/// More than the 15 minor numbers that a disk has of its own.
const PARTITIONS: u32 = 20;

/// Sectors of 512 bytes in a partition.
const SECTORS: u64 = 2 * 2048;

pub fn groups() -> Vec<Group> {
    let group = Group::new("partitions")
        .guest(|_| {
            let disk = Disk::new(DISK, Backend::ram(64 << 20));
            Ok(Vm::builder().disk(disk))
        })
        .shared(
            "20 GPT partitions get nodes of the right size",
            nodes_appear,
        )
        .shared(
            "a write to one partition leaves its neighbours alone",
            neighbours,
        )
        .shared(
            "the table is read again after a change and after binding",
            read_again,
        );
    vec![group]
}

/// Writes the table; partition N starts at N times its size.
fn make_table(vm: &Vm, count: u32) -> Result<String> {
    let name = vm.block_device(DISK)?;
    vm.sh(&format!(
        "(echo label: gpt; for n in $(seq {count}); do \
         echo start=$((n * {SECTORS})), size={SECTORS}; done) | \
         sfdisk --quiet --wipe always /dev/{name}"
    ))?;
    Ok(name)
}

/// Sizes of all partitions, in sectors, by the kernel's account and by the nodes'.
fn expect_partitions(vm: &Vm, name: &str, count: u32) -> Result<()> {
    let found = vm.sh(&format!(
        "ls -d /sys/block/{name}/{name}* 2>/dev/null | wc -l"
    ))?;
    expect(
        "the number of partitions",
        found.trim(),
        count.to_string().as_str(),
    )?;
    let sizes = vm.sh(&format!(
        "for n in $(seq {count}); do \
         cat /sys/block/{name}/{name}$n/size && blockdev --getsz /dev/{name}$n || exit 1; \
         done | sort -u"
    ))?;
    expect(
        "the size in sectors of all",
        sizes.trim(),
        SECTORS.to_string().as_str(),
    )
}

fn nodes_appear(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = make_table(vm, PARTITIONS)?;
    expect_partitions(vm, &name, PARTITIONS)
}

/// Fills partition 7 to both ends and compares the checksums of the two beside it.
fn neighbours(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = make_table(vm, PARTITIONS)?;
    let text = vm.sh(&format!(
        "sum() {{ dd if=/dev/{name}$1 bs=1M iflag=direct status=none | sha256sum; }}
         for n in 6 7 8; do
             head -c {bytes} /dev/urandom | dd of=/dev/{name}$n bs=1M oflag=direct status=none \
             iflag=fullblock || exit 1
         done
         before=\"$(sum 6) $(sum 8)\"; old=$(sum 7)
         head -c {bytes} /dev/urandom >/tmp/new
         dd if=/tmp/new of=/dev/{name}7 bs=64k oflag=direct status=none || exit 1
         test \"$(sum 6) $(sum 8)\" = \"$before\" || echo a neighbour was changed
         test \"$(sum 7)\" != \"$old\" || echo nothing was written
         test \"$(sum 7)\" = \"$(sha256sum </tmp/new)\" || echo something else was written",
        bytes = SECTORS * 512
    ))?;
    expect("the list of complaints", text.trim(), "")
}

fn read_again(_lab: &Lab, vm: &Vm) -> Result<()> {
    make_table(vm, PARTITIONS)?;
    let name = make_table(vm, 3)?;
    expect_partitions(vm, &name, 3)?;
    vm.sh(&format!("blockdev --rereadpt /dev/{name}"))?;
    expect_partitions(vm, &name, 3)?;
    reload(vm, "")?;
    let name = vm.block_device(DISK)?;
    expect_partitions(vm, &name, 3)
}
