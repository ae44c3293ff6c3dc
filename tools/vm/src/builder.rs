// SPDX-License-Identifier: GPL-2.0

//! Describes a guest and turns the description into QEMU's command line.

use crate::accel::{self, Accel, Chosen};
use crate::disk::{Disk, Transport};
use crate::environment::Environment;
use crate::machine::Vm;
use crate::tsc;
use anyhow::{bail, Context, Result};
use regex::Regex;
use serde_json::json;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";

/// Tag of the root file system's share.
const ROOT_TAG: &str = "root";

/// First number of the descriptors that QEMU inherits.
const FIRST_FD: i32 = 10;

/// A guest that is not booted yet.
#[derive(Debug, Clone)]
pub struct VmBuilder {
    pub(crate) vcpus: u32,
    pub(crate) memory_mib: u32,
    pub(crate) accel: Accel,
    pub(crate) disks: Vec<Disk>,
    pub(crate) microvm: bool,
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

    /// Adds a disk. A disk on virtio-mmio makes the machine a microvm.
    pub fn disk(mut self, disk: Disk) -> Self {
        self.microvm |= disk.transport == Transport::Mmio;
        self.disks.push(disk);
        self
    }

    /// A microvm instead of a PC, even without a disk on virtio-mmio.
    pub fn microvm(mut self) -> Self {
        self.microvm = true;
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

    /// QEMU's command line, with the descriptors that it refers to.
    pub(crate) fn command_line(
        &self,
        environment: &Environment,
        chosen: &Chosen,
        console: &Path,
        sockets: Sockets,
    ) -> Result<CommandLine> {
        let mut line = CommandLine::default();
        line.add([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        line.add(chosen.arguments());
        line.add([
            "-smp",
            &self.vcpus.to_string(),
            "-m",
            &format!("{}M", self.memory_mib),
        ]);
        line.add(["-machine", self.machine()]);
        // vhost-user devices read and write the guest's memory themselves.
        line.add([
            "-object",
            &format!(
                "memory-backend-memfd,id=memory,size={}M,share=on",
                self.memory_mib
            ),
        ]);
        line.add(["-kernel", path(&environment.vmlinuz)?]);
        line.add(["-append", &self.kernel_command_line(chosen)]);
        line.add([
            "-chardev",
            &format!("file,id=console,path={}", path(console)?.replace(',', ",,")),
        ]);
        line.add(["-serial", "chardev:console"]);

        let fd = line.inherit(sockets.monitor);
        line.add(["-chardev", &format!("socket,id=monitor,fd={fd}")]);
        line.add(["-mon", "chardev=monitor,mode=control"]);
        for (tag, socket, slot) in [
            (ROOT_TAG, sockets.root, 2),
            (agent::JOB_TAG, sockets.job, 3),
        ] {
            let fd = line.inherit(socket);
            line.add(["-chardev", &format!("socket,id={tag},fd={fd}")]);
            line.add([
                "-device",
                &format!("vhost-user-fs-pci,chardev={tag},tag={tag},addr={slot:#x}"),
            ]);
        }
        let fd = line.inherit(sockets.agent);
        line.add(["-chardev", &format!("socket,id=agent,fd={fd}")]);
        line.add(["-device", "virtio-serial-pci,addr=0x4"]);
        line.add([
            "-device",
            &format!("virtserialport,chardev=agent,name={}", agent::PORT),
        ]);
        self.add_disks(&mut line)?;
        line.arguments.extend(self.qemu_arguments.iter().cloned());
        Ok(line)
    }

    fn machine(&self) -> &'static str {
        if self.microvm {
            // PCI carries our own devices, so that virtio-mmio is left to the disks. Interrupts
            // through the second I/O APIC do not reach this kernel.
            "microvm,ioapic2=off,acpi=on,pcie=on,rtc=on,isa-serial=on,memory-backend=memory"
        } else {
            "pc,memory-backend=memory"
        }
    }

    /// The shell mounts the share with the agent in it, because the sysroot is not ours to
    /// write to.
    fn kernel_command_line(&self, chosen: &Chosen) -> String {
        let (tag, folder) = (agent::JOB_TAG, agent::JOB_DIR);
        let mut arguments = self.kernel_arguments.join(" ");
        if self.microvm && !chosen.kvm {
            arguments += &format!(" tsc_early_khz={}", tsc::frequency_khz());
        }
        format!(
            "console=ttyS0 panic=-1 rootfstype=virtiofs root={ROOT_TAG} ro {} init=/bin/sh -- \
             -c \"busybox mount -t virtiofs {tag} {folder} && exec {folder}/agent\"",
            arguments.trim()
        )
    }

    fn add_disks(&self, line: &mut CommandLine) -> Result<()> {
        for (index, disk) in self.disks.iter().enumerate() {
            line.arguments.extend(disk.extra_arguments());
            let (blockdev, memory) = disk.blockdev(index)?;
            if let Some(memory) = memory {
                let fd = line.inherit(memory);
                line.add(["-add-fd", &format!("fd={fd},set={index}")]);
            }
            line.add(["-blockdev", &blockdev.to_string()]);
            let device = disk.device(index_in_transport(&self.disks, index))?;
            line.add(["-device", &json!(device).to_string()]);
        }
        Ok(())
    }
}

/// The number of `disks[index]` among the disks of the same transport.
pub(crate) fn index_in_transport(disks: &[Disk], index: usize) -> usize {
    let transport = disks[index].transport;
    disks[..index]
        .iter()
        .filter(|disk| disk.transport == transport)
        .count()
}

fn path(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("the path {} is not UTF-8", path.display()))
}

/// QEMU's ends of the connections to it.
pub(crate) struct Sockets {
    pub monitor: OwnedFd,
    pub agent: OwnedFd,
    pub root: OwnedFd,
    pub job: OwnedFd,
}

/// Arguments and descriptors of QEMU.
#[derive(Default)]
pub(crate) struct CommandLine {
    pub arguments: Vec<String>,
    pub descriptors: Vec<(OwnedFd, i32)>,
}

/// As one would type it; the numbers of inherited descriptors mean nothing there.
impl fmt::Display for CommandLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(QEMU)?;
        for argument in &self.arguments {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@".contains(c);
            if argument.chars().all(plain) {
                write!(formatter, " {argument}")?;
            } else {
                write!(formatter, " '{}'", argument.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

impl CommandLine {
    fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.arguments
            .extend(arguments.into_iter().map(str::to_owned));
    }

    /// Hands a descriptor to QEMU and returns its number there.
    fn inherit(&mut self, descriptor: OwnedFd) -> i32 {
        let number = FIRST_FD + self.descriptors.len() as i32;
        self.descriptors.push((descriptor, number));
        number
    }

    /// The whole command.
    pub fn into_command(self) -> Result<Command> {
        use command_fds::{CommandFdExt, FdMapping};
        let mut command = Command::new(QEMU);
        command
            .args(&self.arguments)
            .stdin(std::process::Stdio::null());
        let mappings = self
            .descriptors
            .into_iter()
            .map(|(parent_fd, child_fd)| FdMapping {
                parent_fd,
                child_fd,
            });
        command
            .fd_mappings(mappings.collect())
            .context("cannot hand the sockets to QEMU")?;
        Ok(command)
    }
}
