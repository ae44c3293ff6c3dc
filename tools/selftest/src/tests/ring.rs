// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the device finds on the ring: the order of requests, and the shape of their chains.

use crate::fio;
use crate::guest::{expect, secs};
use crate::lab::{Lab, Scratch};
use crate::qmp;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::io::{Read, Seek, SeekFrom};
use vm::{Backend, Disk, Driver, Vm};

pub fn groups() -> Vec<Group> {
    let order = Group::new("ring").alone("sequential batches reach the device in order", in_order);
    let chains = ["direct", "indirect"];
    let group = Group::new("ring").guest(move |_| {
        let disks = chains.map(|id| {
            Disk::new(id, Backend::ram(16 << 20))
                .indirect_desc(id == "indirect")
                .num_queues(1)
        });
        Ok(disks
            .into_iter()
            .fold(Vm::builder(), |vm, disk| vm.disk(disk)))
    });
    let group = group
        .shared("a flush is two descriptors", |_, vm| {
            let name = vm.block_device("direct")?;
            // A write without a flush before it, then the flush alone.
            vm.sh(&format!("blockdev --flushbufs /dev/{name}"))?;
            last_chain(vm, "direct", "fsync", &[(16, false), (1, true)])
        })
        .shared("a read is header, data, status", |_, vm| {
            last_chain(
                vm,
                "direct",
                "read",
                &[(16, false), (4096, true), (1, true)],
            )
        })
        .shared("a write is header, data, status", |_, vm| {
            last_chain(
                vm,
                "direct",
                "write",
                &[(16, false), (4096, false), (1, true)],
            )
        })
        .shared("a discard is header, range, status", |_, vm| {
            last_chain(
                vm,
                "direct",
                "discard",
                &[(16, false), (16, false), (1, true)],
            )
        });
    vec![order, group]
}

/// Case 16: upstream's `queue_rqs` once sent batches in the reverse order.
fn in_order(lab: &Lab) -> Result<()> {
    let trace = lab.scratch(0)?;
    let disk = Disk::new("disk", Backend::null(64 << 20)).num_queues(1);
    let vm = lab.boot(
        Vm::builder()
            .disk(disk)
            .qemu_arguments(["-trace", "virtio_blk_handle_read"])
            .qemu_arguments(["-trace", "virtio_blk_handle_write"])
            .qemu_arguments(["-D", &trace.path().to_string_lossy()]),
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device("disk")?;
    // The block layer would make one request of neighbours.
    vm.sh(&format!("echo 2 >/sys/block/{name}/queue/nomerges"))?;
    for (rw, engine) in [
        ("read", "io_uring"),
        ("write", "io_uring"),
        ("read", "libaio"),
    ] {
        let seen = sectors(&trace, rw)?.len();
        let report = fio::run(
            &vm,
            secs(60),
            &format!(
                "--name=j --filename=/dev/{name} --rw={rw} --bs=4k --size=16m --ioengine={engine} \
                 --iodepth=64 --iodepth_batch_submit=32 --iodepth_batch_complete_min=32"
            ),
        )?;
        let found = sectors(&trace, rw)?.split_off(seen);
        // In front there may be what fio reads to look at the disk.
        let found = &found[found.len() - report.transfers() as usize..];
        let right: Vec<u64> = (0..report.transfers()).map(|n| n * 8).collect();
        if let Some(at) = found
            .iter()
            .zip(&right)
            .position(|(found, right)| found != right)
        {
            let around = &found[at.saturating_sub(2)..found.len().min(at + 8)];
            anyhow::bail!("{engine} {rw}: request {at} is out of order: sectors {around:?}");
        }
        expect("the number of requests", found.len(), 4096)?;
    }
    vm.shutdown()
}

/// The sectors that QEMU was asked for, in the order in which it found the requests.
fn sectors(trace: &Scratch, rw: &str) -> Result<Vec<u64>> {
    let mut text = String::new();
    let mut file = &trace.file;
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    let event = format!("virtio_blk_handle_{rw}");
    let lines = text.lines().filter(|line| line.contains(&event));
    lines
        .map(|line| {
            let sector = line
                .split_whitespace()
                .skip_while(|word| *word != "sector")
                .nth(1);
            Ok(sector.context("QEMU's trace shows no sector")?.parse()?)
        })
        .collect()
}

/// Case 31: runs an operation and compares the chain that it has left in the ring, descriptor by
/// descriptor: length, and whether the device may write to it.
fn last_chain(vm: &Vm, disk: &str, operation: &str, right: &[(u64, bool)]) -> Result<()> {
    let name = vm.block_device(disk)?;
    vm.sh(&match operation {
        "fsync" => format!(
            "dd if=/dev/zero of=/dev/{name} bs=4k count=1 oflag=direct status=none && \
             dd if=/dev/null of=/dev/{name} count=0 conv=fsync,notrunc status=none"
        ),
        "read" => format!("dd if=/dev/{name} of=/dev/null bs=4k count=1 iflag=direct status=none"),
        "discard" => format!("blkdiscard -f -l 4096 /dev/{name}"),
        _ => format!("dd if=/dev/zero of=/dev/{name} bs=4k count=1 oflag=direct status=none"),
    })?;
    let status = qmp::queue_status(vm, disk, 0)?;
    let next = status["last-avail-idx"]
        .as_u64()
        .context("QEMU knows no index")?;
    let last = (next + 0xffff) & 0xffff;
    let element = qmp::queue_element(vm, disk, 0, last as u16)?;
    let chain = element["descs"]
        .as_array()
        .context("QEMU shows no descriptors")?;
    // QEMU puts each descriptor in front of the one before.
    let chain = chain
        .iter()
        .rev()
        .map(descriptor)
        .collect::<Result<Vec<_>>>()?;
    expect("the chain of the last request", chain.as_slice(), right)?;
    ensure!(
        chain.iter().all(|(length, _)| *length > 0),
        "a descriptor has no length"
    );
    Ok(())
}

fn descriptor(descriptor: &Value) -> Result<(u64, bool)> {
    let length = descriptor["len"]
        .as_u64()
        .context("a descriptor without a length")?;
    let flags = descriptor["flags"]
        .as_array()
        .context("a descriptor without flags")?;
    Ok((length, flags.iter().any(|flag| flag == "write")))
}
