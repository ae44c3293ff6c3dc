// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Disks are plugged in and out while they are in use, with everything switched on.

use crate::fio;
use crate::guest::{load_anew, secs, set, wait_for_requests, wait_until};
use crate::lab::Lab;
use crate::open_disk::OpenDisk;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::Instant;
use vm::{Disk, Vm};

pub fn groups() -> Vec<Group> {
    let mut group = Group::new("hotplug")
        .guest(|_| Ok(Vm::builder().vcpus(2)))
        .shared("a busy, open disk is pulled out", |lab, vm| {
            pull_out(lab, vm, "busy", false)
        })
        .shared(
            "a busy, open disk on packed rings is pulled out",
            |lab, vm| pull_out(lab, vm, "packed", true),
        );
    // One queue of each kind.
    group.driver = Some("poll_queues=1".to_owned());
    vec![group]
}

/// The guest agrees to let the disk go, and all I/O through it fails, on queues of both kinds,
/// while requests wait for timers and a descriptor stays open.
fn pull_out(lab: &Lab, vm: &Vm, kind: &str, packed: bool) -> Result<()> {
    let scratch = lab.scratch(64 << 20)?;
    for cycle in 0..lab.scale(3, 50) {
        let id = format!("{kind}{cycle}");
        let disk = Disk::new(&id, scratch.backend()).num_queues(2);
        vm.plug(disk.packed(packed))?;
        wait_until("the guest has found the disk", secs(20), || {
            Ok(vm.virtio_device(&id).is_ok())
        })?;
        let name = vm.block_device(&id)?;
        if lab.is_ours() {
            let method = ["timer", "event"][cycle % 2];
            let wait = [("coalesce_usecs", "100000"), ("coalesce_method", method)];
            set(vm, &name, &wait)?;
        }
        let open = OpenDisk::open(vm, &id)?;
        let loads = [
            fio::start_polling(vm, &name)?,
            fio::start_endless(vm, &name)?,
        ];
        wait_for_requests(vm, &id, 500)?;
        let started = Instant::now();
        vm.unplug(&id)?;
        for load in loads {
            load.fails()?;
        }
        ensure!(
            started.elapsed() < secs(20),
            "it took {:?} until the disk was gone",
            started.elapsed()
        );
        open.expect_gone(vm)?;
        vm.check()?;
    }
    load_anew(lab, vm, "poll_queues=1")
}
