// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The PCI core resets a device in use, or finds that it is gone.

use crate::fio;
use crate::guest::{expect, expect_settled, load_anew, read, secs, set, wait_for_requests};
use crate::lab::{Lab, SLOW_GROUP};
use crate::load::Load;
use crate::open_disk::OpenDisk;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::Instant;
use vm::{Backend, Disk, Transport, Vm};

/// A disk on which 32 requests take a while.
const SLOW: &str = "slow";

/// Disks whose rings differ.
const SPLIT: &str = "split";
const PACKED: &str = "packed";

/// Disks that lose their power.
const LOST: &str = "lost";
const LOST_SLOW: &str = "lost-slow";

pub fn groups() -> Vec<Group> {
    let guest = |ids: &'static [&'static str]| {
        move |lab: &Lab| {
            let disk = |id: &&str| -> Result<Disk> {
                let backend = if id.ends_with(SLOW) {
                    lab.throttled(64 << 20)?
                } else {
                    Backend::ram(64 << 20)
                };
                Ok(Disk::new(id, backend)
                    .num_queues(2)
                    .packed(*id == PACKED)
                    .transport(Transport::PciExpress))
            };
            let disks = ids.iter().map(disk).collect::<Result<Vec<_>>>()?;
            let vm = Vm::builder().vcpus(2).qemu_arguments(SLOW_GROUP);
            Ok(disks.into_iter().fold(vm, |vm, disk| vm.disk(disk)))
        }
    };
    let reset = Group::new("reset")
        .guest(guest(&[SLOW, SPLIT, PACKED]))
        .shared("by each method, idle", idle)
        .shared("under verified I/O on a slow device", |lab, vm| {
            under_io(lab, vm, &[SLOW], lab.scale(4, 100))
        })
        .shared("under verified I/O with each kind of ring", |lab, vm| {
            under_io(lab, vm, &[SPLIT, PACKED], lab.scale(4, 200))
        })
        .shared("while requests wait for timers", while_requests_wait)
        .shared("with polled queues", with_polled_queues);
    let lost = Group::new("reset")
        .guest(guest(&[LOST, LOST_SLOW]))
        .shared("a device that is gone at once fails its I/O", |_, vm| {
            surprise(vm, LOST)
        })
        .shared(
            "a slow device that is gone at once fails its I/O",
            |_, vm| surprise(vm, LOST_SLOW),
        );
    vec![reset, lost]
}

/// The folder of the PCI device of a disk.
fn pci(vm: &Vm, disk: &str) -> Result<String> {
    let device = vm.virtio_device(disk)?;
    let path = vm.sh(&format!(
        "dirname $(readlink -f /sys/bus/virtio/devices/{device})"
    ))?;
    Ok(path.trim().to_owned())
}

fn idle(lab: &Lab, vm: &Vm) -> Result<()> {
    let device = pci(vm, SPLIT)?;
    let methods = read(vm, &format!("{device}/reset_method"))?;
    // Its own, one by its power management, and that of the bus.
    expect("the ways to reset it", methods.as_str(), "flr pm bus")?;
    let name = vm.block_device(SPLIT)?;
    for method in methods.split(' ') {
        vm.sh(&format!(
            "echo {method} >{device}/reset_method && echo 1 >{device}/reset"
        ))?;
        expect("the disk's name", vm.block_device(SPLIT)?, name.clone())?;
        fio::run(vm, secs(60), &fio::verified(&name, 1))?;
        expect_settled(lab, vm, SPLIT)?;
    }
    vm.sh(&format!("echo default >{device}/reset_method"))?;
    Ok(())
}

fn under_io(lab: &Lab, vm: &Vm, disks: &[&str], times: u32) -> Result<()> {
    let load = Load::start(vm, disks)?;
    for _ in 0..times {
        for disk in disks {
            reset_when_busy(vm, disk)?;
        }
    }
    load.end(lab, 300)
}

/// Resets the device of a disk after some more requests.
fn reset_when_busy(vm: &Vm, disk: &str) -> Result<()> {
    let device = pci(vm, disk)?;
    wait_for_requests(vm, disk, 100)?;
    vm.sh(&format!("echo 1 >{device}/reset"))?;
    Ok(())
}

fn while_requests_wait(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(SPLIT)?;
    let load = Load::start(vm, &[SPLIT])?;
    for method in ["timer", "event"] {
        let wait = [("coalesce_usecs", "100000"), ("coalesce_method", method)];
        set(vm, &name, &wait)?;
        for _ in 0..lab.scale(2, 20) {
            reset_when_busy(vm, SPLIT)?;
        }
    }
    load.end(lab, 300)?;
    load_anew(lab, vm, "")
}

fn with_polled_queues(lab: &Lab, vm: &Vm) -> Result<()> {
    load_anew(lab, vm, "poll_queues=1")?;
    let load = Load::start(vm, &[SPLIT])?.and_polling()?;
    for _ in 0..lab.scale(3, 50) {
        reset_when_busy(vm, SPLIT)?;
    }
    load.end(lab, 600)?;
    load_anew(lab, vm, "")
}

/// The port's power is switched off, at which QEMU takes the device away, and on again, before the
/// guest is told that something has changed: it finds that the device is not there any more, as if
/// somebody had pulled it out. Whatever is in flight fails in seconds.
fn surprise(vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let device = pci(vm, disk)?;
    let job = format!(
        "--name=j --filename=/dev/{name} --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 \
         --size=64m --time_based --runtime=120"
    );
    let load = fio::start(vm, secs(180), &job)?;
    let open = OpenDisk::open(vm, disk)?;
    wait_for_requests(vm, disk, 100)?;
    let started = Instant::now();
    vm.sh_for(
        secs(60),
        &format!(
            "port=$(basename $(dirname {device}))
             setpci -s $port CAP_EXP+18.w=0700:0720 CAP_EXP+18.w=0120:0720
             while test -e {device}; do sleep 0.05; done"
        ),
    )?;
    load.fails()?;
    ensure!(
        started.elapsed() < secs(30),
        "it took {:?} until the disk was gone",
        started.elapsed()
    );
    open.expect_gone(vm)
}
