// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Every transport and every age of the interface.

use crate::fio;
use crate::guest::{expect, expect_settled, load_anew, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::Result;
use vm::{Backend, Disk, Transport, Vm};

/// PCI devices: a name, `disable-modern`, `disable-legacy`, and whether the driver finds the
/// interface of virtio 1.
const PCI: [(&str, bool, &str, bool); 3] = [
    ("legacy", true, "off", false),
    ("transitional", false, "off", true),
    ("modern", false, "on", true),
];

pub fn groups() -> Vec<Group> {
    let disk = |id| Disk::new(id, Backend::ram(64 << 20)).num_queues(2);
    let pci = Group::new("transports").guest(move |_| {
        let vm = Vm::builder().vcpus(2);
        Ok(PCI.into_iter().fold(vm, |vm, (id, modern, legacy, _)| {
            vm.disk(
                disk(id)
                    .property("disable-modern", modern)
                    .property("disable-legacy", legacy),
            )
        }))
    });
    let pci = PCI.into_iter().fold(pci, |group, (id, _, _, modern)| {
        group.shared(format!("a {id} device on PCI"), move |lab, vm| {
            works(lab, vm, id, modern)
        })
    });
    let express = Group::new("transports")
        .guest(move |_| {
            let express = disk("express").transport(Transport::PciExpress);
            Ok(Vm::builder().vcpus(2).disk(express))
        })
        .shared("a device on PCI Express", |lab, vm| {
            works(lab, vm, "express", true)
        });
    let mmio = [("legacy", "on", false), ("modern", "off", true)].map(|(age, legacy, modern)| {
        Group::new("transports")
            .guest(move |_| {
                Ok(Vm::builder()
                    .vcpus(2)
                    .disk(disk("mmio").transport(Transport::Mmio))
                    .qemu_arguments(["-global", &format!("virtio-mmio.force-legacy={legacy}")]))
            })
            .shared(format!("a {age} device on virtio-mmio"), move |lab, vm| {
                works(lab, vm, "mmio", modern)
            })
    });
    [pci, express].into_iter().chain(mmio).collect()
}

/// Blocks of all sizes with flushes, before and after the driver has been loaded anew.
fn works(lab: &Lab, vm: &Vm, disk: &str, modern: bool) -> Result<()> {
    let features = vm.features(disk)?;
    let has = features.iter().any(|name| name == "VIRTIO_F_VERSION_1");
    expect("whether the interface is that of virtio 1", has, modern)?;
    for _ in 0..2 {
        let name = vm.block_device(disk)?;
        fio::run(vm, secs(120), &fio::all_sizes(&name, 8))?;
        expect_settled(lab, vm, disk)?;
        load_anew(lab, vm, "")?;
    }
    Ok(())
}
