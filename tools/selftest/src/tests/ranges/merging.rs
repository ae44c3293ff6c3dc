// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Discards that the block layer has merged: several ranges in a request, or one for all of it.

use super::{counted, expect_cleared, fill, MANY, MIB, SINGLE, TINY};
use crate::guest::{expect, secs};
use crate::lab::Lab;
use crate::suite::Group;
use crate::tests::device::expect_good;
use anyhow::{ensure, Result};
use vm::{Order, Policy, Vm};

pub fn add_to(group: Group) -> Group {
    let group = group
        .shared(
            "merged discards are ranges where there may be many",
            |_, vm| merged(vm, MANY, 2),
        )
        .shared(
            "merged discards are one range where there may be one",
            |_, vm| merged(vm, SINGLE, 1),
        );
    [MANY, SINGLE, TINY].into_iter().fold(group, |group, disk| {
        group.shared(
            format!("neighbouring discards at the same time on {disk}"),
            move |lab, vm| parallel(lab, vm, disk),
        )
    })
}

/// Case 34: a discard that starts between two units of the device becomes two bios, up to the unit
/// and on from there, which the block layer makes one request of.
fn merged(vm: &Vm, disk: &str, ranges: u64) -> Result<()> {
    let name = vm.block_device(disk)?;
    for (offset, length) in [(512, MIB), (MIB + 2048, 2 * MIB)] {
        fill(vm, &name)?;
        let did = counted(
            vm,
            disk,
            &format!("blkdiscard -f -o {offset} -l {length} DISK"),
        )?;
        expect(
            "discards and their ranges",
            (did.discards, did.ranges),
            (1, ranges),
        )?;
        expect("the number of bytes", did.bytes_cleared, length)?;
        expect_cleared(vm, &name, offset, length)?;
    }
    expect_good(vm, disk)
}

/// Case 34: many processes discard a partition each, with and without a scheduler that merges them,
/// on a device that takes its time; the full ring of [`TINY`] sends requests back again and again.
fn parallel(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    // Discards of the same node wait for each other.
    vm.sh(&format!(
        "modprobe mq-deadline
         (echo label: gpt; for n in $(seq 0 31); do
             echo start=$((2048 + n * 128)), size=128
         done) | sfdisk --quiet --wipe always /dev/{name}"
    ))?;
    vm.device(disk)?.set(&Policy {
        latency_us: 2_000,
        order: Order::Random,
        ..Policy::default()
    })?;
    for scheduler in ["none", "mq-deadline"] {
        vm.sh(&format!(
            "echo {scheduler} >/sys/block/{name}/queue/scheduler"
        ))?;
        for _ in 0..lab.scale(1, 20) {
            fill(vm, &name)?;
            let before = vm.device(disk)?.total()?;
            vm.sh_for(
                secs(120),
                &format!(
                    "rm -f /tmp/bad
                     for n in $(seq 32); do
                         blkdiscard -f /dev/{name}$n || touch /tmp/bad &
                     done
                     wait
                     test ! -e /tmp/bad"
                ),
            )?;
            let did = vm.device(disk)?.total()? - before;
            expect("the number of bytes", did.bytes_cleared, 2 * MIB)?;
            ensure!(
                (1..=32).contains(&did.discards) && (did.discards..=32).contains(&did.ranges),
                "32 discards became {did:?}"
            );
            expect_cleared(vm, &name, MIB, 2 * MIB)?;
        }
    }
    vm.sh(&format!(
        "echo none >/sys/block/{name}/queue/scheduler
         partx -d /dev/{name}"
    ))?;
    vm.device(disk)?.set(&Policy::default())?;
    expect_good(vm, disk)
}
