// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The driver's counters against fio, the kernel's /proc/interrupts and QEMU.

use crate::fio;
use crate::guest::{expect, read, secs, total, DEBUGFS, MODES};
use crate::lab::{Lab, Scratch};
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use std::io::{Read, Seek, SeekFrom};
use vm::{Backend, Counters, Disk, Driver, Vm};

const DISK: &str = "disk";

pub fn groups() -> Vec<Group> {
    let mut group = Group::new("counters")
        .guest(|_| Ok(Vm::builder().vcpus(2).disk(disk().num_queues(2))))
        .shared("at depth 1 everything is exact", depth_1)
        .shared("of 16 kicks one is timed, and each that is traced", timed)
        .shared("each queue has its files, and nothing else is there", files);
    for mode in MODES {
        group = group.shared(
            format!("at depth 64 they are consistent with suppress={mode}"),
            move |_, vm| depth_64(vm, mode),
        );
    }
    let traced = Group::new("counters").alone(
        "kicks are what QEMU is notified of",
        kicks_are_notifications,
    );
    vec![group, traced]
}

fn disk() -> Disk {
    Disk::new(DISK, Backend::null(64 << 20))
}

fn reads(name: &str, count: u64, depth: u32) -> String {
    format!(
        "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m --number_ios={count} \
         --ioengine=libaio --iodepth={depth}"
    )
}

/// Every request is kicked, ends and interrupts alone, so all sums are known.
fn depth_1(_lab: &Lab, vm: &Vm) -> Result<()> {
    const COUNT: u64 = 1000;
    let name = vm.block_device(DISK)?;
    for mode in MODES {
        vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
        let (before, lines) = (total(vm, DISK)?, vm.interrupts(DISK)?);
        let report = fio::run(vm, secs(60), &reads(&name, COUNT, 1))?;
        let did = &total(vm, DISK)? - &before;
        let lines = (&vm.interrupts(DISK)? - &lines).requests();
        expect("the number of reads", report.reads, COUNT)?;
        // fio reads a sector or two to look at the disk.
        let extra = did.completions - COUNT;
        ensure!(
            extra < 20,
            "{mode}: {} requests for {COUNT} reads",
            did.completions
        );
        let what = |what: &str| format!("{what} with suppress={mode}");
        let requests = did.completions;
        expect(
            &what("kicks and suppressed kicks"),
            did.kicks + did.suppressed_kicks,
            requests,
        )?;
        expect(&what("interrupts"), did.interrupts, requests)?;
        expect(&what("/proc/interrupts"), lines, did.interrupts)?;
        expect(&what("empty interrupts"), did.empty_interrupts, 0)?;
        expect(
            &what("the histogram's bucket of 1"),
            bucket(&did, 1),
            requests,
        )?;
        expect(&what("stops for a full ring"), did.ring_full_stops, 0)?;
    }
    Ok(())
}

/// Requests of a batch share kicks and interrupts; what must hold is checked.
fn depth_64(vm: &Vm, mode: &str) -> Result<()> {
    const COUNT: u64 = 10_000;
    let name = vm.block_device(DISK)?;
    vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
    let stat = || read(vm, &format!("/sys/block/{name}/stat"));
    let (before, lines, ended) = (total(vm, DISK)?, vm.interrupts(DISK)?, requests(&stat()?)?);
    let report = fio::run(vm, secs(60), &reads(&name, COUNT, 64))?;
    let did = &total(vm, DISK)? - &before;
    let lines = (&vm.interrupts(DISK)? - &lines).requests();
    let ended = requests(&stat()?)? - ended;

    expect("the number of reads", report.reads, COUNT)?;
    expect("the number of completions", did.completions, ended)?;
    ensure!(
        (1..=did.completions).contains(&(did.kicks + did.suppressed_kicks)) && did.kicks > 0,
        "{} kicks and {} suppressed ones for {} requests",
        did.kicks,
        did.suppressed_kicks,
        did.completions
    );
    // The virtio core keeps interrupts away that find the ring empty.
    ensure!(
        did.interrupts > 0 && did.interrupts <= lines,
        "{} interrupts reached the driver, {lines} the kernel",
        did.interrupts
    );
    ensure!(
        (did.interrupts..=did.completions + did.empty_interrupts).contains(&did.drains),
        "{did:?}"
    );
    expect_histogram(&did)
}

