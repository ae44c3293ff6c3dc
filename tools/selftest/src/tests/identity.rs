// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What a device tells about itself when it is asked: serial number, lifetime, geometry.

use crate::guest::{expect, read, secs};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::Duration;
use vm::{Backend, DeviceConfig, Disk, Driver, FrontEnd, Policy, Vm};

/// As long as a serial number can be: nothing ends it.
const LONGEST: &str = "12345678901234567890";

/// Disks by their serial number. QEMU has none for a disk that names none.
const SERIALS: [(&str, &str); 4] = [
    ("short", "abc"),
    ("longest", LONGEST),
    ("spaces", " a b "),
    ("none", ""),
];

pub fn groups() -> Vec<Group> {
    let device = |id, config: DeviceConfig| Disk::new(id, Backend::device(config));
    let group = Group::new("identity")
        .guest(move |_| {
            let ram = || DeviceConfig::ram(16 << 20);
            let vm = Vm::builder();
            let vm = SERIALS.into_iter().fold(vm, |vm, (id, serial)| {
                vm.disk(Disk::new(id, Backend::ram(16 << 20)).property("serial", serial))
            });
            let worn = ram()
                .argument("--lifetime=1,10,4660")
                .front_end(FrontEnd::Test);
            Ok(vm
                .disk(device("no-id", ram().argument("--no-serial")))
                .disk(device("odd", ram()).property("serial", "a\nb\u{e9}"))
                .disk(device("worn", worn))
                .disk(
                    Disk::new("geometry", Backend::ram(16 << 20))
                        .property("cyls", 20)
                        .property("heads", 15)
                        .property("secs", 60),
                ))
        })
        .shared("a serial number of any length is told", serials)
        .shared(
            "a device without a serial number has an empty one",
            no_serial,
        )
        .shared(
            "what is not printable in a serial number is escaped",
            odd_serial,
        )
        .shared("a device tells how worn it is", lifetime)
        .shared("the geometry is the device's, or the usual one", geometry)
        .alone(
            "a question does not keep a disk from going",
            question_and_removal,
        )
        .alone(
            "questions and I/O share a tiny ring",
            questions_on_a_tiny_ring,
        );
    vec![group]
}

fn serial(vm: &Vm, disk: &str) -> Result<String> {
    let name = vm.block_device(disk)?;
    vm.sh(&format!("cat /sys/block/{name}/serial"))
}

fn serials(_lab: &Lab, vm: &Vm) -> Result<()> {
    for (disk, right) in SERIALS {
        let found = serial(vm, disk)?;
        expect(
            &format!("the serial number of {disk}"),
            found.as_str(),
            right,
        )?;
    }
    Ok(())
}

/// The device knows no such question. With the kernel's own driver, reading fails then.
fn no_serial(_lab: &Lab, vm: &Vm) -> Result<()> {
    expect("the serial number", serial(vm, "no-id")?.as_str(), "")?;
    ensure!(
        vm.device("no-id")?.total()?.unsupported > 0,
        "the device was not asked"
    );
    Ok(())
}

fn odd_serial(_lab: &Lab, vm: &Vm) -> Result<()> {
    let found = serial(vm, "odd")?;
    expect("the serial number", found.as_str(), r"a\nb\xc3\xa9")
}

fn lifetime(_lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("worn")?;
    let right = "pre_eol_info 1\ndevice_lifetime_est_typ_a 10\ndevice_lifetime_est_typ_b 4660";
    let found = read(vm, &format!("/sys/block/{name}/lifetime"))?;
    expect("the lifetime", found.as_str(), right)?;
    let name = vm.block_device("short")?;
    vm.sh(&format!("test ! -e /sys/block/{name}/lifetime"))?;
    Ok(())
}

fn geometry(_lab: &Lab, vm: &Vm) -> Result<()> {
    // Cylinders, heads and sectors, and where a partition starts. What QEMU says of a disk without
    // a geometry is what it guesses.
    for (disk, right) in [("geometry", "20 15 60 0"), ("no-id", "16 64 32 0")] {
        let name = vm.block_device(disk)?;
        let found = vm.sh(&format!(
            "python3 -c '
import fcntl, struct
with open(\"/dev/{name}\", \"rb\") as disk:
    answer = fcntl.ioctl(disk, 0x301, bytes(16))
heads, sectors, cylinders, start = struct.unpack(\"BBHxxxxQ\", answer)
print(cylinders, heads, sectors, start)'"
        ))?;
        expect(&format!("the geometry of {disk}"), found.trim(), right)?;
    }
    Ok(())
}

/// Disks go and come while their files are read; each reading ends, with an answer or an error.
fn question_and_removal(lab: &Lab) -> Result<()> {
    let config = DeviceConfig::ram(16 << 20);
    let vm = lab.boot(
        Vm::builder()
            .vcpus(2)
            .disk(Disk::new("d", Backend::device(config))),
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device("d")?;
    // Long enough for a question to be on its way when the disk goes.
    vm.device("d")?.set(&Policy {
        latency_us: 3_000,
        ..Policy::default()
    })?;
    let seconds = lab.scale(6, 60);
    let readers = vm.spawn(
        Duration::from_secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); for reader in 1 2 3; do (
             while test $SECONDS -lt $end; do
                 timeout 20 cat /sys/block/{name}/serial >/dev/null 2>&1
                 test $? -ne 124 || echo a reader hangs
             done) & done; wait"
        ),
    )?;
    let device = vm.virtio_device("d")?;
    vm.sh_for(
        Duration::from_secs(seconds + 60),
        &format!(
            "end=$((SECONDS + {seconds})); cd /sys/bus/virtio/drivers/virtio_blk_rs
             while test $SECONDS -lt $end; do
                 sleep 0.1; echo {device} >unbind; echo {device} >bind
             done"
        ),
    )?;
    expect("what the readers say", readers.wait_ok()?.as_str(), "")?;
    expect("the serial number", serial(&vm, "d")?.as_str(), "d")?;
    vm.shutdown()
}

/// A ring of four has room for one request: questions wait their turn like everybody.
fn questions_on_a_tiny_ring(lab: &Lab) -> Result<()> {
    let scratch = lab.scratch(64 << 20)?;
    let disk = Disk::new("d", scratch.backend())
        .queue_size(4)
        .indirect_desc(false);
    let vm = lab.boot(Vm::builder().vcpus(2).disk(disk))?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device("d")?;
    let fio = crate::fio::start(&vm, secs(90), &crate::fio::verified(&name, 5))?;
    let asked = vm.sh(&format!(
        "end=$((SECONDS + 5)); n=0; while test $SECONDS -lt $end; do
             test \"$(cat /sys/block/{name}/serial)\" = d || exit 1; n=$((n + 1))
         done; echo $n"
    ))?;
    let asked: u64 = asked.trim().parse()?;
    ensure!(asked > 10, "only {asked} questions were answered in 5 s");
    ensure!(fio.finish()?.writes > 0, "fio wrote nothing");
    vm.shutdown()
}
