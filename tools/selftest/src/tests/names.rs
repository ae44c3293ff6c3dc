// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Names of disks beside those of the kernel's own driver.

use crate::guest::{expect, BUS_DRIVER};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::Result;
use vm::{Backend, Disk, Driver, Vm};

const C_DRIVER: &str = "/sys/bus/virtio/drivers/virtio_blk";

/// Disks in the machine whose names run out of letters.
const MANY: usize = 30;

pub fn groups() -> Vec<Group> {
    let beside = Group::new("names")
        .without_driver()
        .guest(|_| {
            let disks = (0..4).map(|n| Disk::new(&id(n), Backend::ram(16 << 20)));
            Ok(disks.fold(Vm::builder(), |vm, disk| vm.disk(disk)))
        })
        .shared(
            "the C driver has vda and vdc: free names are taken",
            beside_the_c_driver,
        )
        .shared(
            "disks move between the drivers and back",
            between_the_drivers,
        );
    let many = Group::new("names").alone("names go on with vdaa after vdz", after_vdz);
    vec![beside, many]
}

fn id(index: usize) -> String {
    format!("disk{index}")
}

/// Demands that the disks have these names, in their order, and that each can be read.
fn expect_names(vm: &Vm, right: &[&str]) -> Result<()> {
    for (index, right) in right.iter().enumerate() {
        let name = vm.block_device(&id(index))?;
        expect(&format!("the name of disk {index}"), name.as_str(), right)?;
        vm.sh(&format!(
            "dd if=/dev/{name} of=/dev/null bs=4k count=1 iflag=direct status=none"
        ))?;
    }
    let count = vm.sh("ls -d /sys/block/vd* | wc -l")?;
    expect(
        "the number of disks",
        count.trim(),
        right.len().to_string().as_str(),
    )
}

/// Gives a disk from one driver to another.
fn give(vm: &Vm, disk: usize, from: &str, to: &str) -> Result<()> {
    let device = vm.virtio_device(&id(disk))?;
    vm.sh(&format!(
        "echo {device} >{from}/unbind && echo {device} >{to}/bind"
    ))?;
    Ok(())
}

/// The C driver counts its disks by itself and does not look whether a name is taken.
fn beside_the_c_driver(_lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::C, "")?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])?;
    for disk in [1, 3] {
        let device = vm.virtio_device(&id(disk))?;
        vm.sh(&format!("echo {device} >{C_DRIVER}/unbind"))?;
    }
    vm.load(Driver::Rust, "")?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])?;
    // Bound in the other order, the same disks get the free names in that order.
    for disk in [1, 3] {
        let device = vm.virtio_device(&id(disk))?;
        vm.sh(&format!("echo {device} >{BUS_DRIVER}/unbind"))?;
    }
    for disk in [3, 1] {
        let device = vm.virtio_device(&id(disk))?;
        vm.sh(&format!("echo {device} >{BUS_DRIVER}/bind"))?;
    }
    expect_names(vm, &["vda", "vdd", "vdc", "vdb"])
}

/// Starts with the state that the test before has left, or makes it.
fn between_the_drivers(_lab: &Lab, vm: &Vm) -> Result<()> {
    vm.sh("rmmod virtio_blk_rs virtio_blk 2>/dev/null || true")?;
    vm.load(Driver::C, "")?;
    vm.load(Driver::Rust, "")?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])?;
    give(vm, 0, C_DRIVER, BUS_DRIVER)?;
    give(vm, 2, C_DRIVER, BUS_DRIVER)?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])?;
    // The C driver takes the lowest number that it has not given out, even if we have that name:
    // so the first of our disks must be the first to go back.
    give(vm, 0, BUS_DRIVER, C_DRIVER)?;
    give(vm, 2, BUS_DRIVER, C_DRIVER)?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])?;
    vm.unload(Driver::Rust)?;
    vm.unload(Driver::C)?;
    vm.load(Driver::Rust, "")?;
    expect_names(vm, &["vda", "vdb", "vdc", "vdd"])
}

/// Each slot of the bus has room for eight functions.
fn after_vdz(lab: &Lab) -> Result<()> {
    let mut vm = Vm::builder();
    let slots = 5;
    for slot in 0..slots {
        vm = vm.disk(Disk::new(&id(slot), Backend::null(1 << 20)).property("multifunction", true));
    }
    for index in slots..MANY {
        // The crate has put the first functions of its slots from 8 up.
        let (slot, function) = (8 + (index - slots) % slots, 1 + (index - slots) / slots);
        vm = vm.qemu_arguments([
            "-blockdev".to_owned(),
            format!("null-co,node-name=extra{index},size=1048576,read-zeroes=on"),
            "-device".to_owned(),
            format!("virtio-blk-pci,drive=extra{index},addr={slot:#x}.{function}"),
        ]);
    }
    let vm = lab.boot(vm)?;
    vm.load(Driver::Rust, "")?;
    // The shorter names come first.
    let names = vm.sh("cd /sys/block && echo vd? vd??")?;
    let letters = ('a'..='z').map(|letter| format!("vd{letter}"));
    let more = ('a'..='z').map(|letter| format!("vda{letter}"));
    let right: Vec<_> = letters.chain(more).take(MANY).collect();
    expect("the list of names", names.trim(), right.join(" ").as_str())?;
    vm.unload(Driver::Rust)?;
    vm.shutdown()
}
