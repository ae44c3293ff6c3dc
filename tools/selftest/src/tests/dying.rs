// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Devices whose process dies while they have requests.

use crate::fio;
use crate::guest::{expect_no_complaints, secs, wait_for_requests, BUS_DRIVER};
use crate::lab::Lab;
use crate::load::Load;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::{Duration, Instant};
use vm::{Backend, DeviceConfig, Disk, Policy, Vm};

/// The disk whose device comes back.
const LAZARUS: &str = "lazarus";

pub fn groups() -> Vec<Group> {
    let group = Group::new("dying")
        .guest(|lab| {
            // Each request takes half a millisecond, so that some are always on their way; and the
            // content must outlive the process.
            let slow = Policy {
                pace_us: 500,
                ..Policy::default()
            };
            let file = lab.scratch(64 << 20)?.path();
            let config = DeviceConfig::file(file).policy(slow).reconnects();
            let disk = Disk::new(LAZARUS, Backend::device(config)).num_queues(2);
            Ok(Vm::builder().vcpus(2).disk(disk))
        })
        .shared("verified I/O goes on when the device is back", comes_back)
        .shared("a disk whose device is dead can be removed", is_removed);
    let idle = Group::new("dying")
        .guest(|_| {
            let config = DeviceConfig::ram(64 << 20).reconnects();
            let disk = Disk::new(LAZARUS, Backend::device(config));
            Ok(Vm::builder().disk(disk))
        })
        .shared(
            "a disk whose device died idle can be removed, with data to write",
            is_removed_dirty,
        );
    let small = Group::new("dying")
        .guest(|lab| {
            let file = lab.scratch(64 << 20)?.path();
            let config = DeviceConfig::file(file).reconnects();
            let disk = Disk::new(LAZARUS, Backend::device(config)).queue_size(8);
            Ok(Vm::builder()
                .vcpus(2)
                .disk(disk)
                .kernel_argument("sysctl.kernel.hung_task_timeout_secs=0"))
        })
        .shared("a small ring waits for a device that is long away", waits);
    vec![group, idle, small]
}

/// Case 53. What was in flight is done again by the new process, and ends once.
fn comes_back(lab: &Lab, vm: &Vm) -> Result<()> {
    let load = Load::start(vm, &[LAZARUS])?;
    for _ in 0..lab.scale(4, 50) {
        load.goes_on(300)?;
        vm.device(LAZARUS)?.kill();
        std::thread::sleep(Duration::from_millis(500));
        vm.restart_device(LAZARUS)?;
    }
    load.end(lab, 600)?;
    expect_no_complaints(vm, LAZARUS)
}

/// Case 29. Many more requests than the ring holds wait all the time, and time out again and again.
/// That may be while the interrupt for one is on its way.
fn waits(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(LAZARUS)?;
    vm.sh(&format!(
        "echo {} >/sys/block/{name}/queue/io_timeout",
        lab.scale(1000, 30_000)
    ))?;
    let load = Load::start(vm, &[LAZARUS])?;
    load.goes_on(300)?;
    vm.device(LAZARUS)?.kill();
    std::thread::sleep(Duration::from_secs(lab.scale(4, 120)));
    let waiting = vm.sh(&format!("cat /sys/block/{name}/inflight"))?;
    ensure!(
        waiting.split_whitespace().any(|count| count != "0"),
        "nothing waits for the device: {waiting:?}"
    );
    vm.restart_device(LAZARUS)?;
    load.end_late(600)
}

/// Case 44. Nothing comes back from this device: after ten seconds its requests fail.
fn is_removed(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(LAZARUS)?;
    let device = vm.virtio_device(LAZARUS)?;
    let load = fio::start_endless(vm, &name)?;
    wait_for_requests(vm, LAZARUS, 300)?;
    vm.device(LAZARUS)?.kill();
    let start = Instant::now();
    vm.sh_for(
        secs(60),
        &format!("echo {device} >{BUS_DRIVER}/unbind; test ! -e /sys/block/{name}"),
    )?;
    let took = start.elapsed();
    load.fails()?;
    ensure!(took < secs(30), "the disk was removed after {took:?}");
    Ok(())
}

/// Nothing is in flight that could tell that the device is dead, and the kernel wants to write what
/// is dirty before the disk goes.
fn is_removed_dirty(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(LAZARUS)?;
    let device = vm.virtio_device(LAZARUS)?;
    vm.device(LAZARUS)?.kill();
    let start = Instant::now();
    let text = vm.sh_for(
        secs(60),
        &format!(
            "exec 3<>/dev/{name}
             dd if=/dev/zero bs=4k count=100 status=none >&3
             echo {device} >{BUS_DRIVER}/unbind
             test ! -e /sys/block/{name}
             ! python3 -c 'import os; os.fsync(3)' 2>&1"
        ),
    )?;
    let took = start.elapsed();
    ensure!(
        text.contains("Input/output error"),
        "who has the disk open hears {text:?}"
    );
    ensure!(took < secs(30), "the disk was removed after {took:?}");
    Ok(())
}
