// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! File systems on the disk, and the way of their flushes to the device.

use crate::fio;
use crate::guest::{expect, read, reload, secs};
use crate::lab::Lab;
use crate::qmp;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Vm};

const DISK: &str = "files";
const WRITE_BACK: &str = "write-back";
const WRITE_THROUGH: &str = "write-through";

pub fn groups() -> Vec<Group> {
    let round_trips = Group::new("filesystem")
        .guest(|_| {
            // XFS wants 300 MB.
            let disk = Disk::new(DISK, Backend::ram(320 << 20)).num_queues(2);
            Ok(Vm::builder().vcpus(2).disk(disk))
        })
        .shared("ext4: make, write, check, bind anew, compare", |lab, vm| {
            round_trip(lab, vm, DISK, "ext4", "mkfs.ext4 -q -F", "e2fsck -f -n")
        })
        .shared("xfs: make, write, check, bind anew, compare", |lab, vm| {
            vm.sh("modprobe xfs")?;
            round_trip(lab, vm, DISK, "xfs", "mkfs.xfs -q -f", "xfs_repair -n")
        });
    let flushes = Group::new("flush")
        .guest(|lab| {
            let disk = |id, cache| {
                let scratch = lab.scratch(64 << 20)?;
                let disk = Disk::new(id, scratch.backend()).property("write-cache", cache);
                anyhow::Ok(disk)
            };
            let vm = Vm::builder();
            Ok(vm
                .disk(disk(WRITE_BACK, "on")?)
                .disk(disk(WRITE_THROUGH, "off")?))
        })
        .shared("write_cache tells the device's cache mode", cache_mode)
        .shared("every fsync reaches a device with a cache", every_fsync)
        .shared("no flush goes to a device without a cache", no_flush);
    vec![round_trips, flushes]
}

/// Writes a tree, checks the file system, and reads the tree again through a new disk.
pub(super) fn round_trip(
    lab: &Lab,
    vm: &Vm,
    disk: &str,
    kind: &str,
    make: &str,
    check: &str,
) -> Result<()> {
    let name = vm.block_device(disk)?;
    let (files, mib) = lab.scale((100, 16), (2000, 128));
    vm.sh_for(
        secs(300),
        &format!(
            "set -e
             {make} /dev/{name}
             mkdir -p /tmp/mnt
             busybox mount -t {kind} /dev/{name} /tmp/mnt
             cd /tmp/mnt
             for n in $(seq {files}); do
                 mkdir -p tree/$((n % 7))
                 head -c $((n * 37)) /dev/urandom >tree/$((n % 7))/$n
             done
             head -c {mib}M /dev/urandom >large
             rm tree/3/3
             find . -type f | sort | xargs sha256sum >/tmp/sums
             cd /
             busybox umount /tmp/mnt
             {check} /dev/{name}"
        ),
    )?;
    reload(vm, "")?;
    let name = vm.block_device(disk)?;
    let count = vm.sh_for(
        secs(300),
        &format!(
            "set -e
             busybox mount -t {kind} -o ro /dev/{name} /tmp/mnt
             cd /tmp/mnt
             sha256sum --quiet -c /tmp/sums
             find . -type f | wc -l
             cd /
             busybox umount /tmp/mnt
             {check} /dev/{name} >/dev/null"
        ),
    )?;
    // All files but the removed one, and the large one.
    expect(
        "the number of files",
        count.trim(),
        files.to_string().as_str(),
    )
}

fn cache_mode(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (disk, right) in [(WRITE_BACK, "write back"), (WRITE_THROUGH, "write through")] {
        let name = vm.block_device(disk)?;
        let mode = read(vm, &format!("/sys/block/{name}/queue/write_cache"))?;
        expect(&format!("the cache mode of {disk}"), mode.as_str(), right)?;
    }
    Ok(())
}

/// Writes 50 blocks, each with an fsync(2), and returns how many flushes QEMU was asked for.
fn flushes_of_50_fsyncs(vm: &Vm, disk: &str) -> Result<u64> {
    let name = vm.block_device(disk)?;
    let before = qmp::block_count(vm, disk, "flush_operations")?;
    let report = fio::run(
        vm,
        secs(60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=4m --number_ios=50 \
             --ioengine=psync --fsync=1"
        ),
    )?;
    ensure!(
        report.syncs >= 49,
        "fio synchronised but {} times",
        report.syncs
    );
    Ok(qmp::block_count(vm, disk, "flush_operations")? - before)
}

fn every_fsync(_lab: &Lab, vm: &Vm) -> Result<()> {
    let flushes = flushes_of_50_fsyncs(vm, WRITE_BACK)?;
    ensure!(
        (49..=52).contains(&flushes),
        "50 fsyncs became {flushes} flushes of the device"
    );
    Ok(())
}

fn no_flush(_lab: &Lab, vm: &Vm) -> Result<()> {
    expect(
        "the number of flushes",
        flushes_of_50_fsyncs(vm, WRITE_THROUGH)?,
        0,
    )
}
