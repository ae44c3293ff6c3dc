// SPDX-License-Identifier: GPL-2.0

//! Both drivers in one guest, taking turns on its disks.
//!
//! Both modules are loaded once. To change the driver of a disk, the disk is unbound from one and
//! bound to the other, so that addresses, memory layout and everything else stay as they were. A
//! driver's parameters are set before it binds a disk, because some count only then.

use anyhow::{Context, Result};
use vm::{Driver, Vm};

/// Module parameters by name.
pub type Knobs = Vec<(String, String)>;

/// Folder of the guest with the values that parameters had when the modules were loaded.
const DEFAULTS: &str = "/run/parameters";

/// The virtio bus in sysfs.
const BUS: &str = "/sys/bus/virtio";

/// Loads `driver`, takes all of `disks` away from it, and notes its parameters' defaults.
pub fn load(vm: &Vm, driver: Driver, disks: &[&str]) -> Result<()> {
    vm.load(driver, "")?;
    vm.sh(&format!(
        "mkdir -p {DEFAULTS} && cp -r /sys/module/{driver}/parameters {DEFAULTS}/{driver}"
    ))?;
    disks.iter().try_for_each(|disk| unbind(vm, disk))
}

/// Takes a disk away from whatever driver has it.
pub fn unbind(vm: &Vm, disk: &str) -> Result<()> {
    let device = vm.virtio_device(disk)?;
    vm.sh(&format!(
        "if test -e {BUS}/devices/{device}/driver; then \
         echo {device} > {BUS}/devices/{device}/driver/unbind; fi"
    ))?;
    Ok(())
}

/// Gives a disk to `driver` with these parameters and the defaults of all others. Returns the
/// name of its block device, such as `vda`.
pub fn bind(vm: &Vm, disk: &str, driver: Driver, knobs: &Knobs) -> Result<String> {
    unbind(vm, disk)?;
    set(vm, driver, knobs)?;
    let device = vm.virtio_device(disk)?;
    vm.sh(&format!("echo {device} > {BUS}/drivers/{driver}/bind"))
        .with_context(|| format!("cannot bind disk {disk} to {driver}"))?;
    vm.block_device(disk)
}

fn set(vm: &Vm, driver: Driver, knobs: &Knobs) -> Result<()> {
    let mut script = format!(
        "set -e; cd /sys/module/{driver}/parameters; \
         for name in $(find -type f -perm -200 -printf '%f\n'); do \
         cmp -s {DEFAULTS}/{driver}/$name $name || cat {DEFAULTS}/{driver}/$name > $name; done;"
    );
    for (name, value) in knobs {
        // The kernel's log says which values would be right.
        script += &format!(
            " test -e {name} || {{ echo \"{driver} has no parameter {name}. It has:\" * >&2; \
             exit 1; }}; echo {value} > {name} || {{ dmesg | tail -n 1 >&2; exit 1; }};"
        );
    }
    vm.sh(&script)
        .with_context(|| format!("cannot set the parameters of {driver}: {}", words(knobs)))?;
    Ok(())
}

/// The parameters as a person would write them.
fn words(knobs: &Knobs) -> String {
    let words = knobs.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_read_as_one_writes_them() {
        let knobs = vec![
            ("suppress".to_owned(), "loop".to_owned()),
            ("batch".to_owned(), "0".to_owned()),
        ];
        assert_eq!(words(&knobs), "suppress=loop batch=0");
    }
}
