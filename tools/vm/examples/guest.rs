// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Boots a guest with one disk, runs a script in it and prints what it wrote:
//! `cargo run --example guest -- [--mmio] [--device] [--memory] [--smp=N] 'lsblk; uname -a'`.

use anyhow::Result;
use std::time::Duration;
use vm::{Backend, DeviceConfig, Disk, Root, Transport, Vm};

fn main() -> Result<()> {
    let mut transport = Transport::Pci;
    let mut backend = Backend::null(1 << 30);
    let mut vcpus = 1;
    let mut root = Root::Share;
    let mut script = String::new();
    for argument in std::env::args().skip(1) {
        match argument.strip_prefix("--smp=") {
            Some(number) => vcpus = number.parse()?,
            None if argument == "--mmio" => transport = Transport::Mmio,
            None if argument == "--memory" => root = Root::Memory,
            None if argument == "--device" => {
                backend = Backend::device(DeviceConfig::null(1 << 30));
            }
            None => script = argument,
        }
    }
    let disk = Disk::new("disk", backend).transport(transport);
    let vm = Vm::builder().vcpus(vcpus).root(root).disk(disk).boot()?;
    eprintln!(
        "Booted in {:.1} s under {}.",
        vm.boot_time().as_secs_f64(),
        vm.accel()
    );
    eprintln!("The disk is {}.", vm.virtio_device("disk")?);
    let output = vm.try_sh(Duration::from_secs(300), &script)?;
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    vm.shutdown()?;
    std::process::exit(output.status)
}
