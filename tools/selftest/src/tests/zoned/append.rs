// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Appends: the device tells where the data went, and who has appended learns it.
//!
//! File systems with zones append, but none of those whose tools are in the guest. So the kernel's
//! NVMe target passes the disk on, and the kernel's NVMe host has it back, for which there is a
//! command to append.

use super::{expect_good, reset, zones, PLAIN, ZONE};
use crate::guest::{expect, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::fs;
use vm::{Vm, JOB_DIR};

/// Bytes of an append.
const BLOCK: u64 = 4096;

/// Adds the tests to a group whose guest has the disk without conventional zones.
pub fn add_to(group: Group) -> Group {
    group
        .shared("appends tell where the data went", appends)
        .shared("an append that fails is an error", failing)
}

/// Has the kernel's NVMe loop pass the disk on, and returns the node of that.
fn connect(vm: &Vm, name: &str) -> Result<String> {
    let node = vm.sh(&format!(
        "set -e
         modprobe nvmet
         modprobe nvme-loop
         cd /sys/kernel/config
         test -d nvmet || busybox mount -t configfs configfs /sys/kernel/config
         cd /sys/kernel/config/nvmet
         mkdir subsystems/zoned
         echo 1 >subsystems/zoned/attr_allow_any_host
         mkdir subsystems/zoned/namespaces/1
         echo -n /dev/{name} >subsystems/zoned/namespaces/1/device_path
         echo 1 >subsystems/zoned/namespaces/1/enable
         mkdir ports/1
         echo loop >ports/1/addr_trtype
         ln -s $PWD/subsystems/zoned ports/1/subsystems/zoned
         echo transport=loop,nqn=zoned >/dev/nvme-fabrics
         for try in $(seq 100); do
             test -e /sys/block/nvme0n1 && break
             sleep 0.1
         done
         ls /dev/nvme0n1"
    ))?;
    Ok(node.trim().to_owned())
}

fn disconnect(vm: &Vm) -> Result<()> {
    vm.sh("set -e
         echo 1 >/sys/class/nvme/nvme0/delete_controller
         cd /sys/kernel/config/nvmet
         rm ports/1/subsystems/zoned
         rmdir ports/1
         echo 0 >subsystems/zoned/namespaces/1/enable
         rmdir subsystems/zoned/namespaces/1 subsystems/zoned")?;
    Ok(())
}

/// What the guest runs to append; prints how many appends did not go where their number says.
fn script(vm: &Vm, node: &str, disk: &str, zone: u64, blocks: u64) -> Result<String> {
    let path = vm.job_dir().join("append.py");
    fs::write(&path, include_str!("append.py"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    let sector = zone * ZONE;
    Ok(format!(
        "python3 {JOB_DIR}/append.py {node} /dev/{disk} {sector} {blocks} 8"
    ))
}

fn appends(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PLAIN)?;
    reset(vm, PLAIN)?;
    let node = connect(vm, &name)?;
    let before = vm.device(PLAIN)?.total()?;
    for zone in 3..lab.scale(5, 20) {
        let blocks = ZONE * 512 / BLOCK;
        vm.sh(&script(vm, &node, &name, zone, blocks)?)?;
        let state = zones(vm, PLAIN)?[zone as usize]["state"].clone();
        expect("the zone", state, json!("full"))?;
    }
    let did = vm.device(PLAIN)?.total()? - before;
    let right = (lab.scale(5, 20) - 3) * ZONE * 512;
    expect("bytes appended", did.bytes_written, right)?;
    expect("appends", did.zone_appends, right / BLOCK)?;
    disconnect(vm)?;
    expect_good(vm, PLAIN)
}

/// A full zone refuses an append, and a device that lies about the place is not believed.
fn failing(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device(PLAIN)?;
    reset(vm, PLAIN)?;
    vm.sh(&format!("blkzone finish -o {} -c 1 /dev/{name}", 3 * ZONE))?;
    let node = connect(vm, &name)?;
    let before = vm.device(PLAIN)?.total()?.zone_refusals;
    let script = script(vm, &node, &name, 3, 1)?;
    let output = vm.try_sh(secs(60), &script)?;
    ensure!(
        output.status != 0 && output.stderr.contains("NVMe status"),
        "an append to a full zone: {output:?}"
    );
    let refused = vm.device(PLAIN)?.total()?.zone_refusals - before;
    ensure!(refused > 0, "the device has refused nothing");
    // The device succeeds, and tells a place that is in no zone.
    let lie = |about: &str| {
        vm.device(PLAIN)?
            .ask(&json!({"command": "lie", "about": about}))
    };
    lie("append")?;
    let script = self::script(vm, &node, &name, 4, 1)?;
    let output = vm.try_sh(secs(60), &script)?;
    ensure!(
        output.status != 0 && output.stderr.contains("NVMe status"),
        "an append to nowhere: {output:?}"
    );
    lie("nothing")?;
    disconnect(vm)?;
    expect_good(vm, PLAIN)
}
