// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

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
    // Only those that can be changed: the others need not be changed back.
    vm.sh(&format!(
        "mkdir -p {DEFAULTS}/{driver} && cd /sys/module/{driver}/parameters && \
         find . -type f -perm -200 -exec cp {{}} {DEFAULTS}/{driver}/ \\;"
    ))?;
    disks.iter().try_for_each(|disk| unbind(vm, disk))
}

/// Takes a disk away from whatever driver has it.
pub fn unbind(vm: &Vm, disk: &str) -> Result<()> {
    vm.sh(&unbinding(&vm.virtio_device(disk)?))?;
    Ok(())
}

/// Gives a disk to `driver` with these parameters and the defaults of all others. Returns the
/// name of its block device, such as `vda`.
pub fn bind(vm: &Vm, disk: &str, driver: Driver, knobs: &Knobs) -> Result<String> {
    let device = vm.virtio_device(disk)?;
    let (unbinding, setting) = (unbinding(&device), setting(driver, knobs));
    // One script, with as few programs as possible: it runs before each measured job.
    let script = format!(
        "set -e; {unbinding}; {setting} echo {device} > {BUS}/drivers/{driver}/bind; \
         for try in {{1..200}}; do for path in {BUS}/devices/{device}/block/*; do \
         if test -b /dev/${{path##*/}}; then echo ${{path##*/}}; exit 0; fi; done; \
         sleep 0.05; done; echo 'no block device has appeared' >&2; exit 1"
    );
    let name = vm.sh(&script).with_context(|| {
        let words = words(knobs);
        format!("cannot bind disk {disk} to {driver} with {words}")
    })?;
    Ok(name.trim().to_owned())
}

fn unbinding(device: &str) -> String {
    let bound = format!("{BUS}/devices/{device}/driver");
    format!("if test -e {bound}; then echo {device} > {bound}/unbind; fi")
}

/// Commands that set parameters, each with a semicolon.
fn setting(driver: Driver, knobs: &Knobs) -> String {
    let mut script = format!(
        "cd /sys/module/{driver}/parameters; for file in {DEFAULTS}/{driver}/*; do \
         name=${{file##*/}}; \
         if test \"$(<$file)\" != \"$(<$name)\"; then echo \"$(<$file)\" > $name; fi; done;"
    );
    for (name, value) in knobs {
        // The kernel's log says which values would be right.
        script += &format!(
            " test -e {name} || {{ echo \"{driver} has no parameter {name}. It has:\" * >&2; \
             exit 1; }}; echo {value} > {name} || {{ dmesg | tail -n 1 >&2; exit 1; }};"
        );
    }
    script
}

/// The parameters as a person would write them.
fn words(knobs: &Knobs) -> String {
    if knobs.is_empty() {
        return "default parameters".to_owned();
    }
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
        assert_eq!(words(&Vec::new()), "default parameters");
    }
}
