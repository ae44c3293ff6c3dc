// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The module's description, its parameters and the disk's own knob.

use crate::guest::{expect, log_of, number, read, reload, secs, PARAMETERS};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Vm};

const DISK: &str = "disk";

/// What a knob must refuse, a part of the range that the log then names, and a value that it takes.
struct Knob {
    name: &'static str,
    default: &'static str,
    /// The mode of the disk's file; empty if there is none.
    mode: &'static str,
    bad: &'static [&'static str],
    range: &'static [&'static str],
    good: &'static str,
}

const KNOBS: [Knob; 14] = [
    Knob {
        name: "suppress",
        default: "loop",
        mode: "644",
        bad: &["bogus", "", "LOOP", "loop delayed", "3"],
        range: &["off", "loop", "delayed"],
        good: "delayed",
    },
    Knob {
        name: "num_request_queues",
        default: "0",
        mode: "444",
        bad: &["65536", "-1", "many", "1x", "", "18446744073709551617"],
        range: &["0", "65535"],
        good: "3",
    },
    Knob {
        name: "queue_depth",
        default: "0",
        mode: "444",
        bad: &["10241", "-1", "deep", "1.5", ""],
        range: &["0", "10240"],
        good: "100",
    },
    Knob {
        name: "poll_queues",
        default: "0",
        mode: "444",
        bad: &["65536", "-1", ""],
        range: &["0", "65535"],
        good: "1",
    },
    Knob {
        name: "fail_probe",
        default: "0",
        mode: "",
        bad: &["10", "-1", ""],
        range: &["0", "9"],
        good: "0",
    },
    Knob {
        name: "indirect",
        default: "auto",
        mode: "644",
        bad: &["maybe", "1", ""],
        range: &["auto", "on", "off"],
        good: "on",
    },
    Knob {
        name: "coalesce_usecs",
        default: "0",
        mode: "644",
        bad: &["100001", "-1", "1ms", ""],
        range: &["0", "100000"],
        good: "50",
    },
    Knob {
        name: "coalesce_reqs",
        default: "0",
        mode: "644",
        bad: &["32769", "-1", ""],
        range: &["0", "32768"],
        good: "16",
    },
    Knob {
        name: "coalesce_min_inflight",
        default: "8",
        mode: "644",
        bad: &["32769", "few", ""],
        range: &["0", "32768"],
        good: "4",
    },
    Knob {
        name: "coalesce_method",
        default: "auto",
        mode: "644",
        bad: &["both", ""],
        range: &["auto", "event", "timer"],
        good: "timer",
    },
    Knob {
        name: "coalesce_adaptive",
        default: "0",
        mode: "644",
        bad: &["2", "yes", ""],
        range: &["0, 1"],
        good: "1",
    },
    Knob {
        name: "batch",
        default: "1",
        mode: "644",
        bad: &["2", "off", ""],
        range: &["0, 1"],
        good: "0",
    },
    Knob {
        name: "used_event_hint",
        default: "core",
        mode: "644",
        bad: &["none", ""],
        range: &["core", "avail", "behind"],
        good: "avail",
    },
    Knob {
        name: "lock",
        default: "queue",
        mode: "644",
        bad: &["global", ""],
        range: &["queue", "device"],
        good: "device",
    },
];

pub fn groups() -> Vec<Group> {
    let mut group = Group::new("parameters")
        .guest(|_| {
            let disk = Disk::new(DISK, Backend::ram(16 << 20))
                .num_queues(4)
                .queue_size(64);
            Ok(Vm::builder().vcpus(2).disk(disk))
        })
        .shared("modinfo tells what the module is", modinfo)
        .shared("files are there with mode 0644 and the defaults", defaults);
    for knob in &KNOBS {
        group = group
            .shared(
                format!("bad values of {} are refused", knob.name),
                |_, vm| refuses(vm, knob, &format!("{PARAMETERS}/{}", knob.name)),
            )
            .shared(
                format!("a bad {} keeps the module from loading", knob.name),
                |_, vm| is_not_loaded(vm, knob),
            );
        if knob.mode == "644" {
            group = group.shared(
                format!("bad values of a disk's {} are refused", knob.name),
                |_, vm| {
                    let name = vm.block_device(DISK)?;
                    refuses(vm, knob, &format!("/sys/block/{name}/{}", knob.name))
                },
            );
        }
    }
    group = group
        .shared("suppress is the mode of new disks only", suppress)
        .shared("num_request_queues limits the queues", num_request_queues)
        .shared("queue_depth limits the tags", queue_depth);
    vec![group]
}

fn modinfo(_lab: &Lab, vm: &Vm) -> Result<()> {
    let text = vm.sh("modinfo /mnt/virtio_blk_rs.ko")?;
    let field = |name: &str| {
        let values = text
            .lines()
            .filter_map(move |line| line.strip_prefix(name)?.strip_prefix(':'));
        values
            .map(|value| value.trim().to_owned())
            .collect::<Vec<_>>()
    };
    for name in ["author", "description"] {
        ensure!(
            field(name).iter().any(|value| !value.is_empty()),
            "there is no {name}"
        );
    }
    ensure!(
        field("license")[0].starts_with("GPL"),
        "the license is {:?}",
        field("license")
    );
    expect(
        "the aliases",
        field("alias"),
        vec!["virtio:d00000002v*".to_owned()],
    )?;
    let mut parameters = field("parm");
    parameters.sort();
    expect("the number of parameters", parameters.len(), KNOBS.len())?;
    for knob in KNOBS {
        let prefix = format!("{}:", knob.name);
        let line = parameters.iter().find(|line| line.starts_with(&prefix));
        // A name alone would tell nobody what the parameter means.
        ensure!(
            line.is_some_and(|line| line.len() > prefix.len() + 20),
            "{parameters:?}"
        );
    }
    Ok(())
}

