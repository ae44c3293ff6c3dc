// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The switch `suppress` while requests are in flight.

use crate::fio;
use crate::guest::{expect, expect_idle, read, secs, total, wait_until, DEBUGFS, MODES};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use vm::{Backend, Counters, Disk, Vm};

/// A disk that is as fast as it can be.
const FAST: &str = "fast";

/// A disk that ends requests one by one at a steady pace, each worth an interrupt of its own.
const PACED: &str = "paced";

/// Requests a second of the paced disk.
const PACE: u32 = 1000;

pub fn groups() -> Vec<Group> {
    let group = Group::new("suppression")
        .guest(|_| {
            let paced = json!({
                "driver": "throttle",
                "throttle-group": "pace",
                "file": {"driver": "null-co", "size": 64 << 20},
            });
            Ok(Vm::builder()
                .vcpus(2)
                .disk(Disk::new(FAST, Backend::ram(64 << 20)).num_queues(2))
                .disk(Disk::new(PACED, Backend::Blockdev(paced)).num_queues(1))
                .qemu_arguments([
                    "-object".to_owned(),
                    format!("throttle-group,id=pace,x-iops-total={PACE}"),
                ]))
        })
        .shared(
            "the file shows what was written to it",
            shows_what_was_written,
        )
        .shared("switching under load loses nothing", switching_under_load)
        .shared("a switch takes effect at once", takes_effect_at_once);
    vec![group]
}

fn shows_what_was_written(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(FAST)?;
    let file = format!("/sys/block/{name}/suppress");
    expect("the mode of a new disk", read(vm, &file)?.as_str(), "loop")?;
    for mode in MODES {
        vm.sh(&format!("echo {mode} >{file}"))?;
        expect("the mode", read(vm, &file)?.as_str(), mode)?;
    }
    let other = vm.block_device(PACED)?;
    let other = read(vm, &format!("/sys/block/{other}/suppress"))?;
    expect("the mode of another disk", other.as_str(), "loop")
}

/// Every few milliseconds another mode, under 4 jobs of depth 64 whose data is verified.
fn switching_under_load(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(FAST)?;
    let seconds = lab.scale(8, 300);
    let switcher = vm.spawn(
        secs(seconds + 60),
        &format!(
            "mkfifo /tmp/never; exec 3<>/tmp/never; count=0; end=$((SECONDS + {seconds}))
             while test $SECONDS -lt $end; do for mode in {modes}; do
                 echo $mode >/sys/block/{name}/suppress || exit 1
                 count=$((count + 1)); read -t 0.002 -u 3
             done; done; echo $count",
            modes = MODES.join(" ")
        ),
    )?;
    let report = fio::run(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m --numjobs=4 \
             --offset_increment=16m --ioengine=libaio --iodepth=64 --verify=crc32c --time_based \
             --runtime={seconds}"
        ),
    )?;
    let switches: u64 = switcher.wait_ok()?.trim().parse()?;
    ensure!(switches > 100, "the mode changed but {switches} times");
    ensure!(report.transfers() > 1000, "fio did but {report:?}");
    expect_idle(vm, FAST)
}

/// At a depth of 64 and a steady pace, `delayed` waits for three quarters of what is in flight,
/// and the others do not: interrupts for each request tell which mode is at work.
fn takes_effect_at_once(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PACED)?;
    let fio = fio::start(
        vm,
        secs(600),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=64m --ioengine=libaio \
             --iodepth=64 --iodepth_batch_complete_max=64 --time_based --runtime=500"
        ),
    )?;
    wait_until("fio is at work", secs(60), || {
        Ok(total(vm, PACED)?.completions > 500)
    })?;
    for _ in 0..lab.scale(2, 10) {
        for mode in ["off", "loop"] {
            let delayed = interrupts_per_request(vm, &name, "delayed")?;
            let prompt = interrupts_per_request(vm, &name, mode)?;
            ensure!(
                delayed < 0.5 * prompt,
                "{delayed:.3} interrupts a request with delayed, {prompt:.3} with {mode}"
            );
        }
    }
    vm.sh("pkill -INT -x fio")?;
    // An interrupted fio reports what it did, and ends with a status of its own.
    let output = fio.outcome()?;
    ensure!(
        output.stdout.contains("\"error\" : 0"),
        "fio failed: {output:?}"
    );
    Ok(())
}

/// Switches to `mode` and counts from that moment on.
fn interrupts_per_request(vm: &Vm, name: &str, mode: &str) -> Result<f64> {
    let file = format!("{DEBUGFS}/{name}/queue0");
    let text = vm.sh(&format!(
        "echo {mode} >/sys/block/{name}/suppress; cat {file}; sleep 0.5; echo later; cat {file}"
    ))?;
    let (before, after) = text.split_once("later\n").context("a part is missing")?;
    let did = &Counters::parse(after)? - &Counters::parse(before)?;
    ensure!(
        did.completions > 100,
        "with {mode} but {} requests ended",
        did.completions
    );
    Ok(did.interrupts as f64 / did.completions as f64)
}
