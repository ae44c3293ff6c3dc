// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Configuration spaces with odd values: a disk works and keeps to them, or is refused cleanly.

use super::expect_good;
use crate::guest::{expect, number, secs, wait_until};
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, DeviceConfig, Disk, FrontEnd, Vm};

/// The right thing to do about a value.
#[derive(Debug, Clone, Copy)]
enum Right {
    /// The disk works; what the block layer then says about its queue.
    Works(&'static str, u64),
    /// The disk is refused with these words.
    Refused(&'static str),
}

use Right::{Refused, Works};

/// An option of the device, and what is right.
const CASES: [(&str, u32, Right); 17] = [
    // Case 1
    ("block-size", 0, Works("logical_block_size", 512)),
    ("block-size", 1, Refused("blk_size 1 is unusable")),
    ("block-size", 511, Refused("blk_size 511 is unusable")),
    ("block-size", 513, Refused("blk_size 513 is unusable")),
    ("block-size", 1536, Refused("blk_size 1536 is unusable")),
    ("block-size", 4096, Works("logical_block_size", 4096)),
    (
        "block-size",
        u32::MAX,
        Refused("blk_size 4294967295 is unusable"),
    ),
    // Case 3: a ring of 256, of which header and status take two.
    ("seg-max", 0, Works("max_segments", 1)),
    ("seg-max", 1, Works("max_segments", 1)),
    ("seg-max", 2, Works("max_segments", 2)),
    ("seg-max", u32::MAX, Works("max_segments", 254)),
    // Case 4
    ("size-max", 0, Refused("segments of 0 bytes are unusable")),
    ("size-max", 1, Refused("segments of 1 bytes are unusable")),
    (
        "size-max",
        512,
        Refused("segments of 512 bytes are unusable"),
    ),
    ("size-max", 4096, Works("max_segment_size", 4096)),
    ("size-max", 65537, Works("max_segment_size", 65537)),
    (
        "size-max",
        u32::MAX,
        Works("max_segment_size", u32::MAX as u64),
    ),
];

/// Adds the tests to a group whose guest has slots for all of these disks.
pub fn add_to(group: Group) -> Group {
    ["block-size", "seg-max", "size-max"]
        .into_iter()
        .fold(group, |group, option| {
            group.shared(
                format!("any {option} is kept to, or refused"),
                move |_, vm| {
                    let mut cases = CASES.iter().filter(|(of, ..)| *of == option);
                    cases.try_for_each(|(_, value, right)| limit(vm, option, *value, *right))
                },
            )
        })
}

/// Plugs a disk with that value in and uses it, as far as it can be used.
fn limit(vm: &Vm, option: &str, value: u32, right: Right) -> Result<()> {
    // The one for disks keeps size_max from the driver.
    let front_end = match option {
        "size-max" => FrontEnd::Test,
        _ => FrontEnd::Blk,
    };
    let id = format!("{option}-{value}");
    let config = DeviceConfig::ram(16 << 20)
        .argument(&format!("--{option}={value}"))
        .front_end(front_end);
    vm.plug(Disk::new(&id, Backend::device(config)))?;
    match right {
        Works(attribute, limit) => {
            let name = vm.block_device(&id)?;
            let file = format!("/sys/block/{name}/queue/{attribute}");
            let found = number(vm, &file)?;
            expect(&format!("{attribute} with {id}"), found, limit)?;
            // The device itself counts requests that are larger than it allows.
            vm.sh(&format!(
                "head -c 4M /dev/urandom >/tmp/data
                 dd if=/tmp/data of=/dev/{name} bs=1M oflag=direct status=none
                 dd if=/dev/{name} bs=1M count=4 iflag=direct status=none | cmp - /tmp/data"
            ))?;
            expect_good(vm, &id)?;
        }
        Refused(words) => {
            wait_until(&format!("{id} is refused"), secs(30), || {
                Ok(vm.dmesg()?.contains(words))
            })?;
            let device = vm.virtio_device(&id)?;
            let bound = format!("test ! -e /sys/bus/virtio/devices/{device}/driver");
            ensure!(
                vm.try_sh(secs(10), &bound)?.status == 0,
                "{id} has a driver all the same"
            );
        }
    }
    vm.unplug(&id)
}
