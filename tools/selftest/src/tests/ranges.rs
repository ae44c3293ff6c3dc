// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Discarding, zeroing and erasing ranges of the disk.

mod errors;
mod limits;
mod merging;

use super::device::expect_good;
use crate::guest::{expect, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, DeviceConfig, DeviceCounts, Disk, FrontEnd, Policy, Vm};

/// Takes 16 ranges, each of 64 MiB at most, in units of 4 KiB.
const MANY: &str = "many";

/// Takes one range of any length, in units of 4 KiB.
const SINGLE: &str = "single";

/// Has blocks of 4 KiB.
const BLOCKS: &str = "blocks";

/// As [`MANY`], but with room for one request on the ring at a time.
const TINY: &str = "tiny";

/// As [`MANY`], but large enough for XFS.
const FILES: &str = "files";

/// What all of them offer.
const OFFERS: [&str; 3] = [
    "--discard=131072,16,8",
    "--write-zeroes=131072,1,0",
    "--secure-erase=131072,16,8",
];

const MIB: u64 = 1 << 20;

/// Bytes at the start of a disk that hold a pattern.
const PATTERN: u64 = 4 * MIB;

pub fn groups() -> Vec<Group> {
    let group = Group::new("ranges").guest(|_| {
        let disks = [
            disk(MANY, 64 * MIB, &OFFERS),
            disk(SINGLE, 64 * MIB, &["--discard=0,1,8"]),
            disk(
                BLOCKS,
                64 * MIB,
                &[OFFERS[0], OFFERS[1], OFFERS[2], "--block-size=4096"],
            ),
            disk(TINY, 64 * MIB, &OFFERS)
                .queue_size(4)
                .indirect_desc(false),
            disk(FILES, 320 * MIB, &OFFERS),
        ];
        let vm = Vm::builder().vcpus(2);
        Ok(disks.into_iter().fold(vm, |vm, disk| vm.disk(disk)))
    });
    let group = group
        .shared(
            "what is discarded, zeroed or erased reads as zeroes",
            clears,
        )
        .shared("ranges count 512 bytes with blocks of 4096", |_, vm| {
            large_blocks(vm)
        })
        .shared("ext4: what is trimmed reaches the device", |lab, vm| {
            trim(lab, vm, "ext4", "mkfs.ext4 -q -F", "e2fsck -f -n")
        })
        .shared("xfs: what is trimmed reaches the device", |lab, vm| {
            vm.sh("modprobe xfs")?;
            trim(lab, vm, "xfs", "mkfs.xfs -q -f", "xfs_repair -n")
        });
    let group = limits::add_to(errors::add_to(merging::add_to(group)));
    vec![group, limits::beside_the_c_driver(), errors::on_the_host()]
}

/// A disk on the programmable device, with all that such a device offers.
fn disk(id: &str, size: u64, arguments: &[&str]) -> Disk {
    // The other front end knows nothing of erasing.
    let config = DeviceConfig::ram(size).front_end(FrontEnd::Test);
    let config = arguments
        .iter()
        .fold(config, |config, argument| config.argument(argument));
    Disk::new(id, Backend::device(config))
}

/// Fills the start of a disk with a pattern.
fn fill(vm: &Vm, name: &str) -> Result<()> {
    vm.sh(&format!(
        "head -c {PATTERN} /dev/urandom >/tmp/right
         dd if=/tmp/right of=/dev/{name} bs=1M oflag=direct status=none"
    ))?;
    Ok(())
}

/// Demands that the pattern is as it was but for these bytes, which are zeroes.
fn expect_cleared(vm: &Vm, name: &str, offset: u64, length: u64) -> Result<()> {
    vm.sh(&format!(
        "dd if=/dev/zero of=/tmp/right bs=512 seek={} count={} conv=notrunc status=none
         dd if=/dev/{name} bs=1M count={} iflag=direct status=none | cmp - /tmp/right",
        offset / 512,
        length / 512,
        PATTERN / MIB,
    ))?;
    Ok(())
}

/// Runs a command on a disk, in which `DISK` stands for its node, and returns what the device did.
fn counted(vm: &Vm, disk: &str, command: &str) -> Result<DeviceCounts> {
    let name = vm.block_device(disk)?;
    let before = vm.device(disk)?.total()?;
    vm.sh(&command.replace("DISK", &format!("/dev/{name}")))?;
    Ok(vm.device(disk)?.total()? - before)
}

