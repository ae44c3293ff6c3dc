// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Devices that can only be read (case 40).

use crate::guest::{expect, secs};
use crate::lab::{Lab, Scratch};
use crate::suite::Group;
use anyhow::{ensure, Result};
use serde_json::json;
use std::os::unix::fs::FileExt;
use vm::{Backend, Disk, Driver, Vm};

const DISK: &str = "read-only";

pub fn groups() -> Vec<Group> {
    let group = Group::new("read-only")
        .alone("a read-only device refuses writes cleanly", refuses_writes)
        .alone(
            "a dirty ext4 can be mounted without its journal",
            dirty_ext4,
        );
    vec![group]
}

fn boot(lab: &Lab, scratch: &Scratch, read_only: bool) -> Result<Vm> {
    let file = json!({"driver": "file", "filename": scratch.path(), "read-only": read_only});
    let vm = lab.boot(Vm::builder().disk(Disk::new(DISK, Backend::Blockdev(file))))?;
    vm.load(Driver::Rust, "")?;
    Ok(vm)
}

/// The feature is accepted, the disk says so, and no write gets through, not even when a user says
/// that it may.
fn refuses_writes(lab: &Lab) -> Result<()> {
    let scratch = lab.scratch(16 << 20)?;
    scratch.file.write_all_at(&[7; 4096], 0)?;
    let vm = boot(lab, &scratch, true)?;
    let features = vm.features(DISK)?;
    ensure!(
        features.iter().any(|name| name == "VIRTIO_BLK_F_RO"),
        "not accepted: {features:?}"
    );
    let name = vm.block_device(DISK)?;
    expect(
        "the read-only flag",
        vm.sh(&format!("blockdev --getro /dev/{name}"))?.trim(),
        "1",
    )?;
    let write = format!("dd if=/dev/zero of=/dev/{name} bs=4k count=1 oflag=direct");
    for (before, words) in [
        (
            "true".to_owned(),
            "Operation not permitted|Read-only|Permission denied",
        ),
        // The block layer lets the write pass now, and the device does not.
        (
            format!("blockdev --setrw /dev/{name}"),
            "Input/output error|not permitted|Read-only",
        ),
    ] {
        let output = vm.try_sh(secs(60), &format!("{before}; {write}"))?;
        ensure!(output.status != 0, "a write to a read-only device worked");
        ensure!(
            words.split('|').any(|words| output.stderr.contains(words)),
            "the write failed with {:?}",
            output.stderr
        );
    }
    for command in [
        "blkdiscard -f",
        "blkdiscard -z -f",
        "fallocate -z -l 1M",
        "mkfs.ext4 -q -F",
    ] {
        let output = vm.try_sh(secs(60), &format!("{command} /dev/{name}"))?;
        ensure!(output.status != 0, "{command} worked on a read-only device");
    }
    let mut content = [0; 4096];
    scratch.file.read_exact_at(&mut content, 0)?;
    ensure!(
        content == [7; 4096],
        "something was written to a read-only device"
    );
    // Reading still works.
    vm.sh(&format!(
        "dd if=/dev/{name} of=/dev/null bs=64k iflag=direct status=none"
    ))?;
    vm.shutdown()
}

fn dirty_ext4(lab: &Lab) -> Result<()> {
    let scratch = lab.scratch(64 << 20)?;
    let vm = boot(lab, &scratch, false)?;
    let name = vm.block_device(DISK)?;
    vm.sh(&format!(
        "mkfs.ext4 -q -F /dev/{name} && mkdir /tmp/mnt && \
         busybox mount -t ext4 /dev/{name} /tmp/mnt && echo content >/tmp/mnt/file && sync"
    ))?;
    // The guest goes without unmounting, so the journal has to be replayed.
    drop(vm);

    let vm = boot(lab, &scratch, true)?;
    let name = vm.block_device(DISK)?;
    let content = vm.sh(&format!(
        "mkdir /tmp/mnt
         busybox mount -t ext4 -o ro /dev/{name} /tmp/mnt 2>/dev/null && echo replayed a journal
         busybox mount -t ext4 /dev/{name} /tmp/mnt 2>/dev/null && echo mounted for writing
         busybox mount -t ext4 -o ro,noload /dev/{name} /tmp/mnt || exit 1
         cat /tmp/mnt/file
         busybox umount /tmp/mnt"
    ))?;
    expect("what the mounts have shown", content.trim(), "content")?;
    vm.shutdown()
}
