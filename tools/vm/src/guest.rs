// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What tests and benchmarks ask of a guest: drivers, disks, counts.

use crate::machine::{Vm, MODULE};
use anyhow::{bail, Context, Result};
use counters::{Counters, Interrupts};
use std::fmt;

/// The two drivers for virtio-blk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Driver {
    /// The kernel's own, in C.
    C,
    /// Ours.
    Rust,
}

impl Driver {
    /// Name of the module and of the driver on the virtio bus.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "virtio_blk",
            Self::Rust => "virtio_blk_rs",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Vm {
    /// Loads a driver with module parameters such as `num_request_queues=2`. It binds all disks
    /// that have no driver.
    pub fn load(&self, driver: Driver, parameters: &str) -> Result<()> {
        let command = match driver {
            Driver::C => format!("modprobe {driver} {parameters}"),
            Driver::Rust => {
                let module = &self.environment().module;
                if !self.job_dir().join(MODULE).exists() {
                    bail!(
                        "The driver {} was not built when the guest was booted. Build it with \
                         `make`.",
                        module.display()
                    );
                }
                format!("insmod {}/{MODULE} {parameters}", agent::JOB_DIR)
            }
        };
        self.sh(&command)
            .with_context(|| format!("cannot load {driver}"))?;
        Ok(())
    }

    /// Unloads a driver; its disks vanish.
    pub fn unload(&self, driver: Driver) -> Result<()> {
        self.sh(&format!("rmmod {driver}"))
            .with_context(|| format!("cannot unload {driver}"))?;
        Ok(())
    }

    /// The name of a disk's virtio device, such as `virtio3`. It needs no driver.
    pub fn virtio_device(&self, disk: &str) -> Result<String> {
        let (found, index) = self.find_disk(disk)?;
        let name = self.sh(&found.find_virtio_device(index))?.trim().to_owned();
        if !name.starts_with("virtio") || name.contains('*') {
            bail!("the guest's kernel has found no virtio device for disk {disk}");
        }
        Ok(name)
    }

    /// Waits until a disk has a block device and returns its name, such as `vda`.
    pub fn block_device(&self, disk: &str) -> Result<String> {
        let device = self.virtio_device(disk)?;
        let block = format!("/sys/bus/virtio/devices/{device}/block");
        let script = format!(
            "for try in {{1..200}}; do for name in {block}/*; do name=${{name##*/}}; \
             if test -b \"/dev/$name\"; then echo $name; exit 0; fi; done; sleep 0.05; done; exit 1"
        );
        let name = self
            .sh(&script)
            .with_context(|| format!("no driver has made a block device of disk {disk}"))?;
        Ok(name.trim().to_owned())
    }

    /// Interrupts of a disk since the boot.
    pub fn interrupts(&self, disk: &str) -> Result<Interrupts> {
        let device = self.virtio_device(disk)?;
        Ok(Interrupts::parse(
            &self.sh("cat /proc/interrupts")?,
            &device,
        ))
    }

    /// The Rust driver's counters of a disk, one element a queue.
    pub fn counters(&self, disk: &str) -> Result<Vec<Counters>> {
        let name = self.block_device(disk)?;
        let folder = format!("/sys/kernel/debug/{}/{name}", Driver::Rust);
        let text = self.sh(&format!(
            "cd {folder} && for queue in $(ls -d queue*[0-9] | sort -V); do \
             echo '#'; cat $queue; done"
        ))?;
        text.split("#\n").skip(1).map(Counters::parse).collect()
    }

    /// Names of the features that the driver of a disk has accepted.
    pub fn features(&self, disk: &str) -> Result<Vec<String>> {
        let device = self.virtio_device(disk)?;
        let text = self.sh(&format!("cat /sys/bus/virtio/devices/{device}/features"))?;
        Ok(crate::features::feature_names(&text))
    }

    /// The kernel's log.
    pub fn dmesg(&self) -> Result<String> {
        self.sh("dmesg")
    }
}
