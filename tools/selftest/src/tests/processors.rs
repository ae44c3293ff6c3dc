// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Processors come and go, those among them that were not there when the disk was bound.

use crate::guest::{expect, expect_settled, read, secs, set, wait_for_requests};
use crate::lab::Lab;
use crate::load::Load;
use crate::suite::Group;
use anyhow::Result;
use vm::{Backend, Disk, Vm};

const DISK: &str = "disk";
const PACKED: &str = "packed";

/// Processors at most; the disk has as many queues.
const CPUS: u32 = 4;

pub fn groups() -> Vec<Group> {
    let disk = |id| Disk::new(id, Backend::ram(64 << 20)).num_queues(CPUS as u16);
    let mut all = Group::new("processors")
        .guest(move |_| {
            let vm = Vm::builder().vcpus(CPUS);
            Ok(vm.disk(disk(DISK)).disk(disk(PACKED).packed(true)))
        })
        .shared("come and go under verified I/O", |lab, vm| {
            come_and_go(lab, vm, &[])
        })
        .shared("come and go while requests wait for timers", |lab, vm| {
            let wait = [("coalesce_usecs", "5000"), ("coalesce_adaptive", "1")];
            come_and_go(lab, vm, &wait)
        });
    // The last queue is polled.
    all.driver = Some("poll_queues=1".to_owned());
    let late = Group::new("processors")
        .guest(move |_| {
            let vm = Vm::builder().vcpus(CPUS).kernel_argument("maxcpus=1");
            Ok(vm.disk(disk(DISK)).disk(disk(PACKED).packed(true)))
        })
        .shared("that come online late have queues that work", come_late);
    vec![all, late]
}

/// Case 51: in any order, all but the first, and never a request is stuck on one that is gone.
fn come_and_go(lab: &Lab, vm: &Vm, settings: &[(&str, &str)]) -> Result<()> {
    let changes = lab.scale(12, 500);
    for disk in [DISK, PACKED] {
        set(vm, &vm.block_device(disk)?, settings)?;
    }
    let load = Load::start(vm, &[DISK, PACKED])?.and_polling()?;
    vm.sh_for(
        secs(60) + secs(2) * changes,
        &format!(
            "RANDOM=1
             for change in $(seq {changes}); do
                 file=/sys/devices/system/cpu/cpu$((1 + RANDOM % {others}))/online
                 echo $((1 - $(cat $file))) >$file || exit 1
                 sleep 0.0$((RANDOM % 10))
             done
             for cpu in $(seq {others}); do
                 echo 1 >/sys/devices/system/cpu/cpu$cpu/online
             done",
            others = CPUS - 1
        ),
    )?;
    load.end(lab, 300)?;
    for disk in [DISK, PACKED] {
        every_processor(vm, disk)?;
        expect_settled(lab, vm, disk)?;
    }
    Ok(())
}

/// A request from each processor that is online ends.
fn every_processor(vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let online = read(vm, "/sys/devices/system/cpu/online")?;
    expect("the processors online", online, format!("0-{}", CPUS - 1))?;
    for cpu in 0..CPUS {
        vm.sh(&format!(
            "taskset -c {cpu} dd if=/dev/{name} of=/dev/null bs=4k count=20 iflag=direct \
             status=none"
        ))?;
    }
    Ok(())
}

/// The others are switched on under I/O, and all their queues work.
fn come_late(lab: &Lab, vm: &Vm) -> Result<()> {
    let online = read(vm, "/sys/devices/system/cpu/online")?;
    expect("the processors online", online.as_str(), "0")?;
    let load = Load::start(vm, &[DISK, PACKED])?;
    load.goes_on(100)?;
    for cpu in 1..CPUS {
        vm.sh(&format!("echo 1 >/sys/devices/system/cpu/cpu{cpu}/online"))?;
        wait_for_requests(vm, DISK, 100)?;
    }
    load.end(lab, 300)?;
    for disk in [DISK, PACKED] {
        let name = vm.block_device(disk)?;
        let queues = vm.sh(&format!("ls /sys/block/{name}/mq | wc -l"))?;
        expect(
            "the number of queues",
            queues.trim(),
            CPUS.to_string().as_str(),
        )?;
        every_processor(vm, disk)?;
        expect_settled(lab, vm, disk)?;
    }
    Ok(())
}