fn defaults(_lab: &Lab, vm: &Vm) -> Result<()> {
    reload(vm, "")?;
    let text = vm.sh(&format!(
        "cd {PARAMETERS} && for file in *; do stat -c '%n %a' $file; done"
    ))?;
    let mut right: Vec<_> = KNOBS.map(|knob| format!("{} 644", knob.name)).into();
    right.sort();
    expect(
        "the files",
        text.lines().collect::<Vec<_>>(),
        right.iter().map(String::as_str).collect(),
    )?;
    let name = vm.block_device(DISK)?;
    for knob in KNOBS {
        let value = read(vm, &format!("{PARAMETERS}/{}", knob.name))?;
        expect(knob.name, value.as_str(), knob.default)?;
        let file = format!("/sys/block/{name}/{}", knob.name);
        let mode = vm.sh(&format!("test ! -e {file} || stat -c %a {file}"))?;
        expect(knob.name, mode.trim(), knob.mode)?;
    }
    Ok(())
}

/// Each bad value is an EINVAL and one line in the log, and the old value stays.
fn refuses(vm: &Vm, knob: &Knob, file: &str) -> Result<()> {
    vm.sh(&format!("echo {} >{file}", knob.good))?;
    for bad in knob.bad {
        let log = log_of(vm, || {
            let output = vm.try_sh(secs(10), &format!("echo '{bad}' >{file}"))?;
            ensure!(
                output.status != 0 && output.stderr.contains("Invalid argument"),
                "{bad:?} written to {file}: {output:?}"
            );
            Ok(())
        })?;
        ensure!(
            log.len() == 1
                && log[0].contains(&format!("'{bad}'"))
                && log[0].contains(knob.name)
                && knob.range.iter().all(|word| log[0].contains(word)),
            "the log says of {bad:?} written to {file}: {log:?}"
        );
        expect("the value", read(vm, file)?.as_str(), knob.good)?;
    }
    Ok(())
}

fn is_not_loaded(vm: &Vm, knob: &Knob) -> Result<()> {
    vm.sh("rmmod virtio_blk_rs")?;
    let bad = knob.bad[0];
    let command = format!("insmod /mnt/virtio_blk_rs.ko {}={bad}", knob.name);
    let log = log_of(vm, || {
        let output = vm.try_sh(secs(30), &command)?;
        ensure!(output.status != 0, "{command} worked");
        Ok(())
    })?;
    ensure!(
        log.iter()
            .any(|line| line.contains(&format!("'{bad}'")) && line.contains(knob.range[0])),
        "the log says of {command}: {log:?}"
    );
    vm.sh("test ! -e /sys/module/virtio_blk_rs && insmod /mnt/virtio_blk_rs.ko")?;
    Ok(())
}

fn suppress(_lab: &Lab, vm: &Vm) -> Result<()> {
    reload(vm, "suppress=off")?;
    let file = |name: &str| format!("/sys/block/{name}/suppress");
    let name = vm.block_device(DISK)?;
    expect(
        "the mode of a new disk",
        read(vm, &file(&name))?.as_str(),
        "off",
    )?;
    vm.sh(&format!("echo delayed >{PARAMETERS}/suppress"))?;
    expect(
        "the mode of an old disk",
        read(vm, &file(&name))?.as_str(),
        "off",
    )?;
    let device = vm.virtio_device(DISK)?;
    let bus = crate::guest::BUS_DRIVER;
    vm.sh(&format!(
        "echo {device} >{bus}/unbind && echo {device} >{bus}/bind"
    ))?;
    let name = vm.block_device(DISK)?;
    expect(
        "the mode of a new disk",
        read(vm, &file(&name))?.as_str(),
        "delayed",
    )
}

/// The device has 4 queues, the machine 2 CPUs.
fn num_request_queues(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (wanted, right) in [(0, 2), (1, 1), (2, 2), (3, 2), (65535, 2)] {
        reload(vm, &format!("num_request_queues={wanted}"))?;
        let name = vm.block_device(DISK)?;
        let found = vm.sh(&format!("ls /sys/block/{name}/mq | wc -l"))?;
        let right = right.to_string();
        expect(
            &format!("the queues with {wanted}"),
            found.trim(),
            right.as_str(),
        )?;
        let told = read(vm, &format!("/sys/block/{name}/num_request_queues"))?;
        expect("the number that the disk tells", told, right)?;
    }
    Ok(())
}

/// The ring has 64 descriptors, of which a request with an indirect table takes one.
fn queue_depth(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (wanted, right) in [(0, 64), (1, 1), (7, 7), (200, 200)] {
        reload(vm, &format!("queue_depth={wanted}"))?;
        let name = vm.block_device(DISK)?;
        let tags: u32 = number(vm, &format!("/sys/block/{name}/mq/0/nr_tags"))?;
        expect(&format!("the tags with queue_depth={wanted}"), tags, right)?;
        let told: u32 = number(vm, &format!("/sys/block/{name}/queue_depth"))?;
        expect("the depth that the disk tells", told, right)?;
        vm.sh(&format!(
            "dd if=/dev/{name} of=/dev/null bs=64k iflag=direct status=none"
        ))?;
    }
    reload(vm, "")
}
