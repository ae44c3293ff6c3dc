// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the device says about itself, and what the disk makes of it.

use crate::fio;
use crate::guest::{expect, log_of, number, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Driver, Vm};

/// The largest logical block that the kernel serves.
const MAX_BLOCK: u32 = 64 << 10;

/// Logical blocks that QEMU can offer: 512 bytes to 2 MiB.
fn block_sizes() -> impl Iterator<Item = u32> {
    (9..=21).map(|bits| 1 << bits)
}

fn block_id(size: u32) -> String {
    format!("block{size}")
}

/// Rings and whether `seg_max` follows from their size, with the segments that fit a request.
const SEGMENTS: [(&str, u16, bool, u32); 4] = [
    ("ring4", 4, true, 2),
    ("ring4-fixed", 4, false, 2),
    ("ring64", 64, true, 62),
    ("ring256-fixed", 256, false, 126),
];

pub fn groups() -> Vec<Group> {
    let blocks = Group::new("limits")
        .without_driver()
        .guest(|_| {
            Ok(block_sizes().fold(Vm::builder(), |vm, size| {
                vm.disk(
                    Disk::new(&block_id(size), Backend::ram(32 << 20))
                        .property("logical_block_size", size)
                        .property("physical_block_size", size),
                )
            }))
        })
        .shared(
            "logical blocks to 64 KiB work, larger ones are refused",
            block_size,
        );
    let segments = Group::new("limits").guest(|_| {
        let features = Disk::new("features", Backend::ram(32 << 20))
            .property("discard", true)
            .property("write-zeroes", true)
            .property("config-wce", true)
            .property("physical_block_size", 4096)
            .property("min_io_size", 8192)
            .property("opt_io_size", 65536);
        let vm = SEGMENTS
            .iter()
            .fold(Vm::builder(), |vm, (id, ring, adjust, _)| {
                vm.disk(
                    Disk::new(id, Backend::ram(32 << 20))
                        .queue_size(*ring)
                        .property("seg-max-adjust", *adjust),
                )
            });
        Ok(vm.disk(features))
    });
    let segments = SEGMENTS
        .iter()
        .fold(segments, |group, (id, ring, adjust, right)| {
            let from = if *adjust { "from the ring" } else { "fixed" };
            group.shared(
                format!("{right} segments on a ring of {ring}, seg_max {from}"),
                move |_, vm| segments_fit(vm, id, *right),
            )
        })
        .shared(
            "only features that the driver knows are accepted",
            known_features,
        )
        .shared("block sizes and hints are the device's", topology);
    vec![blocks, segments]
}

/// Case 1: a block size is used, or refused with a message that names value and range, and a device
/// that was refused does not disturb the others.
fn block_size(_lab: &Lab, vm: &Vm) -> Result<()> {
    let log = log_of(vm, || vm.load(Driver::Rust, ""))?;
    for size in block_sizes() {
        let id = block_id(size);
        let device = vm.virtio_device(&id)?;
        let bound = format!("/sys/bus/virtio/devices/{device}/driver");
        if size > MAX_BLOCK {
            vm.sh(&format!("test ! -e {bound}"))?;
            let message = format!("blk_size {size} is unusable");
            let lines: Vec<_> = log.iter().filter(|line| line.contains(&message)).collect();
            ensure!(
                lines.len() == 1
                    && lines[0].contains(&device)
                    && lines[0].contains(&format!("from 512 to {MAX_BLOCK}")),
                "the refusal of {size} is logged as {lines:?}"
            );
            continue;
        }
        let name = vm.block_device(&id)?;
        let queue = format!("/sys/block/{name}/queue");
        expect(
            "the logical block",
            number(vm, &format!("{queue}/logical_block_size"))?,
            size,
        )?;
        expect(
            "the size in sectors",
            number(vm, &format!("/sys/block/{name}/size"))?,
            65536,
        )?;
        fio::run(
            vm,
            secs(60),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randwrite --bsrange={size}-{} --size=2m \
                 --ba={size} --iodepth=8 --ioengine=libaio --verify=crc32c",
                4 * size
            ),
        )?;
    }
    Ok(())
}

/// Case 3: a request never has more segments than fit the ring, and large I/O is split to that.
fn segments_fit(vm: &Vm, disk: &str, right: u32) -> Result<()> {
    let name = vm.block_device(disk)?;
    let found = number(vm, &format!("/sys/block/{name}/queue/max_segments"))?;
    expect("max_segments", found, right)?;
    fio::run(
        vm,
        secs(60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=write --bs=1m --size=8m --iodepth=8 \
             --ioengine=libaio --verify=crc32c"
        ),
    )?;
    Ok(())
}

/// Case 7: the device offers more than this; what the driver has no name for it cannot accept.
fn known_features(_lab: &Lab, vm: &Vm) -> Result<()> {
    const KNOWN: [&str; 10] = [
        "VIRTIO_BLK_F_SEG_MAX",
        "VIRTIO_BLK_F_BLK_SIZE",
        "VIRTIO_BLK_F_FLUSH",
        "VIRTIO_BLK_F_TOPOLOGY",
        "VIRTIO_BLK_F_CONFIG_WCE",
        "VIRTIO_BLK_F_MQ",
        "VIRTIO_BLK_F_SIZE_MAX",
        "VIRTIO_BLK_F_GEOMETRY",
        "VIRTIO_BLK_F_DISCARD",
        "VIRTIO_BLK_F_WRITE_ZEROES",
    ];
    let features = vm.features("features")?;
    let accepted: Vec<_> = features
        .iter()
        .filter(|name| name.starts_with("VIRTIO_BLK_F_"))
        .collect();
    let unknown: Vec<_> = accepted
        .iter()
        .filter(|name| !KNOWN.contains(&name.as_str()))
        .collect();
    ensure!(
        unknown.is_empty(),
        "features that the driver does not know: {unknown:?}"
    );
    for name in [
        "VIRTIO_BLK_F_SEG_MAX",
        "VIRTIO_BLK_F_FLUSH",
        "VIRTIO_BLK_F_TOPOLOGY",
        "VIRTIO_BLK_F_DISCARD",
        "VIRTIO_BLK_F_WRITE_ZEROES",
    ] {
        ensure!(
            features.iter().any(|feature| feature == name),
            "{name} was not accepted"
        );
    }
    Ok(())
}

fn topology(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("features")?;
    for (file, right) in [
        ("logical_block_size", 512),
        ("physical_block_size", 4096),
        ("minimum_io_size", 8192),
        ("optimal_io_size", 65536),
    ] {
        expect(
            file,
            number(vm, &format!("/sys/block/{name}/queue/{file}"))?,
            right,
        )?;
    }
    Ok(())
}
