// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Disks that threads of QEMU's serve, one or several, while the guest is stopped and goes on.

use crate::fio;
use crate::guest::{expect_settled, secs};
use crate::lab::Lab;
use crate::load::Load;
use crate::suite::Group;
use anyhow::Result;
use serde_json::json;
use std::time::Duration;
use vm::{Backend, Disk, Vm};

/// A disk that one thread serves.
const ONE: &str = "one";

/// A disk whose queues two threads serve.
const MAPPED: &str = "mapped";

pub fn groups() -> Vec<Group> {
    let group = Group::new("iothreads")
        .guest(|_| {
            let disk = |id| Disk::new(id, Backend::ram(64 << 20)).num_queues(4);
            let mapping = json!([{"iothread": "first"}, {"iothread": "second"}]);
            Ok(Vm::builder()
                .vcpus(4)
                .qemu_arguments(["-object", "iothread,id=first"])
                .qemu_arguments(["-object", "iothread,id=second"])
                .disk(disk(ONE).iothread(true))
                .disk(disk(MAPPED).property("iothread-vq-mapping", mapping)))
        })
        .shared("stop and cont only pause the guest", stop_and_cont)
        .shared("every queue of a mapping is served", every_queue);
    vec![group]
}

/// Case 54.
fn stop_and_cont(lab: &Lab, vm: &Vm) -> Result<()> {
    let load = Load::start(vm, &[ONE, MAPPED])?;
    for round in 0..50 {
        vm.monitor().execute("stop", json!({}))?;
        std::thread::sleep(Duration::from_millis(lab.scale(10, 100)));
        vm.monitor().execute("cont", json!({}))?;
        std::thread::sleep(Duration::from_millis(lab.scale(40, 200)));
        if round % 10 == 0 {
            load.goes_on(50)?;
        }
    }
    load.end(lab, 600)
}

fn every_queue(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(MAPPED)?;
    let seconds = lab.scale(2, 60);
    fio::run(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m --numjobs=4 \
             --offset_increment=16m --ioengine=libaio --iodepth=32 --verify=crc32c \
             --cpus_allowed=0-3 --cpus_allowed_policy=split --time_based --runtime={seconds}"
        ),
    )?;
    expect_settled(lab, vm, MAPPED)
}
