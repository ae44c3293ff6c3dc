// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The machine sleeps and wakes: its devices lose their state, and no request is lost.
//!
//! The guests have their root in memory, because the driver of virtio-fs refuses to sleep. The
//! stock kernel has no `pm_test`, so the machine sleeps for good, and QEMU wakes it.

use crate::fio;
use crate::guest::{
    expect, expect_settled, load_anew, number, secs, set, wait_for_requests, wait_until,
};
use crate::lab::{Lab, SLOW_GROUP};
use crate::load::Load;
use crate::qmp;
use crate::suite::Group;
use anyhow::{ensure, Result};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vm::{Backend, Disk, Root, Transport, Vm};

/// A disk on which 32 requests take longer than falling asleep.
const SLOW: &str = "slow";

/// Disks whose rings differ.
const SPLIT: &str = "split";
const FLAGS: &str = "flags";
const PACKED: &str = "packed";

/// The disk that the guest's memory is saved on.
const SWAP: &str = "swap";

/// Less than the image of any guest, in bytes.
const IMAGE: u64 = 16 << 20;

/// Bytes of a disk.
const SIZE: u64 = 64 << 20;

/// Settings of our driver under which a request may be waiting for a timer when sleep comes.
const WAITING: [&[(&str, &str)]; 6] = [
    &[("suppress", "off")],
    &[("suppress", "loop")],
    &[("suppress", "delayed")],
    &[("coalesce_usecs", "100000"), ("coalesce_method", "timer")],
    &[("coalesce_usecs", "100000"), ("coalesce_method", "event")],
    &[("coalesce_adaptive", "1"), ("coalesce_usecs", "5000")],
];

pub fn groups() -> Vec<Group> {
    let group = Group::new("sleep")
        .guest(|lab| {
            let disk = |id| Disk::new(id, Backend::ram(SIZE)).num_queues(2);
            Ok(Vm::builder()
                .vcpus(2)
                .root(Root::Memory)
                .qemu_arguments(SLOW_GROUP)
                .disk(Disk::new(SLOW, lab.throttled(SIZE)?).num_queues(2))
                .disk(Disk::new(SWAP, Backend::ram(512 << 20)).num_queues(2))
                .disk(disk(SPLIT))
                .disk(disk(FLAGS).event_idx(false))
                .disk(disk(PACKED).packed(true)))
        })
        .shared(
            "to memory under verified I/O on a slow device",
            |lab, vm| under_io(lab, vm, "mem", &[SLOW], lab.scale(3, 50)),
        )
        .shared("to memory with each kind of ring", |lab, vm| {
            under_io(lab, vm, "mem", &[SPLIT, FLAGS, PACKED], lab.scale(2, 20))
        })
        .shared("to idle under verified I/O", |lab, vm| {
            under_io(lab, vm, "freeze", &[SLOW, SPLIT], lab.scale(2, 50))
        })
        .shared("to disk and back, through the disk itself", hibernate)
        .shared("bind, unbind and unload after sleep", bind_and_unbind)
        .shared(
            "the disk keeps its name, settings and queues",
            keeps_what_it_had,
        )
        .shared("while requests wait for timers", while_requests_wait)
        .shared("with polled queues", with_polled_queues)
        .shared(
            "a disk that was resized meanwhile has its new size",
            resized,
        );
    let mmio = Group::new("sleep")
        .guest(|_| {
            let disk = |id, size| {
                let disk = Disk::new(id, Backend::ram(size)).num_queues(2);
                disk.transport(Transport::Mmio)
            };
            Ok(Vm::builder()
                .vcpus(2)
                .root(Root::Memory)
                .qemu_arguments(["-global", "virtio-mmio.force-legacy=off"])
                .disk(disk(SPLIT, SIZE))
                .disk(disk(SWAP, 512 << 20)))
        })
        // No press of a button and no alarm wakes a microvm, so it does not sleep otherwise.
        .shared("to disk and back on virtio-mmio", hibernate);
    vec![group, mmio]
}

/// Sends the machine to sleep and wakes it again.
fn sleep(vm: &Vm, state: &str) -> Result<()> {
    if state == "mem" {
        return sleep_while(vm, || Ok(()));
    }
    idle(vm)?;
    vm.check()
}

/// Sends the machine to sleep, its memory only being kept, and wakes it again after `action`.
fn sleep_while(vm: &Vm, action: impl FnOnce() -> Result<()>) -> Result<()> {
    let asleep = vm.spawn(secs(120), "echo mem >/sys/power/state")?;
    vm.monitor().wait_for_event("SUSPEND")?;
    action()?;
    vm.monitor().execute("system_wakeup", json!({}))?;
    asleep.wait_ok()?;
    vm.check()
}

/// Nothing tells QEMU that the guest is idle, so its power button is pressed again and again;
/// pressed too early it keeps the guest from sleeping, which tries again.
fn idle(vm: &Vm) -> Result<()> {
    let monitor = vm.monitor();
    let is_awake = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| -> Result<()> {
            for tenths in 1.. {
                std::thread::sleep(Duration::from_millis(100));
                if is_awake.load(Ordering::Relaxed) {
                    break;
                }
                if tenths % 20 == 0 {
                    monitor.execute("system_powerdown", json!({}))?;
                }
            }
            Ok(())
        });
        let script = "modprobe button; until echo freeze >/sys/power/state; do sleep 0.5; done";
        let slept = vm.sh_for(secs(60), script);
        is_awake.store(true, Ordering::Relaxed);
        slept.map(drop)
    })
}

