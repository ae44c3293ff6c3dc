// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The coalescing of interrupts: that it saves them, that nothing waits that must not, and that it
//! may be changed at any time.

use crate::fio;
use crate::guest::{
    expect, expect_idle, missed_interrupts, number, read, secs, wait_until, BUS_DRIVER, DEBUGFS,
};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::time::Duration;
use vm::{Backend, Disk, Vm};

/// The disk under test.
const DISK: &str = "coalesced";

/// The longest wait that can be set, in microseconds: what must not wait for it shows.
const LONGEST: u64 = 100_000;

/// Every knob of coalescing, with the values that the tests switch between; the default first.
const KNOBS: [(&str, &[&str]); 9] = [
    ("suppress", &["loop", "off", "delayed"]),
    ("coalesce_usecs", &["0", "50", "500", "5000"]),
    ("coalesce_reqs", &["0", "4", "64"]),
    ("coalesce_method", &["auto", "event", "timer"]),
    ("coalesce_min_inflight", &["8", "2", "32"]),
    ("coalesce_adaptive", &["0", "1"]),
    ("batch", &["1", "0"]),
    ("used_event_hint", &["core", "avail", "behind"]),
    ("lock", &["queue", "device"]),
];

pub fn groups() -> Vec<Group> {
    let disk = || {
        Disk::new(DISK, Backend::ram(64 << 20))
            .num_queues(2)
            .queue_size(256)
    };
    let split = Group::new("coalescing")
        .guest(move |_| Ok(Vm::builder().vcpus(2).disk(disk())))
        .shared(
            "the files show what was written to them",
            show_what_was_written,
        )
        .shared(
            "a value out of range is refused and named",
            refuses_bad_values,
        )
        .shared(
            "at depth it saves interrupts, by event and by timer",
            saves_interrupts,
        )
        .shared("at depth 1 nothing waits", nothing_waits_at_depth_one)
        .shared("a flush does not wait", flushes_do_not_wait)
        .shared(
            "after a load step nothing waits any more",
            settles_after_a_step,
        )
        .shared(
            "changing everything under load loses nothing",
            changes_under_load,
        )
        .shared(
            "processors that come and go lose nothing",
            processors_come_and_go,
        )
        .shared(
            "unbinding while a timer runs loses nothing",
            unbinds_while_a_timer_runs,
        )
        .shared("tracepoints tell what happens", tracepoints_tell);
    let packed = Group::new("coalescing on a packed ring")
        .guest(move |_| Ok(Vm::builder().vcpus(2).disk(disk().packed(true))))
        .shared("at depth it saves interrupts", saves_interrupts)
        .shared(
            "changing everything under load loses nothing",
            changes_under_load,
        );
    let plain = Group::new("coalescing without EVENT_IDX")
        .guest(move |_| Ok(Vm::builder().vcpus(2).disk(disk().event_idx(false))))
        .shared("at depth it saves interrupts", saves_interrupts)
        .shared(
            "changing everything under load loses nothing",
            changes_under_load,
        );
    vec![split, packed, plain]
}

fn show_what_was_written(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for (knob, values) in KNOBS {
        let file = format!("/sys/block/{name}/{knob}");
        expect(knob, read(vm, &file)?.as_str(), values[0])?;
        for value in values.iter().rev() {
            set(vm, &[(knob, value)])?;
            expect(knob, read(vm, &file)?.as_str(), *value)?;
            let status = read(vm, &format!("{DEBUGFS}/{name}/status"))?;
            let line = format!("{knob} {value}");
            ensure!(
                status.lines().any(|other| other == line),
                "the status does not say {line:?}: {status}"
            );
        }
    }
    Ok(())
}

