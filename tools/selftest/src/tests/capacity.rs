// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The size of a disk, and its changes.

use crate::guest::{expect, log_of, number, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use vm::{Backend, DeviceConfig, Disk, Driver, Transport, Vm};

const DISK: &str = "sparse";

/// Sizes in sectors that differ in both halves of the 64-bit field, so that a torn read of it is
/// neither of them.
const BELOW: u64 = 0xffff_fff8;
const ABOVE: u64 = 0x1_0000_0008;

pub fn groups() -> Vec<Group> {
    let words = Group::new("capacity").alone(
        "a change is logged and announced like the kernel's own driver does",
        changes,
    );
    let torn = [("pci", Transport::Pci), ("mmio", Transport::Mmio)]
        .into_iter()
        .map(|(name, transport)| {
            Group::new("capacity").alone(
                format!("no torn size while it changes across 2 TiB, {name}"),
                move |lab| across_2_tib(lab, transport),
            )
        });
    torn.chain([words.alone(
        "a capacity beyond what the kernel can address is refused",
        too_large,
    )])
    .collect()
}

/// The kernel warns of its driver if that passes such a capacity on.
fn too_large(lab: &Lab) -> Result<()> {
    let size = u64::MAX - 511;
    let disk = Disk::new("huge", Backend::device(DeviceConfig::null(size)));
    let vm = lab.boot(Vm::builder().disk(disk))?;
    let log = log_of(&vm, || vm.load(Driver::Rust, ""))?;
    let words = "a capacity of 36028797018963967 sectors is unusable";
    ensure!(
        log.iter()
            .any(|line| line.contains(words) && line.contains("at most 18014398509481983")),
        "the refusal is logged as {log:?}"
    );
    let device = vm.virtio_device("huge")?;
    vm.sh(&format!(
        "test ! -e /sys/bus/virtio/devices/{device}/driver"
    ))?;
    vm.shutdown()
}

/// What is logged while a disk is bound and resized, and what user space is told, by each driver.
fn changes(lab: &Lab) -> Result<()> {
    let disk = |id| anyhow::Ok(Disk::new(id, lab.scratch(64 << 20)?.backend()));
    let large = disk("large-blocks")?
        .property("logical_block_size", 4096)
        .property("physical_block_size", 4096);
    let small = disk("small-blocks")?;
    let vm = lab.boot(Vm::builder().disk(small.clone()).disk(large.clone()))?;
    let mut seen = Vec::new();
    for driver in [Driver::C, Driver::Rust] {
        vm.sh("dmesg -C")?;
        vm.load(driver, "")?;
        let events = vm.spawn(
            Duration::from_secs(60),
            "python3 -c '
import socket
events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)
events.bind((0, 1))
events.settimeout(6)
try:
    while True:
        words = events.recv(8192).decode().split(\"\\0\")
        if \"SUBSYSTEM=block\" in words:
            left_out = (\"SEQNUM\", \"DISKSEQ\", \"MAJOR\", \"MINOR\")
            print(*sorted(word for word in words if not word.startswith(left_out)))
except TimeoutError:
    pass'",
        )?;
        std::thread::sleep(Duration::from_secs(3));
        for disk in [&small, &large] {
            // The last one is none.
            for mib in [32, 96, 64, 64] {
                let size = mib * 1_048_576_u64;
                let arguments = json!({"node-name": disk.node(), "size": size});
                vm.monitor().execute("block_resize", arguments)?;
                let name = vm.block_device(disk.id())?;
                let file = format!("/sys/block/{name}/size");
                wait_until("the size has changed", Duration::from_secs(10), || {
                    Ok(number::<u64>(&vm, &file)? == size / 512)
                })?;
            }
        }
        let events = events.wait_ok()?;
        let log = vm.sh("dmesg | grep -e 'logical blocks' -e 'detected capacity' |
             sed 's/.*virtio_blk[^:]*: //;\
             s/^.[^]]*\\] v/v/; s/virtio[0-9]*: //' | awk '!seen[$0]++'")?;
        ensure!(
            events.matches("RESIZE=1").count() == 6,
            "announced was: {events}"
        );
        seen.push((log, events));
        vm.unload(driver)?;
    }
    let rust = seen.pop();
    expect("what log and user space were told", rust, seen.pop())?;
    vm.shutdown()
}

/// Case 13: the field is read in two halves, between which the device may change it.
fn across_2_tib(lab: &Lab, transport: Transport) -> Result<()> {
    let scratch = lab.scratch(BELOW * 512)?;
    let disk = Disk::new(DISK, scratch.backend()).transport(transport);
    let node = disk.node();
    let vm = lab.boot(
        Vm::builder()
            .disk(disk)
            // The modern interface, which has a generation counter.
            .qemu_arguments(["-global", "virtio-mmio.force-legacy=off"])
            .kernel_argument("log_buf_len=16M"),
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device(DISK)?;
    let file = format!("/sys/block/{name}/size");
    expect("the size in sectors", number(&vm, &file)?, BELOW)?;

    let seconds = lab.scale(5, 120);
    let reader = vm.spawn(
        Duration::from_secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); while test $SECONDS -lt $end; do \
             read size <{file}; echo $size; done | sort | uniq -c"
        ),
    )?;
    let resize = |sectors: u64| {
        let size = sectors * 512;
        let arguments = json!({"node-name": node, "size": size});
        vm.monitor().execute("block_resize", arguments)
    };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut resizes = 0;
    while Instant::now() < deadline {
        resize(ABOVE)?;
        resize(BELOW)?;
        resizes += 2;
    }
    let mut seen = counts(&reader.wait_ok()?)?;
    // What the driver has read from the device, every single time.
    let log =
        vm.sh("dmesg | sed -n 's/.*new size: \\([0-9]*\\) 512-byte.*/\\1/p' | sort | uniq -c")?;
    let read_by_driver = counts(&log)?;
    let changes: u64 = read_by_driver.values().sum();
    ensure!(
        changes > 20,
        "the driver saw {changes} of {resizes} changes"
    );
    for (size, count) in read_by_driver {
        *seen.entry(size).or_default() += count;
    }
    let sizes: Vec<_> = seen.keys().copied().collect();
    expect(
        "the list of sizes that were seen",
        sizes,
        vec![BELOW, ABOVE],
    )?;

    // The last change is never lost.
    resize(ABOVE)?;
    wait_until(
        "the disk has its last size",
        Duration::from_secs(10),
        || Ok(number::<u64>(&vm, &file)? == ABOVE),
    )?;
    vm.sh(&format!(
        "dd if=/dev/{name} of=/dev/null bs=512 skip={} count=1 iflag=direct status=none",
        ABOVE - 1
    ))?;
    vm.shutdown()
}

/// Parses what uniq(1) has counted.
fn counts(text: &str) -> Result<BTreeMap<u64, u64>> {
    let lines = text.lines().map(|line| {
        let mut fields = line.split_whitespace().map(str::parse);
        let mut next = || {
            fields
                .next()
                .with_context(|| format!("{line:?} is no count"))
        };
        let (count, size) = (next()??, next()??);
        Ok((size, count))
    });
    lines.collect()
}