/// Case 47: what is in flight is drained, then the device is reset, and all data is right.
fn under_io(lab: &Lab, vm: &Vm, state: &str, disks: &[&str], times: u32) -> Result<()> {
    let load = Load::start(vm, disks)?;
    for _ in 0..times {
        load.goes_on(300)?;
        sleep(vm, state)?;
    }
    load.end(lab, 300)
}

/// The kernel writes an image of the guest's memory to the disk, switches all devices off, and
/// reads the image from there again as if it had just been booted.
fn hibernate(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(SWAP)?;
    vm.sh(&format!(
        "set -e
         mkswap /dev/{name} >/dev/null
         busybox swapon /dev/{name}
         cat /sys/block/{name}/dev >/sys/power/resume
         echo test_resume >/sys/power/disk
         echo 0 >/sys/power/image_size"
    ))?;
    let moved = || -> Result<(u64, u64)> {
        let bytes = |count| qmp::block_count(vm, SWAP, count);
        Ok((bytes("wr_bytes")?, bytes("rd_bytes")?))
    };
    let load = Load::start(vm, &[SPLIT])?;
    for _ in 0..lab.scale(1, 10) {
        load.goes_on(100)?;
        let before = moved()?;
        vm.sh_for(secs(300), "echo disk >/sys/power/state")?;
        let after = moved()?;
        let (written, read) = (after.0 - before.0, after.1 - before.1);
        ensure!(
            written.min(read) > IMAGE,
            "the image cannot have been where it should: {written} bytes were written and {read} \
             bytes read"
        );
    }
    load.end(lab, 100)?;
    vm.sh(&format!("busybox swapoff /dev/{name}"))?;
    fio::run(vm, secs(60), &fio::verified(&name, 1))?;
    expect_settled(lab, vm, SWAP)?;
    expect_settled(lab, vm, SPLIT)
}

/// What a device that was restored leaves behind is what one that was never asleep does.
fn bind_and_unbind(lab: &Lab, vm: &Vm) -> Result<()> {
    let driver = lab.driver();
    let device = vm.virtio_device(SPLIT)?;
    for _ in 0..lab.scale(2, 20) {
        sleep(vm, "mem")?;
        vm.sh(&format!(
            "echo {device} >/sys/bus/virtio/drivers/{driver}/unbind
             if grep '{device}-' /proc/interrupts; then echo an interrupt is left; exit 1; fi
             echo {device} >/sys/bus/virtio/drivers/{driver}/bind"
        ))?;
        let name = vm.block_device(SPLIT)?;
        fio::run(vm, secs(60), &fio::verified(&name, 1))?;
    }
    sleep(vm, "mem")?;
    load_anew(lab, vm, "")?;
    let name = vm.block_device(SPLIT)?;
    fio::run(vm, secs(60), &fio::verified(&name, 1))?;
    expect_settled(lab, vm, SPLIT)
}

/// Everything below the disk's folder that has a value, but for counts.
fn keeps_what_it_had(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PACKED)?;
    if lab.is_ours() {
        set(
            vm,
            &name,
            &[("suppress", "delayed"), ("coalesce_usecs", "50")],
        )?;
    }
    let values = || -> Result<String> {
        let text = vm.sh(&format!(
            "cd /sys/block/{name} && grep -r '' . 2>/dev/null | \
             grep -v -e /stat: -e /power/ -e /inflight: -e /uevent: -e diskseq: | sort"
        ))?;
        let lines = vm.sh("grep -o 'virtio[0-9]*-[a-z.0-9_]*' /proc/interrupts | sort")?;
        Ok(text + &lines)
    };
    let before = values()?;
    sleep(vm, "mem")?;
    expect("what the disk says", values()?, before)?;
    let size: u64 = number(vm, &format!("/sys/block/{name}/size"))?;
    expect("the size in bytes", size * 512, SIZE)
}

/// Case 23: a timer that runs when sleep comes neither delays it nor fires into what is gone.
fn while_requests_wait(lab: &Lab, vm: &Vm) -> Result<()> {
    let (split, packed) = (vm.block_device(SPLIT)?, vm.block_device(PACKED)?);
    let load = Load::start(vm, &[SPLIT, PACKED])?;
    for settings in lab.scale(&WAITING[2..], &WAITING) {
        for name in [&split, &packed] {
            set(vm, name, settings)?;
        }
        wait_for_requests(vm, SPLIT, 200)?;
        let started = Instant::now();
        sleep(vm, "mem")?;
        ensure!(
            started.elapsed() < secs(30),
            "sleep took {:?} with {settings:?}",
            started.elapsed()
        );
        wait_for_requests(vm, PACKED, 200)?;
    }
    load.end(lab, 200)?;
    load_anew(lab, vm, "")
}

fn with_polled_queues(lab: &Lab, vm: &Vm) -> Result<()> {
    load_anew(lab, vm, "poll_queues=1")?;
    let load = Load::start(vm, &[SPLIT])?.and_polling()?;
    for _ in 0..lab.scale(2, 20) {
        load.goes_on(200)?;
        sleep(vm, "mem")?;
    }
    load.end(lab, 200)?;
    load_anew(lab, vm, "")
}

/// Nobody is told of the change: the device is reset when the machine wakes.
fn resized(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(SPLIT)?;
    let file = format!("/sys/block/{name}/size");
    let node = Disk::new(SPLIT, Backend::ram(SIZE)).node();
    for size in [2 * SIZE, SIZE] {
        let arguments = json!({"node-name": node, "size": size});
        sleep_while(vm, || {
            vm.monitor().execute("block_resize", arguments).map(drop)
        })?;
        wait_until("the disk has its new size", secs(10), || {
            Ok(number::<u64>(vm, &file)? * 512 == size)
        })?;
    }
    fio::run(vm, secs(60), &fio::verified(&name, 1))?;
    expect_settled(lab, vm, SPLIT)
}
