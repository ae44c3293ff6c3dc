// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Describes a guest.

use crate::accel::{self, Accel};
use crate::disk::{Disk, Transport};
use crate::environment::Environment;
use crate::machine::Vm;
use crate::root::Root;
use anyhow::{bail, Context, Result};
use regex::Regex;
use std::path::PathBuf;
use std::time::Duration;

/// A guest that is not booted yet.
#[derive(Debug, Clone)]
pub struct VmBuilder {
    pub(crate) vcpus: u32,
    pub(crate) memory_mib: u32,
    pub(crate) accel: Accel,
    pub(crate) disks: Vec<Disk>,
    pub(crate) microvm: bool,
    pub(crate) q35: bool,
    pub(crate) root: Root,
    pub(crate) reboots: bool,
    pub(crate) kernel_arguments: Vec<String>,
    pub(crate) qemu_arguments: Vec<String>,
    pub(crate) boot_timeout: Duration,
    pub(crate) console_log: Option<PathBuf>,
    pub(crate) tolerated: Vec<Regex>,
}

impl Default for VmBuilder {
    fn default() -> Self {
        Self {
            vcpus: 1,
            memory_mib: 1024,
            accel: Accel::Auto,
            disks: Vec::new(),
            microvm: false,
            q35: false,
            root: Root::default(),
            reboots: false,
            kernel_arguments: Vec::new(),
            qemu_arguments: Vec::new(),
            boot_timeout: Duration::from_secs(120),
            console_log: None,
            tolerated: Vec::new(),
        }
    }
}

impl VmBuilder {
    /// Number of processors.
    pub fn vcpus(mut self, vcpus: u32) -> Self {
        self.vcpus = vcpus;
        self
    }

    /// Memory in MiB.
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// How the processor is made; by KVM if it works, else by TCG, unless told otherwise.
    pub fn accel(mut self, accel: Accel) -> Self {
        self.accel = accel;
        self
    }

    /// Adds a disk. A disk on virtio-mmio makes the machine a microvm, one on PCI Express a q35.
    pub fn disk(mut self, disk: Disk) -> Self {
        self.microvm |= disk.transport == Transport::Mmio;
        self.q35 |= disk.transport == Transport::PciExpress;
        self.disks.push(disk);
        self
    }

    /// A microvm instead of a PC, even without a disk on virtio-mmio.
    pub fn microvm(mut self) -> Self {
        self.microvm = true;
        self
    }

    /// A q35 instead of a PC, even without a disk on PCI Express: a machine that may have an IOMMU.
    pub fn q35(mut self) -> Self {
        self.q35 = true;
        self
    }

    /// Where the root file system is.
    pub fn root(mut self, root: Root) -> Self {
        self.root = root;
        self
    }

    /// Lets the guest reboot, which ends it otherwise. See [`Vm::wait_for_boot`].
    pub fn reboots(mut self) -> Self {
        self.reboots = true;
        self
    }

    /// Adds one argument to the kernel's command line.
    pub fn kernel_argument(mut self, argument: &str) -> Self {
        self.kernel_arguments.push(argument.to_owned());
        self
    }

    /// Adds arguments to QEMU's command line.
    pub fn qemu_arguments<S: Into<String>>(
        mut self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        self.qemu_arguments
            .extend(arguments.into_iter().map(Into::into));
        self
    }

    /// How long the guest may take until its agent reports.
    pub fn boot_timeout(mut self, limit: Duration) -> Self {
        self.boot_timeout = limit;
        self
    }

    /// Logs the console to `path`, which stays, instead of a file that goes with the guest.
    pub fn console_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.console_log = Some(path.into());
        self
    }

    /// Lines of the console that match `pattern` are expected and no trouble.
    pub fn tolerate(mut self, pattern: &str) -> Result<Self> {
        let pattern =
            Regex::new(pattern).with_context(|| format!("{pattern:?} is no regular expression"))?;
        self.tolerated.push(pattern);
        Ok(self)
    }

    /// Boots the guest.
    pub fn boot(self) -> Result<Vm> {
        self.check()?;
        let environment = Environment::from_env()?;
        let chosen = accel::choose(self.accel, &environment)?;
        Vm::boot(self, environment, chosen)
    }

    fn check(&self) -> Result<()> {
        if !(1..=64).contains(&self.vcpus) {
            bail!(
                "A guest with {} vCPUs is not possible. Choose 1 to 64.",
                self.vcpus
            );
        }
        if self.microvm && (self.q35 || self.root == Root::Disk) {
            bail!(
                "A guest with disks on virtio-mmio cannot be a q35 or boot from a disk. Use two \
                 guests."
            );
        }
        if !(256..=16384).contains(&self.memory_mib) {
            bail!(
                "A guest with {} MiB is not possible. Choose 256 to 16384.",
                self.memory_mib
            );
        }
        for (index, disk) in self.disks.iter().enumerate() {
            disk.check()?;
            if self.disks[..index].iter().any(|other| other.id == disk.id) {
                bail!(
                    "Two disks are called {}. Give each an ID of its own.",
                    disk.id
                );
            }
        }
        Ok(())
    }
}
