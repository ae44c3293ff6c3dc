// SPDX-License-Identifier: GPL-2.0

//! The driver on the programmable device, whose own counts tell what the driver made it do.

use crate::fio;
use crate::guest::{expect, expect_idle, missed_interrupts, secs, total, wait_until, MODES};
use crate::lab::Lab;
use crate::suite::Group;
use crate::tests::filesystem;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use vm::{
    Backend, Counters, DeviceConfig, DeviceCounts, Disk, FrontEnd, Order, Policy, Signal, Vm, Wait,
};

/// The disk for everything that does not ask for a particular ring.
const DISK: &str = "disk";

/// A disk that nobody else uses.
const PACED: &str = "paced";

/// A request that is not let go by itself.
const FOREVER: u64 = 600_000_000;

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
    let paced = Group::new("device")
        .guest(|_| {
            let config = DeviceConfig::null(64 << 20);
            let disk = Disk::new(PACED, Backend::device(config)).num_queues(1);
            Ok(Vm::builder().disk(disk))
        })
        .shared("pace and latency are kept", |_, vm| times(vm))
        .shared("both sides count the same", |_, vm| both_sides(vm))
        .shared(
            "no signal arrives while the handler runs with suppress=loop",
            signals_in_the_handler,
        )
        .shared("a device comes and goes", |_, vm| plugged(vm));
    vec![kinds, paced]
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

/// Demands that the device has found nothing to complain about, and that the driver was told of
/// everything.
fn expect_good(vm: &Vm, disk: &str) -> Result<()> {
    let found = counts(vm, disk)?;
    let complaints = (found.bad_chains, found.bad_rings, found.io_errors);
    expect(
        "bad chains, bad rings and I/O errors",
        complaints,
        (0, 0, 0),
    )?;
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
    let fio = fio::start(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=16m --numjobs=2 \
             --offset_increment=16m --ioengine=libaio --iodepth=32 --verify=crc32c --time_based \
             --runtime={seconds}"
        ),
    )?;
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
            json!({"command": "set", "pace_us": FOREVER + 1}),
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

/// Reads `count` blocks one after the other and returns how long that took.
fn read_blocks(vm: &Vm, name: &str, count: u32) -> Result<Duration> {
    let started = Instant::now();
    vm.sh(&format!(
        "dd if=/dev/{name} of=/dev/null bs=4k count={count} iflag=direct status=none"
    ))?;
    Ok(started.elapsed())
}

fn times(vm: &Vm) -> Result<()> {
    let name = vm.block_device(PACED)?;
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
        set(vm, PACED, &policy)?;
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
    set(vm, PACED, &slow(300_000))?;
    let report = fio::run(vm, secs(60), &batch)?;
    ensure!(
        (300..3000).contains(&report.runtime_ms),
        "32 requests with a latency of 300 ms each took {} ms",
        report.runtime_ms
    );
    // A new policy holds for what is on its way.
    set(vm, PACED, &slow(FOREVER))?;
    let read = vm.spawn(
        secs(60),
        &format!("dd if=/dev/{name} of=/dev/null bs=4k count=1 iflag=direct status=none"),
    )?;
    wait_until("the read is on its way", secs(30), || {
        let counters = total(vm, PACED)?;
        let inflight = vm.sh(&format!("cat /sys/block/{name}/inflight"))?;
        Ok(counters.kicks > 0 && inflight.trim().starts_with('1'))
    })?;
    set(vm, PACED, &Policy::default())?;
    read.wait_ok()?;
    expect_good(vm, PACED)
}

fn both_sides(vm: &Vm) -> Result<()> {
    let name = vm.block_device(PACED)?;
    for signal in [Signal::Each, Signal::Batch, Signal::Delayed(2_000)] {
        let policy = Policy {
            latency_us: 50,
            signal,
            ..Policy::default()
        };
        set(vm, PACED, &policy)?;
        // What was held back by the policy before is out.
        read_blocks(vm, &name, 1)?;
        let interrupts = || anyhow::Ok(vm.interrupts(PACED)?.requests());
        let (driver, device, signalled) = (total(vm, PACED)?, counts(vm, PACED)?, interrupts()?);
        let started = Instant::now();
        fio::run(
            vm,
            secs(60),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m \
                 --number_ios=2000 --ioengine=libaio --iodepth=32"
            ),
        )?;
        let driver = &total(vm, PACED)? - &driver;
        let device = counts(vm, PACED)? - device;
        let signalled = interrupts()? - signalled;
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
        expect_good(vm, PACED)?;
    }
    Ok(())
}

/// How many signals arrive, for 1,000 requests, while the handler is at work: the kernel counts
/// them, but drops those that find that all was done.
fn in_the_handler(vm: &Vm, name: &str, mode: &str, seconds: u64) -> Result<f64> {
    vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
    let look =
        || -> Result<(u64, Counters)> { Ok((vm.interrupts(PACED)?.requests(), total(vm, PACED)?)) };
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
    let name = vm.block_device(PACED)?;
    let policy = Policy {
        pace_us: 20,
        wait: Wait::Spin,
        ..Policy::default()
    };
    set(vm, PACED, &policy)?;
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
    set(vm, PACED, &Policy::default())?;
    expect_good(vm, PACED)
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