fn refuses_bad_values(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for (knob, bad, words) in [
        ("coalesce_usecs", "100001", "from 0 to 100000"),
        ("coalesce_reqs", "-1", "from 0 to 32768"),
        ("coalesce_method", "both", "auto, event, timer"),
        ("coalesce_adaptive", "2", "0, 1"),
        ("used_event_hint", "", "core, avail, behind"),
        ("lock", "global", "queue, device"),
    ] {
        let file = format!("/sys/block/{name}/{knob}");
        let before = read(vm, &file)?;
        let output = vm.try_sh(secs(60), &format!("echo '{bad}' >{file}"))?;
        ensure!(output.status != 0, "{knob} took {bad:?}");
        expect(knob, read(vm, &file)?, before)?;
        let log = vm.sh("dmesg | tail -1")?;
        ensure!(
            log.contains(&format!("{knob}: '{bad}'")) && log.contains(words),
            "the log names neither value nor range: {log}"
        );
    }
    Ok(())
}

fn saves_interrupts(lab: &Lab, vm: &Vm) -> Result<()> {
    let rate = |settings: &[(&str, &str)]| -> Result<f64> {
        set(vm, &DEFAULTS)?;
        set(vm, settings)?;
        let did = busy(vm, lab.scale(2, 20))?;
        Ok(did["interrupts"] as f64 / did["completions"].max(1) as f64)
    };
    let without = rate(&[])?;
    for method in ["event", "timer"] {
        let wait = [("coalesce_usecs", "2000"), ("coalesce_method", method)];
        let with = rate(&wait)?;
        ensure!(
            with < without / 3.0,
            "{with:.4} interrupts a request with {method}, {without:.4} without"
        );
    }
    // How many it saves depends on how busy the processors are, which is not the driver's to say.
    let adaptive = rate(&[("coalesce_adaptive", "1")])?;
    ensure!(
        adaptive < without * 1.2,
        "{adaptive:.4} interrupts a request adaptively, {without:.4} without"
    );
    set(vm, &DEFAULTS)?;
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 0)
}

fn nothing_waits_at_depth_one(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for settings in [
        [("coalesce_usecs", "100000"), ("coalesce_method", "timer")],
        [("coalesce_usecs", "100000"), ("coalesce_method", "event")],
        [("coalesce_adaptive", "1"), ("coalesce_usecs", "100000")],
    ] {
        set(vm, &DEFAULTS)?;
        set(vm, &settings)?;
        let before = counters(vm)?;
        let count = 200;
        let report = fio::run(
            vm,
            secs(120),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=16m --ioengine=psync \
                 --number_ios={count}"
            ),
        )?;
        let after = counters(vm)?;
        ensure!(
            report.runtime_ms < count * LONGEST / 1000 / 10,
            "{count} requests one after the other took {} ms with {settings:?}",
            report.runtime_ms
        );
        let fires = after["timer_fires"] - before["timer_fires"];
        ensure!(
            fires <= 2,
            "the timer fired {fires} times with {settings:?}"
        );
    }
    set(vm, &DEFAULTS)
}

/// Under a load that waits up to a tenth of a second for its interrupts, a flush does not.
fn flushes_do_not_wait(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    for method in ["timer", "event"] {
        set(vm, &DEFAULTS)?;
        set(
            vm,
            &[("coalesce_usecs", "100000"), ("coalesce_method", method)],
        )?;
        let load = load_that_waits(vm, "randread", 8)?;
        let before = counters(vm)?;
        let report = fio::run(
            vm,
            secs(120),
            &format!(
                "--name=j --filename=/dev/{name} --rw=write --bs=4k --offset=48m --size=8m \
                 --ioengine=psync --fsync=1 --number_ios=20"
            ),
        )?;
        let after = counters(vm)?;
        load.finish()?;
        let hastened = after["hastened"] - before["hastened"];
        ensure!(hastened > 0, "no flush hastened a signal with {method}");
        ensure!(
            report.runtime_ms < 20 * LONGEST / 1000,
            "20 writes and flushes took {} ms with {method}",
            report.runtime_ms
        );
    }
    set(vm, &DEFAULTS)?;
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 0)
}

