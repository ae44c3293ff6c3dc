// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Kicks that the device handles inside of the write that sends them: a driver that kicks under its
//! lock would hold up all other CPUs meanwhile.

use crate::fio;
use crate::guest::{expect_idle, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Driver, Vm};

pub fn groups() -> Vec<Group> {
    [2, 4, 8]
        .into_iter()
        .map(|vcpus| {
            Group::new("kicks").alone(
                format!("synchronous kicks from {vcpus} CPUs lock nobody up"),
                move |lab| synchronous_kicks(lab, vcpus),
            )
        })
        .collect()
}

/// Case 24: one queue for all CPUs, so that they contend for its lock; a lockup is a panic.
fn synchronous_kicks(lab: &Lab, vcpus: u32) -> Result<()> {
    let disk = Disk::new("disk", Backend::null(64 << 20))
        .num_queues(1)
        .ioeventfd(false);
    let vm = lab.boot(Vm::builder().vcpus(vcpus).disk(disk))?;
    vm.sh("echo 1 >/proc/sys/kernel/softlockup_panic")?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device("disk")?;
    let seconds = lab.scale(5, 60);
    let report = fio::run(
        &vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randrw --bs=4k --size=64m --numjobs={vcpus} \
             --ioengine=io_uring --iodepth=64 --iodepth_batch_submit=16 --time_based \
             --runtime={seconds}"
        ),
    )?;
    ensure!(report.transfers() > 1000, "fio did but {report:?}");
    expect_idle(&vm, "disk")?;
    vm.shutdown()
}
