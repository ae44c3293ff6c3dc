// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What is read is what was written, and what was written is on the device.

use crate::fio;
use crate::guest::{expect, reload, secs, MODES};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::os::unix::fs::FileExt;
use vm::{Disk, Driver, Vm};

const DISK: &str = "data";

/// The distance between the regions of two jobs, in MiB.
const STRIDE: u64 = 64;

pub fn groups() -> Vec<Group> {
    let mut in_file = Group::new("data").guest(|lab| {
        let scratch = lab.scratch((4 * STRIDE) << 20)?;
        let disk = Disk::new(DISK, scratch.backend()).num_queues(2);
        Ok(Vm::builder().vcpus(2).disk(disk))
    });
    for mode in MODES {
        in_file = in_file.shared(
            format!("verified writes of mixed sizes with suppress={mode}"),
            move |lab, vm| mixed_sizes(lab, vm, mode),
        );
    }
    let over_boots = Group::new("data-on-disk")
        .alone("written data survives a reboot", survives_a_reboot)
        .alone(
            "a byte changed behind the driver is found",
            a_changed_byte_is_found,
        );
    vec![in_file, over_boots]
}

/// Four jobs in regions of their own, over both engines.
fn jobs(name: &str, mib: u64, extra: &str) -> String {
    let mut text = format!(
        "--filename=/dev/{name} --rw=randwrite --size={mib}m --verify=crc32c --verify_fatal=1 \
         --randrepeat=1 {extra}"
    );
    for (index, (engine, sizes)) in [
        ("libaio", "512-64k"),
        ("io_uring", "4k-1m"),
        ("libaio", "4k-1m"),
        ("io_uring", "512-64k"),
    ]
    .into_iter()
    .enumerate()
    {
        let offset = index as u64 * STRIDE;
        text += &format!(
            " --name=job{index} --ioengine={engine} --iodepth=16 --bsrange={sizes} \
             --offset={offset}m"
        );
    }
    text
}

/// Writes blocks of 512 bytes to 1 MiB, verifies them, binds the disk anew and verifies them again.
fn mixed_sizes(lab: &Lab, vm: &Vm, mode: &str) -> Result<()> {
    reload(vm, &format!("suppress={mode}"))?;
    let name = vm.block_device(DISK)?;
    let mib = lab.scale(6, STRIDE);
    let report = fio::run(vm, secs(300), &jobs(&name, mib, ""))?;
    ensure!(
        report.writes > 100,
        "fio wrote but {} blocks",
        report.writes
    );

    reload(vm, &format!("suppress={mode}"))?;
    let name = vm.block_device(DISK)?;
    let again = fio::run(vm, secs(300), &jobs(&name, mib, "--verify_only=1"))?;
    expect(
        "the number of blocks verified after binding anew",
        again.reads,
        report.writes,
    )
}

/// A second guest, with nothing of the first one's memory, reads what the first one wrote.
fn survives_a_reboot(lab: &Lab) -> Result<()> {
    let scratch = lab.scratch((4 * STRIDE) << 20)?;
    let boot = || -> Result<Vm> {
        let vm = lab.boot(Vm::builder().disk(Disk::new(DISK, scratch.backend())))?;
        vm.load(Driver::Rust, "")?;
        Ok(vm)
    };
    let mib = lab.scale(4, STRIDE);
    let vm = boot()?;
    let name = vm.block_device(DISK)?;
    let written = fio::run(
        &vm,
        secs(300),
        &jobs(&name, mib, "--do_verify=0 --end_fsync=1"),
    )?;
    // Not a shutdown: whatever the guest has kept to itself is lost.
    drop(vm);

    let vm = boot()?;
    let name = vm.block_device(DISK)?;
    let read = fio::run(&vm, secs(300), &jobs(&name, mib, "--verify_only=1"))?;
    expect(
        "the number of blocks verified after the reboot",
        read.reads,
        written.writes,
    )?;
    vm.shutdown()
}

/// Guards the other tests here: they would notice a single wrong byte.
fn a_changed_byte_is_found(lab: &Lab) -> Result<()> {
    const SIZE: u64 = 1 << 20;
    let scratch = lab.scratch(SIZE)?;
    let vm = lab.boot(Vm::builder().disk(Disk::new(DISK, scratch.backend())))?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device(DISK)?;
    let job = format!(
        "--name=j --filename=/dev/{name} --rw=write --bs=64k --size=1m --verify=crc32c \
         --ioengine=libaio --iodepth=8"
    );
    fio::run(&vm, secs(60), &job)?;

    let mut byte = [0];
    scratch.file.read_exact_at(&mut byte, SIZE / 2 + 1000)?;
    scratch.file.write_all_at(&[!byte[0]], SIZE / 2 + 1000)?;
    let verify = fio::start(&vm, secs(60), &format!("{job} --verify_only=1"))?;
    let output = verify.outcome()?;
    ensure!(output.status != 0, "fio did not notice the changed byte");
    ensure!(
        [&output.stderr, &output.stdout]
            .iter()
            .any(|text| text.contains("crc32c: verify failed")),
        "fio failed for another reason: {}{}",
        output.stdout,
        output.stderr
    );
    vm.shutdown()
}
