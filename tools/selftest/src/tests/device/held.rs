// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Requests that the device keeps for longer than the block layer's patience (case 28).

use super::{expect_good, set, slow};
use crate::guest::secs;
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::{Duration, Instant};
use vm::{Backend, DeviceConfig, Disk, Policy, Vm};

/// The disk whose device takes its time.
const DISK: &str = "slow";

pub fn group() -> Group {
    Group::new("device")
        .guest(|_| {
            let config = DeviceConfig::ram(16 << 20);
            let disk = Disk::new(DISK, Backend::device(config)).num_queues(1);
            // A task that waits for so long is what is asked for.
            Ok(Vm::builder()
                .disk(disk)
                .kernel_argument("sysctl.kernel.hung_task_timeout_secs=0"))
        })
        .shared(
            "a request that is held back ends when the device ends it",
            held_back,
        )
}

/// Each request times out several times, and stays the device's.
fn held_back(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(DISK)?;
    let holds = lab.scale(vec![3500], vec![31_000, 120_000]);
    let patience = lab.scale(1000, 30_000);
    vm.sh(&format!(
        "echo {patience} >/sys/block/{name}/queue/io_timeout"
    ))?;
    for millis in holds {
        let hold = Duration::from_millis(millis);
        set(vm, DISK, &slow(1000 * millis))?;
        let start = Instant::now();
        // What is read was written before, by a request that was held back as well.
        vm.sh_for(
            hold * 4 + secs(60),
            &format!(
                "set -e
                 head -c 64k /dev/urandom >/tmp/data
                 dd if=/tmp/data of=/dev/{name} bs=64k oflag=direct status=none
                 dd if=/dev/{name} of=/tmp/back bs=64k count=1 iflag=direct status=none
                 cmp /tmp/data /tmp/back"
            ),
        )?;
        let took = start.elapsed();
        ensure!(
            took >= hold * 2,
            "a write and a read ended after {took:?}, each of which the device held for {hold:?}"
        );
        set(vm, DISK, &Policy::default())?;
        expect_good(vm, DISK)?;
    }
    Ok(())
}
