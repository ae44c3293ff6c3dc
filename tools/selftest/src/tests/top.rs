// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The live view against fio and the driver's counters.

use crate::fio;
use crate::guest::{expect, secs, total};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use vm::{Backend, Disk, Driver, Vm, JOB_DIR};

const DISK: &str = "disk";

/// The program's file name.
const PROGRAM: &str = "vbr-top";

pub fn groups() -> Vec<Group> {
    let disk = || Disk::new(DISK, Backend::null(64 << 20)).num_queues(2);
    let group = Group::new("top")
        .guest(move |_| Ok(Vm::builder().vcpus(2).disk(disk())))
        .shared(
            "sums over intervals are what fio and the driver count",
            sums,
        )
        .shared("the figures of an interval agree with its counts", figures)
        .shared("it fits a narrow terminal and leaves it in order", terminal);
    let missing = Group::new("top")
        .guest(move |_| Ok(Vm::builder().disk(disk())))
        .without_driver()
        .shared("it says what is missing", what_is_missing);
    vec![group, missing]
}

/// Brings the program into the guest and returns its path there.
fn install(vm: &Vm) -> Result<String> {
    // Whatever runs in the guest is built together with the agent.
    let program = vm.environment().agent.with_file_name(PROGRAM);
    fs::copy(&program, vm.job_dir().join(PROGRAM)).with_context(|| {
        format!(
            "cannot copy {} into the guest. Build it with `make tools`.",
            program.display()
        )
    })?;
    Ok(format!("{JOB_DIR}/{PROGRAM}"))
}

fn reads(name: &str, how_long: &str) -> String {
    format!(
        "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m --ioengine=libaio \
         --iodepth=16 --numjobs=2 {how_long}"
    )
}

fn parse(text: &str) -> Result<Vec<Value>> {
    let line =
        |line| serde_json::from_str(line).with_context(|| format!("{line:?} is no line of JSON"));
    text.lines().map(line).collect()
}

/// A count of the only disk in one interval.
fn added(interval: &Value, counter: &str) -> Result<u64> {
    let count = &interval["disks"][0]["added"][counter];
    let count = count.as_u64();
    count.with_context(|| format!("{interval} does not count {counter}"))
}

fn sums(_lab: &Lab, vm: &Vm) -> Result<()> {
    const COUNT: u64 = 10_000;
    let name = vm.block_device(DISK)?;
    let program = install(vm)?;
    let before = total(vm, DISK)?;
    // Two more lines than there were at the end of fio: the first of them began before that.
    let script = format!(
        "out=$(mktemp); {program} --json --interval 0.5 --disk {name} >$out & \
         lines() {{ until test $(wc -l <$out) -ge $1; do sleep 0.1; done; }}; lines 1; \
         touch /run/top-is-ready; until test -e /run/fio-is-done; do sleep 0.1; done; \
         lines $(($(wc -l <$out) + 2)); kill -TERM $!; wait $! || exit; cat $out"
    );
    let top = vm.spawn(secs(120), &script)?;
    vm.sh("until test -e /run/top-is-ready; do sleep 0.1; done")?;
    let report = fio::run(
        vm,
        secs(60),
        &reads(&name, &format!("--number_ios={COUNT}")),
    )?;
    vm.sh("touch /run/fio-is-done")?;
    let intervals = parse(&top.wait_ok()?)?;
    let did = &total(vm, DISK)? - &before;

    expect("the number of reads", report.reads, 2 * COUNT)?;
    let sum = |counter| -> Result<u64> {
        let counts = intervals.iter().map(|interval| added(interval, counter));
        counts.sum()
    };
    expect(
        "the sum of completions",
        sum("completions")?,
        did.completions,
    )?;
    expect("the sum of interrupts", sum("interrupts")?, did.interrupts)?;
    expect("the sum of kicks", sum("kicks")?, did.kicks)?;
    // fio reads a sector or two to look at the disk.
    let extra = sum("completions")?.checked_sub(report.reads);
    ensure!(
        extra.is_some_and(|extra| extra < 20),
        "{} completions for {} reads",
        sum("completions")?,
        report.reads
    );
    Ok(())
}

