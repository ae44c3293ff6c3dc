// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! No completion is missed, whatever the depth, the ring's features and the kind of interrupt.

use crate::fio;
use crate::guest::{expect, expect_idle, missed_interrupts, secs, sum_of, total, MODES};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::Duration;
use vm::{Backend, Disk, Transport, Vm};

/// What the driver meets: a name, and the property of the device that makes it.
const RINGS: [(&str, &str, bool); 3] = [
    ("event", "event_idx", true),
    ("flags", "event_idx", false),
    ("packed", "packed", true),
];

pub fn groups() -> Vec<Group> {
    let depths = Group::new("wakeups").guest(|_| {
        let vm = Vm::builder().vcpus(2);
        Ok(RINGS.into_iter().fold(vm, |vm, (id, property, value)| {
            vm.disk(Disk::new(id, Backend::null(64 << 20)).property(property, value))
        }))
    });
    let depths = RINGS
        .into_iter()
        .fold(depths, |group, (id, property, value)| {
            let on = if value { "on" } else { "off" };
            group.shared(
                format!("depths from 1 to 128 with {property}={on}"),
                move |lab, vm| every_depth(lab, vm, id),
            )
        });
    let pci = Group::new("wakeups")
        .guest(|_| {
            let disk = |id| Disk::new(id, Backend::ram(64 << 20)).num_queues(2);
            Ok(Vm::builder()
                .vcpus(2)
                .disk(disk("intx").property("vectors", 0))
                // One vector for the configuration and one for all queues.
                .disk(disk("shared").property("vectors", 2))
                .disk(disk("masked"))
                .disk(
                    disk("legacy")
                        .property("disable-modern", true)
                        .property("disable-legacy", "off"),
                ))
        })
        .shared("queues that share a line with vectors=0", |lab, vm| {
            shared_line(lab, vm, "intx")
        })
        .shared("queues that share a vector", |lab, vm| {
            shared_line(lab, vm, "shared")
        })
        .shared(
            "a request whose interrupt is lost ends when it times out",
            |_, vm| lost_interrupt(vm, "masked"),
        )
        .shared("a legacy device on PCI", |lab, vm| {
            legacy(lab, vm, "legacy")
        });
    let mmio = Group::new("wakeups")
        .guest(|_| {
            let disk = Disk::new("mmio", Backend::ram(64 << 20)).num_queues(2);
            Ok(Vm::builder().vcpus(2).disk(disk.transport(Transport::Mmio)))
        })
        .shared("queues that share the line of virtio-mmio", |lab, vm| {
            shared_line(lab, vm, "mmio")
        })
        .shared("a legacy device on virtio-mmio", |lab, vm| {
            legacy(lab, vm, "mmio")
        });
    vec![depths, pci, mmio]
}

/// A device whose interrupts are masked completes a request, and nothing tells of it. The driver
/// has to look for it when its time is up; it ends once, and is counted. From then on the queue is
/// watched: further ones end soon, until there is an interrupt again.
fn lost_interrupt(vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let missed = || missed_interrupts(vm, disk);
    // One processor, and so one queue.
    let read = format!(
        "taskset -c 0 dd if=/dev/{name} of=/dev/null bs=4k count=1 iflag=direct status=none"
    );
    let many = read.replace("count=1", "count=50");
    expect("the number of interrupts missed before", missed()?, 0)?;
    vm.sh(&format!(
        "echo 1000 >/sys/block/{name}/queue/io_timeout
         device=$(basename $(readlink -f /sys/block/{name}/device/..))
         setpci -s $device CAP_MSIX+2.w=4000:4000
         timeout 20 {read}; status=$?
         timeout 5 {many} || status=$?
         setpci -s $device CAP_MSIX+2.w=0:4000
         exit $status"
    ))?;
    expect("the number of interrupts missed", missed()?, 1)?;
    // An interrupt that comes just after a look finds nothing, and ends no watch.
    vm.sh(&many)?;
    expect("the number of interrupts missed after", missed()?, 1)?;
    let fires = || sum_of(vm, disk, "timer_fires");
    let before = fires()?;
    ensure!(before > 10, "the queue was looked at but {before} times");
    std::thread::sleep(Duration::from_millis(500));
    expect("how often the timer fired in the end", fires()?, before)?;
    ensure!(
        vm.dmesg()?.contains("had completed without an interrupt"),
        "the kernel's log does not tell of the lost interrupt"
    );
    Ok(())
}

/// Case 21: a request that ends just before callbacks are enabled again must be seen. At depth 1
/// there is no later one that could make up for a lost wakeup.
fn every_depth(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let requests = lab.scale(2000, 100_000);
    for mode in MODES {
        vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
        let mut jobs = format!(
            "--filename=/dev/{name} --rw=randread --bs=4k --size=64m --io_size={}k \
             --ioengine=io_uring --stonewall",
            4 * requests
        );
        let depths = [1, 2, 4, 8, 16, 32, 64, 128];
        for depth in depths {
            jobs += &format!(" --name=depth{depth} --iodepth={depth}");
        }
        let before = total(vm, disk)?;
        let report = fio::run(vm, secs(lab.scale(120, 1200)), &jobs)?;
        let did = &total(vm, disk)? - &before;
        expect(
            "the number of reads",
            report.reads,
            requests * depths.len() as u64,
        )?;
        ensure!(
            did.completions <= report.reads && did.completions > 0,
            "{} requests for {} reads",
            did.completions,
            report.reads
        );
        expect_idle(vm, disk)?;
    }
    Ok(())
}

/// Case 22: an interrupt for one queue must not eat that for another.
fn shared_line(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let lines: Vec<_> = vm.interrupts(disk)?.lines().keys().cloned().collect();
    let queues = lines
        .iter()
        .filter(|line| !line.ends_with("-config"))
        .count();
    ensure!(queues == 1, "the queues share no interrupt: {lines:?}");
    let before = vm.interrupts(disk)?.requests();
    let mib = lab.scale(4, 30);
    for mode in MODES {
        vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
        fio::run(
            vm,
            secs(300),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size={mib}m --numjobs=2 \
                 --offset_increment=32m --iodepth=16 --ioengine=libaio --verify=crc32c \
                 --cpus_allowed=0,1 --cpus_allowed_policy=split"
            ),
        )?;
        expect_idle(vm, disk)?;
    }
    let after = vm.interrupts(disk)?.requests();
    ensure!(after > before, "the disk worked without an interrupt");
    for (queue, counters) in vm.counters(disk)?.iter().enumerate() {
        ensure!(
            counters.interrupts > 0,
            "no interrupt has reached queue {queue}"
        );
    }
    Ok(())
}

/// The interface before virtio 1.0: the guest's own byte order, no VERSION_1.
fn legacy(_lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let features = vm.features(disk)?;
    ensure!(
        !features.iter().any(|name| name == "VIRTIO_F_VERSION_1"),
        "the device is not a legacy one: {features:?}"
    );
    let name = vm.block_device(disk)?;
    fio::run(vm, secs(60), &fio::all_sizes(&name, 16))?;
    expect_idle(vm, disk)
}