/// Case 36 as well: the flag that allows the device to give up the place of zeroes is there exactly
/// if the user allowed it, and discards have no flags, which the device checks.
fn clears(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(MANY)?;
    // A command, and right counts of discards, zeroes, erasures, and of ranges to unmap.
    for (command, right) in [
        ("blkdiscard -f -o 1M -l 1M DISK", (1, 0, 0, 0)),
        ("blkdiscard -f -z -o 1M -l 1M DISK", (0, 1, 0, 0)),
        ("blkdiscard -f -s -o 1M -l 1M DISK", (0, 0, 1, 0)),
        ("fallocate -z -o 1M -l 1M DISK", (0, 1, 0, 0)),
        ("fallocate -p -o 1M -l 1M DISK", (0, 1, 0, 1)),
    ] {
        fill(vm, &name)?;
        let did = counted(vm, MANY, command)?;
        let found = (
            did.discards,
            did.write_zeroes,
            did.secure_erases,
            did.unmaps,
        );
        expect(
            &format!("the number of requests of {command}"),
            found,
            right,
        )?;
        let cleared = (did.ranges, did.bytes_cleared);
        expect(&format!("what {command} cleared"), cleared, (1, MIB))?;
        expect_cleared(vm, &name, MIB, MIB)?;
    }
    // The whole disk, twice as long as a discard may be, and all of it at once.
    vm.sh(&format!(
        "echo {} >/sys/block/{name}/queue/discard_max_bytes",
        32 * MIB
    ))?;
    let did = counted(vm, MANY, "blkdiscard -f DISK")?;
    expect("the size of the disk", did.bytes_cleared, 64 * MIB)?;
    expect("the number of discards", did.discards, 2)?;
    vm.sh(&format!(
        "echo {} >/sys/block/{name}/queue/discard_max_bytes",
        64 * MIB
    ))?;
    expect_good(vm, MANY)
}

/// Case 35: whatever the block size is, the unit of ranges is the sector of 512 bytes.
fn large_blocks(vm: &Vm) -> Result<()> {
    let name = vm.block_device(BLOCKS)?;
    for how in ["", "-z", "-s"] {
        fill(vm, &name)?;
        let did = counted(vm, BLOCKS, &format!("blkdiscard -f {how} -o 1M -l 1M DISK"))?;
        let cleared = (did.ranges, did.bytes_cleared);
        expect(&format!("what blkdiscard {how} cleared"), cleared, (1, MIB))?;
        expect_cleared(vm, &name, MIB, MIB)?;
    }
    expect_good(vm, BLOCKS)
}

/// Writes two trees, removes one, trims, and demands that the device was told of about as many
/// bytes and the other tree is as it was.
fn trim(lab: &Lab, vm: &Vm, kind: &str, make: &str, check: &str) -> Result<()> {
    let (files, kib) = lab.scale((50_u64, 64_u64), (300, 256));
    let script = format!(
        "set -e
         {make} DISK
         mkdir -p /tmp/mnt
         busybox mount -t {kind} DISK /tmp/mnt
         cd /tmp/mnt
         mkdir stays goes
         for n in $(seq {files}); do
             for tree in stays goes; do head -c {kib}K /dev/urandom >$tree/$n; done
         done
         sync
         find stays -type f | sort | xargs sha256sum >/tmp/sums
         rm -r goes
         sync"
    );
    vm.device(FILES)?.set(&Policy::default())?;
    let name = vm.block_device(FILES)?;
    vm.sh_for(secs(300), &script.replace("DISK", &format!("/dev/{name}")))?;
    let did = counted(vm, FILES, "fstrim /tmp/mnt")?;
    let removed = files * kib * 1024;
    ensure!(
        did.discards > 0 && did.bytes_cleared >= removed,
        "{removed} bytes were removed, but {did:?}"
    );
    vm.sh_for(
        secs(300),
        &format!(
            "set -e
             cd /
             busybox umount /tmp/mnt
             {check} /dev/{name}
             busybox mount -t {kind} -o ro /dev/{name} /tmp/mnt
             cd /tmp/mnt
             sha256sum --quiet -c /tmp/sums
             cd /
             busybox umount /tmp/mnt"
        ),
    )?;
    expect_good(vm, FILES)
}
