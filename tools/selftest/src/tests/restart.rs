// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A device that is started anew while its disk is in use. (Suspend and PCI reset do the same in
//! the driver; their tests are where those are.)

use crate::fio;
use crate::guest::{
    expect, expect_idle, log_of, missed_interrupts, read, secs, wait_until, DEBUGFS,
};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use std::time::Instant;
use vm::{Backend, DeviceConfig, Disk, Policy, Vm};

const DISK: &str = "disk";
const PACKED: &str = "packed";
const BARE: &str = "bare";
const STUCK: &str = "stuck";

pub fn groups() -> Vec<Group> {
    let group = Group::new("restart")
        .guest(|_| {
            let disk = |id| Disk::new(id, Backend::ram(64 << 20)).num_queues(2);
            let stuck = Backend::device(DeviceConfig::ram(64 << 20));
            Ok(Vm::builder()
                .vcpus(2)
                .disk(disk(DISK))
                .disk(disk(PACKED).packed(true))
                .disk(disk(BARE).indirect_desc(false))
                .disk(Disk::new(STUCK, stuck)))
        })
        .shared("indirect changes at once", indirect_changes)
        .shared(
            "without the feature indirect can be wanted but not had",
            indirect_is_not_offered,
        )
        .shared("restarts under load lose nothing", |lab, vm| {
            restarts_under_load(lab, vm, DISK)
        })
        .shared("restarts under load lose nothing, packed", |lab, vm| {
            restarts_under_load(lab, vm, PACKED)
        })
        .shared(
            "what a device does not return is submitted again",
            stuck_device,
        );
    vec![group]
}

fn set_indirect(vm: &Vm, name: &str, value: &str) -> Result<()> {
    vm.sh(&format!("echo {value} >/sys/block/{name}/indirect"))?;
    Ok(())
}

fn in_use(vm: &Vm, name: &str) -> Result<String> {
    let status = read(vm, &format!("{DEBUGFS}/{name}/status"))?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("indirect_in_use "));
    Ok(value
        .context("the status lacks indirect_in_use")?
        .to_owned())
}

/// The driver says which it is, and so does what the bus has negotiated. The ring has 256
/// descriptors, which is not enough for `auto` to do without tables.
fn indirect_changes(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for (value, right) in [("off", "0"), ("on", "1"), ("off", "0"), ("auto", "1")] {
        set_indirect(vm, &name, value)?;
        expect(
            "the file",
            read(vm, &format!("/sys/block/{name}/indirect"))?.as_str(),
            value,
        )?;
        expect("indirect_in_use", in_use(vm, &name)?.as_str(), right)?;
        let negotiated = vm
            .features(DISK)?
            .iter()
            .any(|feature| feature == "VIRTIO_RING_F_INDIRECT_DESC");
        expect("INDIRECT_DESC", negotiated, right == "1")?;
        vm.sh(&format!(
            "dd if=/dev/{name} of=/dev/null bs=1M iflag=direct status=none"
        ))?;
    }
    Ok(())
}

fn indirect_is_not_offered(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(BARE)?;
    for value in ["on", "off", "auto"] {
        set_indirect(vm, &name, value)?;
        expect("indirect_in_use", in_use(vm, &name)?.as_str(), "0")?;
    }
    Ok(())
}

/// Each write of the file starts the device anew, under jobs that verify what they wrote, one of
/// them with flushes, while timers run.
fn restarts_under_load(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let seconds = lab.scale(5, 120);
    vm.sh(&format!("echo 1 >/sys/block/{name}/coalesce_adaptive"))?;
    let restarts = vm.spawn(
        secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); count=0
             while test $SECONDS -lt $end; do for value in off on; do
                 echo $value >/sys/block/{name}/indirect || exit 1
                 count=$((count + 1)); sleep 0.02
             done; done; echo $count"
        ),
    )?;
    let jobs = format!(
        "{} --name=f --offset=32m --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m \
         --ioengine=libaio --iodepth=4 --fsync=4 --verify=crc32c --time_based --runtime={seconds}",
        fio::verified(&name, seconds)
    );
    let report = fio::run(vm, secs(seconds + 60), &jobs)?;
    let count: u64 = restarts.wait_ok()?.trim().parse()?;
    vm.sh(&format!(
        "echo 0 >/sys/block/{name}/coalesce_adaptive; echo auto >/sys/block/{name}/indirect"
    ))?;
    ensure!(count > 3, "the device was started anew but {count} times");
    ensure!(
        report.transfers() > 1000 && report.syncs > 0,
        "fio did but {report:?}"
    );
    expect("missed interrupts", missed_interrupts(vm, disk)?, 0)?;
    expect_idle(vm, disk)
}

/// The device takes two minutes for a request. It is reset after the ten seconds that requests get
/// to end, and given all of them again: none fails, and none is lost when it is quick at last.
fn stuck_device(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(STUCK)?;
    let device = vm.device(STUCK)?;
    device.set(&Policy {
        latency_us: 120_000_000,
        ..Policy::default()
    })?;
    let writes = fio::start(
        vm,
        secs(100),
        &format!(
            "--name=j --filename=/dev/{name} --rw=write --bs=4k --size=256k --ioengine=libaio \
             --iodepth=64 --verify=crc32c"
        ),
    )?;
    let file = format!("/sys/block/{name}/inflight");
    wait_until("the requests are in flight", secs(20), || {
        Ok(read(vm, &file)?.split_whitespace().last() == Some("64"))
    })?;
    let start = Instant::now();
    let log = log_of(vm, || {
        vm.sh_for(secs(60), &format!("echo off >/sys/block/{name}/indirect"))?;
        Ok(())
    })?;
    let took = start.elapsed();
    ensure!(took > secs(9), "the restart waited {took:?} for the device");
    ensure!(
        log.iter()
            .any(|line| line.contains("64 requests had not ended")),
        "the log says {log:?}"
    );
    device.set(&Policy::default())?;
    let report = writes.finish()?;
    expect("the number of writes", report.writes, 64)?;
    set_indirect(vm, &name, "auto")?;
    expect_idle(vm, STUCK)
}
