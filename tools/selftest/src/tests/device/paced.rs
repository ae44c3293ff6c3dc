// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The pace of the programmable device, and what both sides count.

use super::{counts, expect_good, read_blocks, set, slow};
use crate::fio;
use crate::guest::{expect, secs, total, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::{Duration, Instant};
use vm::{Backend, Counters, DeviceConfig, Disk, Policy, Signal, Vm, Wait};

/// A disk that is as slow as it is told to be.
const DISK: &str = "paced";

/// A request is not let go by itself, in microseconds.
const FOREVER: u64 = 600_000_000;

pub fn group() -> Group {
    Group::new("device")
        .guest(|_| {
            let config = DeviceConfig::null(64 << 20);
            let disk = Disk::new(DISK, Backend::device(config)).num_queues(1);
            Ok(Vm::builder().disk(disk))
        })
        .shared("pace and latency are kept", |_, vm| times(vm))
        .shared("both sides count the same", |_, vm| both_sides(vm))
        .shared(
            "no signal arrives while the handler runs with suppress=loop",
            signals_in_the_handler,
        )
        .shared("a device comes and goes", |_, vm| plugged(vm))
}

fn times(vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for policy in [
        Policy {
            pace_us: 10_000,
            ..Policy::default()
        },
        Policy {
            latency_us: 10_000,
            wait: Wait::Spin,
            ..Policy::default()
        },
    ] {
        set(vm, DISK, &policy)?;
        let took = read_blocks(vm, &name, 20)?;
        ensure!(
            took >= Duration::from_millis(200),
            "20 requests took {took:?} with {policy:?}"
        );
    }
    // Many at a time end together after a latency, and not at a pace.
    let batch = format!(
        "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m --number_ios=32 \
         --ioengine=libaio --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=32"
    );
    set(vm, DISK, &slow(300_000))?;
    let report = fio::run(vm, secs(60), &batch)?;
    ensure!(
        (300..5000).contains(&report.runtime_ms),
        "32 requests with a latency of 300 ms each took {} ms",
        report.runtime_ms
    );
    // A new policy holds for what is on its way.
    set(vm, DISK, &slow(FOREVER))?;
    let read = vm.spawn(
        secs(60),
        &format!("dd if=/dev/{name} of=/dev/null bs=4k count=1 iflag=direct status=none"),
    )?;
    wait_until("the read is on its way", secs(30), || {
        let inflight = vm.sh(&format!("cat /sys/block/{name}/inflight"))?;
        Ok(inflight.trim().starts_with('1'))
    })?;
    set(vm, DISK, &Policy::default())?;
    read.wait_ok()?;
    expect_good(vm, DISK)
}

fn both_sides(vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for signal in [Signal::Each, Signal::Delayed(2_000)] {
        let policy = Policy {
            latency_us: 50,
            signal,
            ..Policy::default()
        };
        set(vm, DISK, &policy)?;
        // What was held back by the policy before is out.
        read_blocks(vm, &name, 1)?;
        let interrupts = || anyhow::Ok(vm.interrupts(DISK)?.requests());
        // Whatever comes between two readings counts for the side that may have more.
        let (device, signalled, driver) = (counts(vm, DISK)?, interrupts()?, total(vm, DISK)?);
        let started = Instant::now();
        fio::run(
            vm,
            secs(60),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m \
                 --number_ios=2000 --ioengine=libaio --iodepth=32"
            ),
        )?;
        let driver = &total(vm, DISK)? - &driver;
        let signalled = interrupts()? - signalled;
        let device = counts(vm, DISK)? - device;
        expect("requests", device.requests, driver.completions)?;
        expect("bytes read", device.bytes_read, device.reads * 4096)?;
        // Several of one may become one of the other while nobody looks.
        ensure!(
            device.kicks <= driver.kicks && driver.kicks > 0,
            "{} kicks became {}",
            driver.kicks,
            device.kicks
        );
        ensure!(
            device.signals >= signalled && signalled >= driver.interrupts,
            "{} signals became {signalled} interrupts, {} of them with something to do",
            device.signals,
            driver.interrupts
        );
        if let Signal::Delayed(micros) = signal {
            let most = started.elapsed().as_micros() / u128::from(micros) + 2;
            ensure!(
                u128::from(device.signals) <= most,
                "{} signals where there is time for {most}",
                device.signals
            );
        }
        expect_good(vm, DISK)?;
    }
    Ok(())
}

/// How many signals arrive, for 1,000 requests, while the handler is at work: the kernel counts
/// them, but drops those that find that all was done.
fn in_the_handler(vm: &Vm, name: &str, mode: &str, seconds: u64) -> Result<f64> {
    vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
    let look =
        || -> Result<(u64, Counters)> { Ok((vm.interrupts(DISK)?.requests(), total(vm, DISK)?)) };
    let (all, driver) = look()?;
    fio::run(
        vm,
        secs(60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m --norandommap \
             --ioengine=libaio --iodepth=64 --numjobs=4 --time_based --runtime={seconds}"
        ),
    )?;
    let (all, driver) = (look()?.0 - all, &look()?.1 - &driver);
    ensure!(driver.completions > 500, "fio did but {driver:?}");
    let extra = all.saturating_sub(driver.interrupts);
    Ok(1000.0 * extra as f64 / driver.completions as f64)
}

fn signals_in_the_handler(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let policy = Policy {
        pace_us: 20,
        wait: Wait::Spin,
        ..Policy::default()
    };
    set(vm, DISK, &policy)?;
    let rounds = lab.scale(1, 10);
    let (mut off, mut on) = (0.0, 0.0);
    for _ in 0..rounds {
        off += in_the_handler(vm, &name, "off", 1)? / f64::from(rounds);
        on += in_the_handler(vm, &name, "loop", 1)? / f64::from(rounds);
    }
    // On a busy machine device and guest are hardly ever at work at the same time, and there is
    // nothing to suppress.
    ensure!(
        on <= off.max(2.0),
        "{on:.2} signals for 1,000 requests arrive in the handler with loop, {off:.2} with off"
    );
    set(vm, DISK, &Policy::default())?;
    expect_good(vm, DISK)
}

/// The device's process ends with the disk, and a new one takes its place.
fn plugged(vm: &Vm) -> Result<()> {
    for id in ["first", "second"] {
        let config = DeviceConfig::ram(16 << 20).argument("--seg-max=1");
        vm.plug(Disk::new(id, Backend::device(config)))?;
        let name = vm.block_device(id)?;
        let segments = vm.sh(&format!("cat /sys/block/{name}/queue/max_segments"))?;
        expect("the number of segments", segments.trim(), "1")?;
        read_blocks(vm, &name, 10)?;
        ensure!(counts(vm, id)?.reads >= 10, "the device has read nothing");
        expect_good(vm, id)?;
        vm.unplug(id)?;
        ensure!(vm.device(id).is_err(), "the device of {id} is still there");
    }
    Ok(())
}
