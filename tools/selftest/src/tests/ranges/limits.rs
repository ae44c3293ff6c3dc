// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How much is discarded, zeroed and erased at a time: as the C driver says of sane devices, and
//! something that works of others.

use super::{disk, expect_cleared, fill, MIB};
use crate::guest::{expect, log_of, number, secs, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use crate::tests::device::expect_good;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Driver, Vm};

/// What a device offers, and what is right.
struct Odd {
    /// Sectors, ranges and unit, for discarding and for erasing.
    ranges: &'static str,
    /// The same for zeroes.
    zeroes: &'static str,
    /// The logical block in bytes.
    block: u32,
    /// The bytes that are discarded at a time.
    discarded: u64,
    /// The bytes that are zeroed at a time.
    zeroed: u64,
    /// The operations that the disk goes without, of which the log tells.
    without: &'static [&'static str],
}

const ODD: [Odd; 6] = [
    Odd {
        ranges: "0,0,0",
        zeroes: "0,0,0",
        block: 512,
        discarded: MAX,
        zeroed: MAX,
        without: &["secure erase"],
    },
    Odd {
        ranges: "1,1,1",
        zeroes: "1,1,0",
        block: 512,
        discarded: 512,
        zeroed: 512,
        without: &[],
    },
    Odd {
        ranges: "0,0,0",
        zeroes: "0,0,0",
        block: 4096,
        discarded: MAX,
        zeroed: MAX,
        without: &["secure erase"],
    },
    Odd {
        ranges: "1,1,1",
        zeroes: "1,1,0",
        block: 4096,
        discarded: 0,
        zeroed: 0,
        without: &["discard", "write zeroes", "secure erase"],
    },
    // A unit that is no power of two, and one that is longer than what may be discarded.
    Odd {
        ranges: "128,2,7",
        zeroes: "15,1,0",
        block: 4096,
        discarded: 65536,
        zeroed: 4096,
        without: &[],
    },
    Odd {
        ranges: "128,4294967295,2147483648",
        zeroes: "4294967295,4294967295,0",
        block: 512,
        discarded: 65536,
        zeroed: MAX,
        without: &[],
    },
];

/// No limit.
const MAX: u64 = u32::MAX as u64 * 512;

pub fn add_to(group: Group) -> Group {
    group.shared(
        "odd limits are used, replaced, or do without the operation",
        |_, vm| {
            ODD.iter()
                .enumerate()
                .try_for_each(|(index, _)| odd(vm, index))
        },
    )
}

/// Case 5: the disk works, and never asks for more than the device takes, which that checks.
fn odd(vm: &Vm, index: usize) -> Result<()> {
    let Odd {
        ranges,
        zeroes,
        block,
        discarded,
        zeroed,
        without,
    } = ODD[index];
    let id = format!("odd{index}");
    let odd = disk(
        &id,
        16 * MIB,
        &[
            &format!("--discard={ranges}"),
            &format!("--write-zeroes={zeroes}"),
            &format!("--secure-erase={ranges}"),
            &format!("--block-size={block}"),
        ],
    );
    let log = log_of(vm, || {
        vm.plug(odd)?;
        wait_until("the disk is found", secs(60), || {
            Ok(vm.virtio_device(&id).is_ok())
        })?;
        vm.block_device(&id).map(drop)
    })?;
    let name = vm.block_device(&id)?;
    let queue = format!("/sys/block/{name}/queue");
    for (file, right) in [
        ("discard_max_bytes", discarded),
        ("write_zeroes_max_bytes", zeroed),
    ] {
        let found: u64 = number(vm, &format!("{queue}/{file}"))?;
        expect(&format!("{file} of {id}"), found, right)?;
    }
    let warnings: Vec<_> = log.iter().filter(|line| line.contains(": no ")).collect();
    ensure!(
        warnings.len() == without.len()
            && without.iter().all(|what| warnings
                .iter()
                .any(|line| line.contains(&format!("no {what}:")))),
        "{id} is warned of with {warnings:?}, instead of going without {without:?}"
    );
    for (how, what) in [
        ("", "discard"),
        ("-z", "write zeroes"),
        ("-s", "secure erase"),
    ] {
        fill(vm, &name)?;
        let command = format!("blkdiscard -f {how} -o 1M -l 256K /dev/{name}");
        let output = vm.try_sh(secs(120), &command)?;
        // The block layer zeroes by itself where the device does not.
        let is_there = !without.contains(&what) || how == "-z";
        ensure!(
            (output.status == 0) == is_there,
            "{command} on {id}, which does without {without:?}: {output:?}"
        );
        expect_cleared(vm, &name, MIB, if is_there { 256 << 10 } else { 0 })?;
    }
    expect_good(vm, &id)?;
    vm.unplug(&id)
}

