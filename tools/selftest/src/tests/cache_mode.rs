// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The cache mode, and its changes at run time (case 38).

use crate::guest::{expect, log_of, read, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::fs;
use std::time::Duration;
use vm::{Backend, DeviceConfig, Disk, Vm, JOB_DIR};

/// Writes blocks and calls fsync, and checks later what must be there.
const FSYNCS: &str = include_str!("cache_mode/fsyncs.py");

/// Whether QEMU's device lets its cache mode be configured, whether it has a cache, and what is
/// right then.
const MODES: [(bool, &str, &str); 4] = [
    (true, "on", "write back"),
    (true, "off", "write through"),
    (false, "on", "write back"),
    (false, "off", "write through"),
];

fn id(configurable: bool, cache: &str) -> String {
    format!("wce-{configurable}-{cache}")
}

pub fn groups() -> Vec<Group> {
    let modes = Group::new("cache-mode")
        .guest(|lab| {
            let vm =
                MODES
                    .into_iter()
                    .try_fold(Vm::builder(), |vm, (configurable, cache, _)| {
                        let scratch = lab.scratch(16 << 20)?;
                        let disk = Disk::new(&id(configurable, cache), scratch.backend())
                            .property("config-wce", configurable)
                            .property("write-cache", cache);
                        anyhow::Ok(vm.disk(disk))
                    })?;
            let odd = DeviceConfig::ram(16 << 20).argument("--write-cache=2");
            Ok(vm.disk(Disk::new("odd", Backend::device(odd))))
        })
        .shared(
            "the device's cache mode is told, and can be changed where it can",
            modes,
        )
        .shared(
            "the chosen mode outlasts a restart of the device",
            outlasts_restart,
        )
        .shared(
            "a bad cache mode is refused with what may be written",
            bad_mode,
        )
        .shared(
            "a cache mode that the standard does not have means a cache",
            odd_mode,
        );
    let flips = Group::new("cache-mode")
        .guest(|_| {
            let config = DeviceConfig::ram(16 << 20).argument("--volatile-cache");
            let disk = Disk::new("volatile", Backend::device(config)).num_queues(2);
            Ok(Vm::builder().vcpus(2).disk(disk))
        })
        .shared("the device forgets what was not flushed", forgets)
        .shared(
            "an fsync after the cache was turned off covers earlier writes",
            one_flip,
        )
        .shared(
            "no fsync is lost while the cache mode changes",
            flips_under_load,
        );
    vec![modes, flips]
}

fn mode_file(name: &str) -> String {
    format!("/sys/block/{name}/cache_type")
}

/// Demands that device and block layer agree on the mode.
fn expect_mode(vm: &Vm, name: &str, right: &str) -> Result<()> {
    let file = mode_file(name);
    expect(&file, read(vm, &file)?.as_str(), right)?;
    let file = format!("/sys/block/{name}/queue/write_cache");
    expect(&file, read(vm, &file)?.as_str(), right)
}

fn modes(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (configurable, cache, right) in MODES {
        let name = vm.block_device(&id(configurable, cache))?;
        let file = mode_file(&name);
        expect_mode(vm, &name, right)?;
        let access = vm.sh(&format!("stat -c %a {file}"))?;
        let right_access = if configurable { "644" } else { "444" };
        expect(&format!("the mode of {file}"), access.trim(), right_access)?;
        let set = |mode: &str| vm.try_sh(secs(60), &format!("echo {mode:?} >{file}"));
        if !configurable {
            ensure!(
                set(right)?.status != 0,
                "the cache mode of {name} was changed"
            );
            continue;
        }
        for mode in [
            "write through",
            "write back",
            "write back",
            "write through",
            right,
        ] {
            expect("the status of the change", set(mode)?.status, 0)?;
            expect_mode(vm, &name, mode)?;
        }
    }
    Ok(())
}

/// QEMU's device comes out of a reset with the mode that it was made with.
fn outlasts_restart(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(&id(true, "on"))?;
    vm.sh(&format!("echo write through >{}", mode_file(&name)))?;
    for indirect in ["off", "on", "auto"] {
        vm.sh(&format!("echo {indirect} >/sys/block/{name}/indirect"))?;
        expect_mode(vm, &name, "write through")?;
    }
    vm.sh(&format!("echo write back >{}", mode_file(&name)))?;
    expect_mode(vm, &name, "write back")
}

fn bad_mode(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(&id(true, "on"))?;
    for mode in ["", "write", "write back!", "none", "1"] {
        let log = log_of(vm, || {
            let script = format!("echo {mode:?} >{}", mode_file(&name));
            let output = vm.try_sh(secs(60), &script)?;
            ensure!(output.status != 0, "{mode:?} was taken");
            ensure!(
                output.stderr.contains("Invalid argument"),
                "{}",
                output.stderr
            );
            Ok(())
        })?;
        ensure!(
            log.iter()
                .any(|line| line.contains(&format!("cache_type: '{mode}'"))
                    && line.contains("write through, write back")),
            "the refusal of {mode:?} is logged as {log:?}"
        );
    }
    expect_mode(vm, &name, "write back")
}

fn odd_mode(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("odd")?;
    expect_mode(vm, &name, "write back")?;
    for mode in ["write through", "write back"] {
        vm.sh(&format!("echo {mode} >{}", mode_file(&name)))?;
        expect_mode(vm, &name, mode)?;
    }
    Ok(())
}

/// Starts the script that writes and calls fsync with these arguments.
fn script(vm: &Vm, name: &str, arguments: &str) -> Result<String> {
    fs::write(vm.job_dir().join("fsyncs.py"), FSYNCS)?;
    Ok(format!(
        "python3 {JOB_DIR}/fsyncs.py /dev/{name} {arguments}"
    ))
}

/// Fails the power of the device, and returns how many sectors that cost.
fn power_cut(vm: &Vm) -> Result<u64> {
    let answer = vm
        .device("volatile")?
        .ask(&json!({"command": "power_cut"}))?;
    let lost = answer["lost_sectors"].as_u64();
    lost.with_context(|| format!("{answer} is no answer to a power cut"))
}

/// Without this, the other tests would prove nothing.
fn forgets(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("volatile")?;
    vm.sh(&script(vm, &name, "write 1")?)?;
    ensure!(power_cut(vm)? > 0, "the device lost nothing");
    let output = vm.try_sh(secs(60), &script(vm, &name, "check 1")?)?;
    ensure!(output.status != 0, "what was lost is there");
    vm.sh(&script(vm, &name, "write 2")?)?;
    vm.sh(&script(vm, &name, "fsync")?)?;
    expect("the sectors that were lost", power_cut(vm)?, 0)?;
    vm.sh(&script(vm, &name, "check 2")?)?;
    Ok(())
}

fn one_flip(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("volatile")?;
    let file = mode_file(&name);
    vm.sh(&format!("echo write back >{file}"))?;
    vm.sh(&script(vm, &name, "write 3")?)?;
    vm.sh(&format!("echo write through >{file}"))?;
    vm.sh(&script(vm, &name, "fsync")?)?;
    power_cut(vm)?;
    vm.sh(&script(vm, &name, "check 3")?)?;
    vm.sh(&format!("echo write back >{file}"))?;
    Ok(())
}

fn flips_under_load(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("volatile")?;
    let file = mode_file(&name);
    for round in 0..lab.scale(4, 40) {
        let load = vm.spawn(secs(120), &script(vm, &name, "load 4 3")?)?;
        let flips = vm.sh_for(
            Duration::from_secs(60),
            &format!(
                "n=0; end=$((SECONDS + 2)); while test $SECONDS -lt $end; do
                     echo write through >{file} && echo write back >{file} || exit 1
                     n=$((n + 1))
                 done
                 test {round} -eq 0 || echo write through >{file}
                 echo $n"
            ),
        )?;
        let flips: u64 = flips.trim().parse()?;
        ensure!(flips > 5, "the mode changed but {flips} times");
        let promised = load.wait_ok()?;
        power_cut(vm)?;
        fs::write(vm.job_dir().join("promised"), promised)?;
        vm.sh(&script(vm, &name, &format!("kept {JOB_DIR}/promised"))?)?;
        vm.sh(&format!("echo write back >{file}"))?;
    }
    Ok(())
}