fn figures(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let program = install(vm)?;
    let load = fio::start(vm, secs(120), &reads(&name, "--time_based --runtime=8"))?;
    vm.sh("until grep -q fio /proc/[0-9]*/comm; do sleep 0.1; done; sleep 2")?;
    let intervals = parse(&vm.sh(&format!("{program} --json --count 2"))?)?;
    load.finish()?;
    expect("the number of lines", intervals.len(), 2)?;
    for interval in &intervals {
        let seconds = interval["seconds"].as_f64().unwrap_or_default();
        // A busy machine is late for one, and then in time for the next.
        ensure!(
            seconds > 0.1 && seconds < 30.0,
            "{seconds} s are no interval of 1 s"
        );
        let disk = &interval["disks"][0];
        expect("the disk", disk["disk"].as_str(), Some(name.as_str()))?;
        let completions = added(interval, "completions")?;
        let interrupts = added(interval, "interrupts")?;
        ensure!(
            completions > 0 && interrupts > 0,
            "nothing happened: {disk}"
        );
        let figure = |name: &str| disk[name].as_f64().unwrap_or(f64::NAN);
        for (figure, right) in [
            (figure("iops"), completions as f64 / seconds),
            (figure("interrupts_per_s"), interrupts as f64 / seconds),
            (
                figure("completions_per_interrupt"),
                completions as f64 / interrupts as f64,
            ),
            (figure("missed_interrupts"), 0.0),
        ] {
            ensure!(
                (figure - right).abs() < 0.01,
                "{figure} is not {right}: {disk}"
            );
        }
        // The core drops some; those of an interval's edge, while the files are read one after the
        // other, may be counted on one side only.
        let signals = disk["signals"].as_u64().unwrap_or_default();
        ensure!(
            signals + 2 + interrupts / 20 >= interrupts,
            "{signals} signals, {interrupts} interrupts"
        );
        let queues = disk["queues"]
            .as_array()
            .context("the disk has no queues")?;
        expect("the number of queues", queues.len(), 2)?;
        let sum = queues
            .iter()
            .map(|queue| queue["added"]["completions"].as_u64());
        expect(
            "the queues' sum",
            sum.sum::<Option<u64>>(),
            Some(completions),
        )?;
    }
    Ok(())
}

fn terminal(_lab: &Lab, vm: &Vm) -> Result<()> {
    const COLUMNS: usize = 40;
    let name = vm.block_device(DISK)?;
    let program = install(vm)?;
    let text = vm.sh(&format!(
        "mkdir /dev/pts && busybox mount -t devpts none /dev/pts && \
         TERM=xterm script -qec 'stty cols {COLUMNS} rows 10; {program} --count 2' /dev/null"
    ))?;
    let (hide, show) = ("\x1b[?25l", "\x1b[?25h");
    ensure!(
        text.contains(hide) && text.trim_end().ends_with(show),
        "the cursor is not hidden, or not shown again: {text:?}"
    );
    for (word, right) in [("disk ", 2), (&*name, 2), ("  queue1", 2), ("\x1b[2J", 1)] {
        let what = format!("how often {word:?} is written in {text:?}");
        expect(&what, text.matches(word).count(), right)?;
    }
    let rows = text.split('\x1b').filter_map(|part| part.split_once('H'));
    for (_, row) in rows {
        ensure!(row.len() <= COLUMNS, "{row:?} is too long");
    }
    Ok(())
}

fn what_is_missing(_lab: &Lab, vm: &Vm) -> Result<()> {
    let program = install(vm)?;
    let refusal = |what: &str, arguments: &str| -> Result<()> {
        let output = vm.try_sh(secs(20), &format!("{program} --count 1 {arguments}"))?;
        ensure!(
            output.status == 1 && output.stdout.is_empty() && output.stderr.contains(what),
            "instead of an error about {what:?}: {output:?}"
        );
        Ok(())
    };
    refusal("the driver is not loaded", "")?;
    vm.load(Driver::Rust, "")?;
    refusal("no disk called vdzz", "--disk vdzz")?;
    vm.sh("busybox umount /sys/kernel/debug")?;
    refusal("mount -t debugfs", "")?;
    vm.sh("busybox mount -t debugfs none /sys/kernel/debug")?;
    let device = vm.virtio_device(DISK)?;
    let driver = "/sys/bus/virtio/drivers/virtio_blk_rs";
    vm.sh(&format!("echo {device} >{driver}/unbind"))?;
    refusal("no disk is bound", "")?;
    vm.sh(&format!(
        "echo {device} >{driver}/bind; {program} --count 1"
    ))?;
    Ok(())
}
