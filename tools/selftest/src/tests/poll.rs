// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Queues that are polled and have no interrupt.

use crate::fio;
use crate::guest::{expect, expect_idle, missed_interrupts, number, reload, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Vm};

/// The disk under test.
const DISK: &str = "polled";

pub fn groups() -> Vec<Group> {
    let mut group = Group::new("poll queues")
        .guest(|_| {
            let disk = Disk::new(DISK, Backend::ram(64 << 20)).num_queues(2);
            Ok(Vm::builder().vcpus(2).disk(disk))
        })
        .shared("what is polled for needs no interrupt", need_no_interrupt)
        .shared("both kinds of queues work side by side", work_side_by_side)
        .shared("one queue keeps its interrupt", one_keeps_its_interrupt);
    group.driver = Some("poll_queues=1".to_owned());
    vec![group]
}

fn need_no_interrupt(lab: &Lab, vm: &Vm) -> Result<()> {
    for batch in [1, 0] {
        let name = vm.block_device(DISK)?;
        vm.sh(&format!("echo {batch} >/sys/block/{name}/batch"))?;
        let (signals, counters) = (vm.interrupts(DISK)?, vm.counters(DISK)?);
        let report = fio::run(
            vm,
            secs(120),
            &polled(&name, "randwrite", 0, lab.scale(2, 60)),
        )?;
        let signals = &vm.interrupts(DISK)? - &signals;
        let later = vm.counters(DISK)?;
        expect("the number of queues", later.len(), 2)?;
        let polled = &later[1] - &counters[1];
        ensure!(report.transfers() > 500, "fio did but {report:?}");
        ensure!(
            polled.completions >= report.transfers(),
            "the polled queue completed {} of {} requests",
            polled.completions,
            report.transfers()
        );
        expect("interrupts of the polled queue", polled.interrupts, 0)?;
        // Others may use the other queue meanwhile, but hardly.
        ensure!(
            signals.requests() < 20,
            "{} interrupts came while only polls were due",
            signals.requests()
        );
    }
    expect_idle(vm, DISK)
}

fn work_side_by_side(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let seconds = lab.scale(3, 120);
    let beside = fio::start(vm, secs(180), &polled(&name, "randwrite", 32, seconds))?;
    let report = fio::run(
        vm,
        secs(180),
        &format!(
            "--name=i --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m --ioengine=libaio \
             --iodepth=32 --verify=crc32c --time_based --runtime={seconds}"
        ),
    )?;
    let polled = beside.finish()?;
    ensure!(
        report.transfers() > 500 && polled.transfers() > 500,
        "fio did but {report:?} and {polled:?}"
    );
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 0)?;
    expect_idle(vm, DISK)
}

fn one_keeps_its_interrupt(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (wanted, queues, polled) in [(0, 2, 0), (1, 2, 1), (65535, 2, 1)] {
        reload(vm, &format!("poll_queues={wanted}"))?;
        let name = vm.block_device(DISK)?;
        let file = |file: &str| number::<u32>(vm, &format!("/sys/block/{name}/{file}"));
        expect("the number of queues", file("num_request_queues")?, queues)?;
        expect("the number of polled queues", file("poll_queues")?, polled)?;
        vm.sh(&format!(
            "dd if=/dev/{name} of=/dev/null bs=4k count=64 iflag=direct"
        ))?;
    }
    reload(vm, "poll_queues=1")
}

/// fio's job that polls for what it writes and verifies.
fn polled(name: &str, rw: &str, offset_mib: u32, seconds: u64) -> String {
    format!(
        "--name=p --filename=/dev/{name} --rw={rw} --bs=4k --offset={offset_mib}m --size=8m \
         --ioengine=io_uring --hipri=1 --iodepth=16 --verify=crc32c --time_based \
         --runtime={seconds}"
    )
}
