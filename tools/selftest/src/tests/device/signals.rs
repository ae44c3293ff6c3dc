// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Signals for nothing, and fewer signals than there are completions (case 25).

use super::{counts, expect_good, read_blocks, set};
use crate::fio;
use crate::guest::{expect, expect_idle, missed_interrupts, secs, total, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use serde_json::json;
use std::time::Duration;
use vm::{Backend, DeviceConfig, Disk, Policy, Signal, Vm};

/// The disk whose device signals as it likes.
const DISK: &str = "chatty";

/// So many interrupts for nothing there are at least.
const SIGNALS: u64 = 100_000;

/// They are sent so far apart that QEMU makes interrupts of most of them.
const GAP_US: u64 = 20;

pub fn groups() -> Vec<Group> {
    let guest = |_: &Lab| {
        let config = DeviceConfig::ram(64 << 20);
        let disk = Disk::new(DISK, Backend::device(config)).num_queues(1);
        Ok(Vm::builder().vcpus(2).disk(disk))
    };
    let works = Group::new("device")
        .guest(guest)
        .shared("100,000 signals for nothing while it works", while_it_works)
        .shared("one signal for many completions", seldom);
    let idle = Group::new("device")
        .guest(move |lab| {
            // The kernel has had enough of such a line, and says so at length.
            guest(lab)?.tolerate(r"nobody cared|Call Trace|handlers:|Disabling IRQ")
        })
        .shared("100,000 signals for nothing while it is idle", |_, vm| {
            while_it_is_idle(vm)
        });
    vec![works, idle]
}

/// Sends `count` signals in a row, and returns how many interrupts for nothing they became: on a
/// busy machine QEMU makes one of several.
fn signal(vm: &Vm, count: u64) -> Result<u64> {
    let for_nothing = || -> Result<u64> {
        // What comes between the two is not for nothing, but little.
        let driver = total(vm, DISK)?.interrupts;
        Ok(vm.interrupts(DISK)?.requests().saturating_sub(driver))
    };
    let before = for_nothing()?;
    vm.device(DISK)?.ask(&json!({
        "command": "signal", "queue": 0, "count": count, "gap_us": GAP_US
    }))?;
    Ok(for_nothing()?.saturating_sub(before))
}

/// Interrupts for nothing do not reach the driver, and harm nothing: the virtio core drops them.
fn while_it_works(_lab: &Lab, vm: &Vm) -> Result<()> {
    let load = fio::start_endless(vm, &vm.block_device(DISK)?)?;
    let before = total(vm, DISK)?;
    let mut found = 0;
    for _ in 0..100 {
        found += signal(vm, SIGNALS / 10)?;
        if found >= SIGNALS {
            break;
        }
    }
    ensure!(found >= SIGNALS, "there were but {found} for nothing");
    let did = &total(vm, DISK)? - &before;
    fio::stop(vm, vec![load])?;
    ensure!(
        did.completions > 1000,
        "the disk did but {did:?} among signals for nothing"
    );
    expect_good(vm, DISK)
}

/// A device may keep its signals back, or send one for all that it has ended.
fn seldom(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for signal in [Signal::Batch, Signal::Delayed(10_000)] {
        let policy = Policy {
            latency_us: 200,
            signal,
            ..Policy::default()
        };
        set(vm, DISK, &policy)?;
        let before = counts(vm, DISK)?;
        let job = fio::verified(&name, lab.scale(2, 60));
        let report = fio::run(vm, secs(120), &job)?;
        let did = counts(vm, DISK)? - before;
        ensure!(
            did.requests >= report.writes && did.signals * 2 < did.requests,
            "{} requests were signalled {} times with {signal}",
            did.requests,
            did.signals
        );
        expect_good(vm, DISK)?;
    }
    set(vm, DISK, &Policy::default())
}

/// Where nothing but interrupts for nothing arrives, the kernel disables the line, and no interrupt
/// will ever come again. Requests end nevertheless: the first when its time is up, and then, as
/// the queue is watched, each without much ado.
fn while_it_is_idle(vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    vm.sh(&format!("echo 1000 >/sys/block/{name}/queue/io_timeout"))?;
    // The kernel counts those that follow each other closely.
    let mut sent = SIGNALS * 5 / 4;
    loop {
        let found = signal(vm, sent)?;
        if vm.dmesg()?.contains("nobody cared") {
            break;
        }
        ensure!(
            sent < 4 * SIGNALS,
            "the kernel has put up with {found} interrupts for nothing"
        );
        sent *= 2;
    }
    read_blocks(vm, &name, 1)?;
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 1)?;
    let took = read_blocks(vm, &name, 100)?;
    ensure!(
        took < Duration::from_secs(20),
        "100 reads took {took:?} on a queue that is watched"
    );
    let report = fio::run(vm, secs(120), &fio::verified(&name, 3))?;
    ensure!(report.writes > 100, "fio did but {report:?}");
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 1)?;
    wait_until("nothing is in flight", secs(10), || {
        Ok(expect_idle(vm, DISK).is_ok())
    })
}
