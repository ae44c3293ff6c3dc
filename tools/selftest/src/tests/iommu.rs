// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A device behind an IOMMU reaches what it was given, and nothing else (case 33).

use crate::fio;
use crate::guest::{expect, expect_settled, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use vm::{Backend, Disk, Transport, Vm};

const SPLIT: &str = "split";
const PACKED: &str = "packed";

/// Processors that may come online, fewer than queues.
const CPUS: u64 = 3;

pub fn groups() -> Vec<Group> {
    let group = Group::new("iommu")
        .without_driver()
        .guest(|_| {
            let disk = |id| {
                Disk::new(id, Backend::ram(64 << 20))
                    .transport(Transport::PciExpress)
                    .num_queues(8)
                    .property("iommu_platform", true)
                    .property("disable-legacy", "on")
            };
            Ok(Vm::builder()
                .vcpus(4)
                .qemu_arguments(["-device", "intel-iommu,intremap=off"])
                .kernel_argument("intel_iommu=on iommu.strict=1")
                .kernel_argument(&format!("maxcpus={CPUS}"))
                .disk(disk(SPLIT))
                .disk(disk(PACKED).packed(true)))
        })
        .shared("split rings cause no fault", |lab, vm| {
            no_fault(lab, vm, SPLIT)
        })
        .shared("packed rings cause no fault", |lab, vm| {
            no_fault(lab, vm, PACKED)
        });
    vec![group]
}

/// A mapping that is used before it is there, or after it has gone, is a fault that the IOMMU logs.
fn no_fault(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    // The firmware leaves rings behind that the IOMMU knows nothing of.
    let faults = || vm.sh("dmesg | grep -i 'DMAR:.*fault' || true");
    let before = faults()?;
    vm.load(lab.driver(), "")?;
    let features = vm.features(disk)?;
    let has = |name: &str| features.iter().any(|feature| feature == name);
    ensure!(
        has("VIRTIO_F_ACCESS_PLATFORM"),
        "the device's memory is not translated: {features:?}"
    );
    expect("packed rings", has("VIRTIO_F_RING_PACKED"), disk == PACKED)?;
    let name = vm.block_device(disk)?;
    let device = vm.virtio_device(disk)?;
    let group = vm.sh(&format!(
        "readlink $(readlink -f /sys/bus/virtio/devices/{device}/..)/iommu_group || true"
    ))?;
    ensure!(!group.trim().is_empty(), "no IOMMU translates for {device}");
    let seconds = lab.scale(3, 60);
    fio::run(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bsrange=512-256k --size=8m \
             --numjobs=3 --offset_increment=16m --ioengine=libaio --iodepth=32 --verify=crc32c \
             --time_based --runtime={seconds}"
        ),
    )?;
    let driver = format!("/sys/bus/virtio/drivers/{}", lab.driver());
    vm.sh(&format!(
        "echo {device} >{driver}/unbind && echo {device} >{driver}/bind"
    ))?;
    let name = vm.block_device(disk)?;
    fio::run(vm, secs(60), &fio::verified(&name, 1))?;
    expect_settled(lab, vm, disk)?;
    vm.unload(lab.driver())?;
    expect("the list of faults", faults()?, before)
}
