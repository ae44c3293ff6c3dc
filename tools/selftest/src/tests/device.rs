// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The driver on the programmable device, whose own counts tell what the driver made it do.

mod held;
mod limits;
mod paced;
mod signals;

use crate::fio;
use crate::guest::{expect, expect_idle, expect_no_complaints, missed_interrupts, secs, MODES};
use crate::lab::Lab;
use crate::suite::Group;
use crate::tests::filesystem;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use vm::{Backend, DeviceConfig, DeviceCounts, Disk, FrontEnd, Order, Policy, Vm};

/// The disk for everything that does not ask for a particular ring.
const DISK: &str = "disk";

/// What the device offers: a name, EVENT_IDX, INDIRECT_DESC, and how QEMU puts it on the bus.
const KINDS: [(&str, bool, bool, FrontEnd); 4] = [
    (DISK, true, true, FrontEnd::Blk),
    ("flags", false, true, FrontEnd::Blk),
    ("direct", true, false, FrontEnd::Test),
    ("bare", false, false, FrontEnd::Test),
];

pub fn groups() -> Vec<Group> {
    let kinds = Group::new("device").guest(|_| {
        let vm = Vm::builder().vcpus(2);
        Ok(KINDS
            .into_iter()
            .fold(vm, |vm, (id, event_idx, indirect, front_end)| {
                let config = DeviceConfig::ram(64 << 20).front_end(front_end);
                let disk = Disk::new(id, Backend::device(config)).num_queues(2);
                vm.disk(disk.event_idx(event_idx).indirect_desc(indirect))
            }))
    });
    let kinds = KINDS.into_iter().zip(MODES.into_iter().cycle()).fold(
        kinds,
        |group, ((id, event_idx, indirect, _), mode)| {
            group.shared(
                format!(
                    "verified writes in random order with event_idx={event_idx} \
                     indirect={indirect}"
                ),
                move |lab, vm| verified_writes(lab, vm, id, mode),
            )
        },
    );
    let kinds = kinds
        .shared("ext4 survives on it", |lab, vm| {
            set(vm, DISK, &slow(50))?;
            let (make, check) = ("mkfs.ext4 -q -F", "e2fsck -f -n");
            filesystem::round_trip(lab, vm, DISK, "ext4", make, check)?;
            expect_good(vm, DISK)
        })
        .shared("what is held back ends when the queue stops", stop_and_cont)
        .shared("a bad command is refused and changes nothing", bad_commands);
    let mut groups = vec![kinds, limits::add_to(paced::group()), held::group()];
    groups.extend(signals::groups());
    groups
}

fn set(vm: &Vm, disk: &str, policy: &Policy) -> Result<()> {
    vm.device(disk)?.set(policy)
}

fn counts(vm: &Vm, disk: &str) -> Result<DeviceCounts> {
    vm.device(disk)?.total()
}

/// Requests end in any order, each after so many microseconds.
fn slow(latency_us: u64) -> Policy {
    Policy {
        latency_us,
        order: Order::Random,
        ..Policy::default()
    }
}

/// Reads `count` blocks one after the other and returns how long that took.
fn read_blocks(vm: &Vm, name: &str, count: u32) -> Result<Duration> {
    let started = Instant::now();
    vm.sh(&format!(
        "dd if=/dev/{name} of=/dev/null bs=4k count={count} iflag=direct status=none"
    ))?;
    Ok(started.elapsed())
}

/// Demands that the device has found nothing to complain about, and that the driver was told of
/// everything.
pub(super) fn expect_good(vm: &Vm, disk: &str) -> Result<()> {
    expect_no_complaints(vm, disk)?;
    expect("missed interrupts", missed_interrupts(vm, disk)?, 0)?;
    expect_idle(vm, disk)
}

/// Cases 21 and 31: two queues, chains of up to 66 descriptors; in the long run all modes.
fn verified_writes(lab: &Lab, vm: &Vm, disk: &str, mode: &'static str) -> Result<()> {
    let name = vm.block_device(disk)?;
    set(vm, disk, &slow(100))?;
    for mode in lab.scale(vec![mode], MODES.to_vec()) {
        vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
        let before = vm.device(disk)?.counts()?;
        let mib = lab.scale(4, 24);
        let report = fio::run(
            vm,
            secs(300),
            &format!(
                "--filename=/dev/{name} --rw=randwrite --bsrange=512-256k --size={mib}m \
                 --iodepth=32 --verify=crc32c --fsync=8 \
                 --name=a --ioengine=io_uring --cpus_allowed=0 \
                 --name=b --ioengine=libaio --cpus_allowed=1 --offset=32m"
            ),
        )?;
        ensure!(report.syncs > 0, "fio flushed nothing: {report:?}");
        let after = vm.device(disk)?.counts()?;
        for (queue, (after, before)) in after.into_iter().zip(before).enumerate() {
            let did = after - before;
            ensure!(
                did.writes > 10 && did.reads > 10 && did.flushes > 0,
                "queue {queue} did but {did:?}"
            );
        }
        expect_good(vm, disk)?;
    }
    Ok(())
}

/// QEMU's `stop` takes the rings away from the device, which must end first what it has.
fn stop_and_cont(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    set(vm, DISK, &slow(5_000))?;
    let seconds = lab.scale(3, 30);
    let fio = fio::start(vm, secs(seconds + 60), &fio::verified(&name, seconds))?;
    for _ in 0..lab.scale(5, 50) {
        vm.monitor().execute("stop", json!({}))?;
        std::thread::sleep(Duration::from_millis(50));
        vm.monitor().execute("cont", json!({}))?;
        std::thread::sleep(Duration::from_millis(200));
    }
    ensure!(fio.finish()?.writes > 0, "fio wrote nothing");
    expect_good(vm, DISK)
}

fn bad_commands(_lab: &Lab, vm: &Vm) -> Result<()> {
    let device = vm.device(DISK)?;
    let settings = || device.ask(&json!({"command": "get"}));
    let before = settings()?;
    for (command, words) in [
        (json!({"command": "fly"}), ["fly", "counts"]),
        (json!({"command": "set", "speed": 1}), ["speed", "pace_us"]),
        (
            json!({"command": "set", "pace_us": 600_000_001_u64}),
            ["600000001", "600000000"],
        ),
        (
            json!({"command": "set", "order": "random", "wait": "nap"}),
            ["nap", "sleep or spin"],
        ),
        (json!(["set"]), ["set", "command"]),
    ] {
        let refusal = device.ask(&command).err();
        let refusal = refusal.with_context(|| format!("the device took {command}"))?;
        let message = format!("{refusal:#}");
        ensure!(
            words.iter().all(|word| message.contains(word)),
            "{command} is refused with other words: {message}"
        );
    }
    expect("the settings", settings()?, before)
}