/// From depth 64 to depth 1: a tenth of a second later no request waits for the timer.
fn settles_after_a_step(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    set(vm, &DEFAULTS)?;
    set(vm, &[("coalesce_adaptive", "1")])?;
    for _ in 0..3 {
        busy(vm, 1)?;
        let file = format!("{DEBUGFS}/{name}/queue");
        let text = vm.sh(&format!(
            "dd if=/dev/{name} of=/dev/null bs=4k iflag=direct count=100000 2>/dev/null &
             sleep 0.1; cat {file}0 {file}1; echo later; sleep 0.5; cat {file}0 {file}1
             kill %1 2>/dev/null; wait; true"
        ))?;
        let (before, after) = text.split_once("later").context("a part is missing")?;
        let (before, after) = (sum(before), sum(after));
        let fires = after["timer_fires"] - before["timer_fires"];
        let completions = after["completions"] - before["completions"];
        ensure!(completions > 50, "but {completions} requests at depth 1");
        ensure!(
            fires * 20 < completions,
            "the timer fires for {fires} of {completions} requests, long after the load has gone"
        );
    }
    set(vm, &DEFAULTS)
}

/// Every knob in turn takes another value, under two jobs whose data is verified.
fn changes_under_load(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let seconds = lab.scale(8, 300);
    let changes: Vec<_> = KNOBS
        .iter()
        .map(|(knob, values)| {
            format!(
                "v=({}); echo ${{v[RANDOM % {}]}} >/sys/block/{name}/{knob} || exit 1",
                values.join(" "),
                values.len()
            )
        })
        .collect();
    let changer = vm.spawn(
        secs(seconds + 60),
        &format!(
            "mkfifo /tmp/never.$$; exec 3<>/tmp/never.$$; count=0; end=$((SECONDS + {seconds}))
             RANDOM=1
             while test $SECONDS -lt $end; do {}; count=$((count + 1)); read -t 0.005 -u 3; done
             echo $count",
            changes.join("; ")
        ),
    )?;
    let before = counters(vm)?;
    let report = fio::run(vm, secs(seconds + 60), &verified(&name, seconds))?;
    let after = counters(vm)?;
    let changes: u64 = changer.wait_ok()?.trim().parse()?;
    set(vm, &DEFAULTS)?;
    ensure!(changes > 100, "the settings changed but {changes} times");
    ensure!(report.transfers() > 1000, "fio did but {report:?}");
    ensure!(
        after["timer_fires"] > before["timer_fires"],
        "the timer never fired"
    );
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 0)?;
    expect_idle(vm, DISK)
}

fn processors_come_and_go(lab: &Lab, vm: &Vm) -> Result<()> {
    set(vm, &DEFAULTS)?;
    set(vm, &[("coalesce_adaptive", "1")])?;
    let name = vm.block_device(DISK)?;
    let seconds = lab.scale(6, 120);
    let hotplug = vm.spawn(
        secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); count=0
             while test $SECONDS -lt $end; do for state in 0 1; do
                 echo $state >/sys/devices/system/cpu/cpu1/online || exit 1; sleep 0.1
             done; count=$((count + 1)); done; echo $count"
        ),
    )?;
    let report = fio::run(vm, secs(seconds + 60), &verified(&name, seconds))?;
    let times: u64 = hotplug.wait_ok()?.trim().parse()?;
    ensure!(times > 3, "the processor went but {times} times");
    ensure!(report.transfers() > 1000, "fio did but {report:?}");
    set(vm, &DEFAULTS)?;
    expect("missed interrupts", missed_interrupts(vm, DISK)?, 0)?;
    expect_idle(vm, DISK)
}

/// The timer is set to a tenth of a second when the driver goes: it must not fire after that.
fn unbinds_while_a_timer_runs(lab: &Lab, vm: &Vm) -> Result<()> {
    let device = vm.virtio_device(DISK)?;
    for round in 0..lab.scale(4, 50) {
        let method = ["timer", "event"][round % 2];
        set(
            vm,
            &[("coalesce_usecs", "100000"), ("coalesce_method", method)],
        )?;
        let load = load_that_waits(vm, "randwrite", 60)?;
        vm.sh_for(secs(60), &format!("echo {device} >{BUS_DRIVER}/unbind"))?;
        load.fails()?;
        // Long enough for a timer that was forgotten.
        std::thread::sleep(Duration::from_millis(300));
        vm.sh(&format!("echo {device} >{BUS_DRIVER}/bind"))?;
        vm.check()?;
    }
    expect(
        "a new disk's wait",
        number::<u64>(vm, &knob(vm, "coalesce_usecs")?)?,
        0,
    )
}