/// Only the sample goes into the histogram; whoever traces kicks sees all of them.
fn timed(_lab: &Lab, vm: &Vm) -> Result<()> {
    const KICK: &str = "/sys/kernel/tracing/events/virtio_blk_rs/kick/enable";
    let name = vm.block_device(DISK)?;
    let before = total(vm, DISK)?.kicks;
    vm.sh(&format!("echo 1 >{KICK}"))?;
    fio::run(vm, secs(60), &reads(&name, 100, 1))?;
    let traced = vm.sh(&format!(
        "echo 0 >{KICK}; grep -c ' kick: ' /sys/kernel/tracing/trace
         echo >/sys/kernel/tracing/trace"
    ))?;
    let did = total(vm, DISK)?.kicks - before;
    ensure!(did > 0, "there were no kicks");
    expect("the traced kicks", traced.trim(), did.to_string().as_str())?;
    let sample = vm.sh(&format!(
        "for queue in {DEBUGFS}/{name}/queue?; do
             awk '/^kicks / {{ kicks = $2 }}
                  /^hist_kick_ns / {{ for (i = 2; i <= NF; i++) timed += $i }}
                  END {{ print int((kicks + 15) / 16), timed }}' $queue
         done"
    ))?;
    for line in sample.lines() {
        let (right, timed) = line.split_once(' ').context("two numbers")?;
        expect("the kicks that are timed", timed, right)?;
    }
    expect("the number of queues", sample.lines().count(), 2)
}

/// Completed requests, by the block layer's account: reads, writes and flushes.
fn requests(stat: &str) -> Result<u64> {
    let fields: Vec<u64> = stat
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let field = |index: usize| fields.get(index).copied().context("a field is missing");
    Ok(field(0)? + field(4)? + field(15)?)
}

fn bucket(counters: &Counters, index: usize) -> u64 {
    counters
        .completions_per_interrupt
        .get(index)
        .copied()
        .unwrap_or_default()
}

/// The buckets add up to the interrupts, and what they stand for to the completions.
fn expect_histogram(did: &Counters) -> Result<()> {
    let buckets = &did.completions_per_interrupt;
    expect(
        "the sum of the histogram",
        buckets.iter().sum(),
        did.interrupts,
    )?;
    expect(
        "the histogram's bucket of 0",
        bucket(did, 0),
        did.empty_interrupts,
    )?;
    let bound = |of: fn(u32) -> u64| -> u64 {
        (1..)
            .zip(buckets.iter().skip(1))
            .map(|(index, count)| count * of(index))
            .sum()
    };
    let (least, most) = (
        bound(|index| 1 << (index - 1)),
        bound(|index| (1 << index) - 1),
    );
    ensure!(
        (least..=most).contains(&did.completions),
        "{} completions, but the histogram says {least} to {most}",
        did.completions
    );
    Ok(())
}

fn files(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let found = vm.sh(&format!("cd {DEBUGFS} && find . | sort"))?;
    let files = [
        "queue0",
        "queue0_history",
        "queue1",
        "queue1_history",
        "status",
    ];
    let files = files.map(|file| format!("./{name}/{file}\n"));
    let right = format!(".\n./{name}\n{}", files.concat());
    expect("what debugfs holds", found, right)?;
    for counters in vm.counters(DISK)? {
        let buckets = &counters.completions_per_interrupt;
        let top = buckets
            .iter()
            .rposition(|count| *count > 0)
            .unwrap_or_default();
        let top_of_largest = (u64::BITS - counters.largest_batch.leading_zeros()) as usize;
        expect("the bucket of the largest batch", top, top_of_largest)?;
    }
    Ok(())
}

/// Without eventfds QEMU handles each kick by itself, and its trace counts them.
fn kicks_are_notifications(lab: &Lab) -> Result<()> {
    let trace = lab.scratch(0)?;
    let vm = lab.boot(
        Vm::builder()
            .disk(disk().ioeventfd(false))
            .qemu_arguments(["-trace", "virtio_queue_notify"])
            .qemu_arguments(["-trace", "virtio_blk_handle_read"])
            .qemu_arguments(["-D", &trace.path().to_string_lossy()]),
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device(DISK)?;
    for mode in MODES {
        vm.sh(&format!("echo {mode} >/sys/block/{name}/suppress"))?;
        let (before, seen) = (total(&vm, DISK)?, notifications(&trace)?);
        fio::run(&vm, secs(60), &reads(&name, 5000, 64))?;
        let did = &total(&vm, DISK)? - &before;
        ensure!(did.kicks > 0, "there were no kicks");
        let seen = notifications(&trace)? - seen;
        expect(
            &format!("QEMU's count of kicks with suppress={mode}"),
            seen,
            did.kicks,
        )?;
    }
    vm.shutdown()
}

/// How many times the disk was notified, by QEMU's trace.
fn notifications(trace: &Scratch) -> Result<u64> {
    let mut text = String::new();
    let mut file = &trace.file;
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    // Only a block device reads blocks.
    let reader = text
        .lines()
        .find(|line| line.contains("virtio_blk_handle_read"));
    let reader =
        reader.and_then(|line| line.split_whitespace().skip_while(|w| *w != "vdev").nth(1));
    let device = format!("vdev {} ", reader.context("QEMU's trace shows no read")?);
    let notified = |line: &&str| line.contains("virtio_queue_notify") && line.contains(&device);
    Ok(text.lines().filter(notified).count() as u64)
}
