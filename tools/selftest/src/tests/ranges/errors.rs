// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Operations that the device does not carry out: what the user is told, and how often.

use super::{expect_cleared, fill, MANY, MIB};
use crate::guest::{expect, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use serde_json::{json, Value};
use vm::{Backend, Disk, Driver, Policy, Vm};

const EIO: Option<&str> = Some("Input/output error");
const UNSUPPORTED: Option<&str> = Some("Operation not supported");

/// An operation, a command that uses it, in which `DISK` stands for the node, and its right message
/// if the device ends the operation with UNSUPP, and with IOERR. [`None`] is success.
const CASES: [(&str, &str, Option<&str>, Option<&str>); 8] = [
    (
        "read",
        "dd if=DISK of=/dev/null bs=4k count=1 iflag=direct status=none",
        UNSUPPORTED,
        EIO,
    ),
    (
        "write",
        "dd if=/dev/zero of=DISK bs=4k count=1 seek=256 oflag=direct status=none",
        UNSUPPORTED,
        EIO,
    ),
    // The kernel takes a device that cannot flush for one that need not.
    (
        "flush",
        "dd if=/dev/null of=DISK conv=fsync,notrunc status=none",
        None,
        EIO,
    ),
    // A discard is a hint.
    ("discard", "blkdiscard -f -o 1M -l 1M DISK", None, EIO),
    // The block layer writes the zeroes itself.
    (
        "write_zeroes",
        "blkdiscard -f -z -o 1M -l 1M DISK",
        None,
        EIO,
    ),
    ("write_zeroes", "fallocate -z -o 1M -l 1M DISK", None, EIO),
    // A hole cannot be written. fallocate(1) has words of its own for that.
    (
        "write_zeroes",
        "fallocate -p -o 1M -l 1M DISK",
        Some("unsupported"),
        EIO,
    ),
    (
        "secure_erase",
        "blkdiscard -f -s -o 1M -l 1M DISK",
        UNSUPPORTED,
        EIO,
    ),
];

pub fn add_to(group: Group) -> Group {
    group
        .shared(
            "what the device cannot do is done another way, or refused",
            |_, vm| {
                CASES.iter().try_for_each(|(operation, command, right, _)| {
                    fails(vm, operation, "unsupp", command, *right)
                })
            },
        )
        .shared(
            "an error of the device is told once, for each operation",
            |_, vm| {
                CASES.iter().try_for_each(|(operation, command, _, right)| {
                    fails(vm, operation, "ioerr", command, *right)
                })
            },
        )
}

/// Case 36: runs a command on a device that fails the operation that it needs.
fn fails(vm: &Vm, operation: &str, how: &str, command: &str, right: Option<&str>) -> Result<()> {
    let name = vm.block_device(MANY)?;
    let device = vm.device(MANY)?;
    fill(vm, &name)?;
    device.ask(&json!({"command": "set", "fail": {operation: how}}))?;
    let (before, logged) = (device.total()?, logged_errors(vm, &name)?);
    let output = vm.try_sh(secs(60), &command.replace("DISK", &format!("/dev/{name}")))?;
    let did = device.total()? - before;
    device.set(&Policy::default())?;
    match right {
        None => ensure!(output.status == 0, "{command} with {how}: {output:?}"),
        Some(words) => ensure!(
            output.status != 0 && output.stderr.contains(words),
            "{command} with {how} said {output:?} instead of {words:?}"
        ),
    }
    // Nothing is tried again.
    let (unsupported, io_errors) = match how {
        "unsupp" => (1, 0),
        _ => (0, 1),
    };
    let found = (did.unsupported, did.io_errors, did.bad_chains);
    let right = (unsupported, io_errors, 0);
    expect(
        &format!("what the device refused of {command}"),
        found,
        right,
    )?;
    if how == "ioerr" {
        let found = logged_errors(vm, &name)? - logged;
        expect(
            &format!("the number of errors in the log of {command}"),
            found,
            1,
        )?;
    }
    if operation == "write_zeroes" && right_is_fallback(how, command) {
        ensure!(did.writes > 0, "{command} wrote no zeroes: {did:?}");
        expect_cleared(vm, &name, MIB, MIB)?;
    } else if operation == "write_zeroes" {
        expect("the number of writes instead", did.writes, 0)?;
        expect_cleared(vm, &name, 0, 0)?;
    }
    Ok(())
}

/// Whether the block layer has to write the zeroes itself.
fn right_is_fallback(how: &str, command: &str) -> bool {
    how == "unsupp" && !command.contains("fallocate -p")
}

/// How many requests of a disk have failed by the kernel's log.
fn logged_errors(vm: &Vm, name: &str) -> Result<usize> {
    let log = vm.dmesg()?;
    let message = format!("error, dev {name},");
    Ok(log.lines().filter(|line| line.contains(&message)).count())
}

/// Case 42: QEMU's own device, whose host makes holes of zeroes and gives back what is discarded.
pub fn on_the_host() -> Group {
    Group::new("ranges")
        .alone("file systems are made again and again on holes", on_holes)
        .alone("an error of the host is told once", host_errors)
}

/// Boots a guest with a disk of this size on a host with this error, once.
fn boot(lab: &Lab, size: u64, error: Option<Value>) -> Result<Vm> {
    let scratch = lab.scratch(size)?;
    let file = json!({"driver": "file", "filename": scratch.path(), "discard": "unmap"});
    let mut node = json!({
        "driver": "blkdebug",
        "image": file,
        "discard": "unmap",
        "detect-zeroes": "unmap",
    });
    if let Some(error) = error {
        node["inject-error"] = json!([error]);
    }
    let disk = Disk::new("holes", Backend::Blockdev(node));
    let vm = lab.boot(Vm::builder().disk(disk))?;
    vm.load(Driver::Rust, "")?;
    Ok(vm)
}

fn on_holes(lab: &Lab) -> Result<()> {
    let vm = boot(lab, 64 * MIB, None)?;
    let name = vm.block_device("holes")?;
    for _ in 0..lab.scale(5, 50) {
        vm.sh(&format!(
            "set -e
             mkfs.ext4 -q -F /dev/{name}
             e2fsck -f -n /dev/{name}
             blkdiscard -f -z -o 4M -l 8M /dev/{name}
             dd if=/dev/zero of=/dev/{name} bs=1M count=16 oflag=direct status=none"
        ))?;
    }
    expect("the number of errors", logged_errors(&vm, &name)?, 0)?;
    vm.shutdown()
}

fn host_errors(lab: &Lab) -> Result<()> {
    // What QEMU's host does, and a request of the guest that makes it do so.
    for (operation, command) in [
        ("discard", "blkdiscard -f -o 1M -l 1M DISK"),
        ("write-zeroes", "blkdiscard -f -z -o 1M -l 1M DISK"),
        (
            "write-zeroes",
            "dd if=/dev/zero of=DISK bs=64k count=1 seek=16 oflag=direct status=none",
        ),
    ] {
        let error = json!({"event": "none", "iotype": operation, "errno": 5, "once": true});
        let vm = boot(lab, 16 * MIB, Some(error))?;
        let name = vm.block_device("holes")?;
        let command = command.replace("DISK", &format!("/dev/{name}"));
        let output = vm.try_sh(secs(60), &command)?;
        ensure!(
            output.status != 0 && output.stderr.contains("Input/output error"),
            "{command} on a host that fails: {output:?}"
        );
        expect(
            "the number of errors in the log",
            logged_errors(&vm, &name)?,
            1,
        )?;
        // The host has recovered.
        vm.sh(&command)?;
        expect(
            "the number of errors after that",
            logged_errors(&vm, &name)?,
            1,
        )?;
        vm.shutdown()?;
    }
    Ok(())
}