/// Devices that a user may meet, in the same machine for both drivers.
fn sane() -> Vec<(&'static str, Disk)> {
    let own = |id| Disk::new(id, Backend::ram(16 << 20));
    let offers = |id, arguments: &[&str]| disk(id, 16 << 20, arguments);
    let with = |disk: Disk, properties: &[(&str, u32)]| {
        let properties = properties.iter();
        properties.fold(disk, |disk, (name, value)| disk.property(name, *value))
    };
    vec![
        ("plain", own("plain")),
        (
            "off",
            own("off")
                .property("discard", false)
                .property("write-zeroes", false),
        ),
        (
            "limits",
            with(
                own("limits"),
                &[
                    ("max-discard-sectors", 8192),
                    ("max-write-zeroes-sectors", 4096),
                ],
            ),
        ),
        (
            "blocks",
            with(
                own("blocks"),
                &[
                    ("logical_block_size", 4096),
                    ("physical_block_size", 4096),
                    ("max-write-zeroes-sectors", 4096),
                ],
            ),
        ),
        (
            "physical",
            with(
                own("physical"),
                &[
                    ("physical_block_size", 4096),
                    ("discard_granularity", 65536),
                ],
            ),
        ),
        ("none", offers("none", &[])),
        (
            "many",
            offers("many", &["--discard=131072,16,8", "--write-zeroes=0,1,0"]),
        ),
        ("most", offers("most", &["--discard=0,1000,2048"])),
        (
            "unlimited",
            offers("unlimited", &["--discard=0,0,0", "--write-zeroes=0,0,0"]),
        ),
        ("erase", offers("erase", &["--secure-erase=1024,16,8"])),
        (
            "both",
            offers("both", &["--discard=4096,16,8", "--secure-erase=1024,4,2"]),
        ),
    ]
}

pub fn beside_the_c_driver() -> Group {
    Group::new("ranges")
        .without_driver()
        .guest(|_| {
            let disks = sane().into_iter();
            Ok(disks.fold(Vm::builder(), |vm, (_, disk)| vm.disk(disk)))
        })
        .shared("limits are those of the C driver", same_limits)
}

fn same_limits(_lab: &Lab, vm: &Vm) -> Result<()> {
    let read = || -> Result<Vec<String>> {
        let limits = sane().into_iter().map(|(id, _)| {
            let name = vm.block_device(id)?;
            let limits = vm.sh(&format!(
                "cd /sys/block/{name}/queue
                 grep . discard_* write_zeroes_* max_discard_segments ../discard_alignment"
            ))?;
            Ok(format!("{id}:\n{limits}"))
        });
        limits.collect()
    };
    vm.load(Driver::C, "")?;
    let right = read()?;
    vm.unload(Driver::C)?;
    vm.load(Driver::Rust, "")?;
    for (found, right) in read()?.iter().zip(&right) {
        expect("the limits", found, right)?;
    }
    ensure!(
        right
            .iter()
            .any(|text| text.contains("max_discard_segments:256")),
        "the C driver has no disk with 256 ranges: {right:?}"
    );
    Ok(())
}