fn tracepoints_tell(_lab: &Lab, vm: &Vm) -> Result<()> {
    const EVENTS: &str = "/sys/kernel/tracing/events/virtio_blk_rs";
    set(vm, &DEFAULTS)?;
    // Room for two seconds of events, lest the rare ones are overwritten.
    vm.sh(&format!(
        "echo 16384 >/sys/kernel/tracing/buffer_size_kb && echo 1 >{EVENTS}/enable"
    ))?;
    set(
        vm,
        &[("coalesce_usecs", "500"), ("coalesce_min_inflight", "2")],
    )?;
    busy(vm, 1)?;
    set(vm, &DEFAULTS)?;
    busy(vm, 1)?;
    let trace = vm.sh(&format!(
        "echo 0 >{EVENTS}/enable; cat /sys/kernel/tracing/trace; echo >/sys/kernel/tracing/trace"
    ))?;
    let device = vm.virtio_device(DISK)?;
    for event in [
        "queue_interrupt",
        "drain",
        "rearm",
        "coalesce_change",
        "kick",
    ] {
        let line = format!(" {event}: {device} queue=");
        ensure!(trace.contains(&line), "no event {event} of {device}");
    }
    Ok(())
}

/// The settings of a new disk.
const DEFAULTS: [(&str, &str); 9] = {
    let mut defaults = [("", ""); KNOBS.len()];
    let mut i = 0;
    while i < KNOBS.len() {
        defaults[i] = (KNOBS[i].0, KNOBS[i].1[0]);
        i += 1;
    }
    defaults
};

/// Writes settings of the disk.
fn set(vm: &Vm, settings: &[(&str, &str)]) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let script: Vec<_> = settings
        .iter()
        .map(|(knob, value)| format!("echo {value} >/sys/block/{name}/{knob} || exit 1"))
        .collect();
    vm.sh(&script.join("\n")).map(drop)
}

fn knob(vm: &Vm, knob: &str) -> Result<String> {
    Ok(format!("/sys/block/{}/{knob}", vm.block_device(DISK)?))
}

/// fio's job that writes with a flush now and then, and verifies what it wrote.
fn verified(name: &str, seconds: u64) -> String {
    format!(
        "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m --numjobs=2 \
         --offset_increment=16m --ioengine=libaio --iodepth=64 --verify=crc32c --fsync=500 \
         --time_based --runtime={seconds}"
    )
}

/// Starts a load at a depth of 128, and waits until it waits for its interrupts.
fn load_that_waits(vm: &Vm, rw: &str, seconds: u64) -> Result<fio::Running> {
    let name = vm.block_device(DISK)?;
    let load = fio::start(
        vm,
        secs(120),
        &format!(
            "--name=j --filename=/dev/{name} --rw={rw} --bs=4k --size=32m --ioengine=libaio \
             --iodepth=64 --numjobs=2 --time_based --runtime={seconds}"
        ),
    )?;
    wait_until("the load waits for its interrupts", secs(60), || {
        Ok(counters(vm)?["late_ends"] > 4)
    })?;
    Ok(load)
}

/// Reads at a depth of 64 for some seconds, and tells what each counter counted meanwhile.
fn busy(vm: &Vm, seconds: u64) -> Result<BTreeMap<String, u64>> {
    let name = vm.block_device(DISK)?;
    let before = counters(vm)?;
    fio::run(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=32m --ioengine=libaio \
             --iodepth=64 --time_based --runtime={seconds}"
        ),
    )?;
    let mut did = counters(vm)?;
    for (counter, count) in &mut did {
        *count = count.wrapping_sub(before[counter]);
    }
    Ok(did)
}

/// All counters of all queues of the disk together.
fn counters(vm: &Vm) -> Result<BTreeMap<String, u64>> {
    let name = vm.block_device(DISK)?;
    Ok(sum(&vm.sh(&format!("cat {DEBUGFS}/{name}/queue?"))?))
}

/// The sum of counters of the same name. Histograms are left out.
fn sum(text: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(' ') {
            if let Ok(value) = value.parse::<u64>() {
                *sums.entry(name.to_owned()).or_default() += value;
            }
        }
    }
    sums
}
