// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! QEMU's command line for a guest.

use crate::accel::Chosen;
use crate::builder::VmBuilder;
use crate::devices::Devices;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::root::Root;
use crate::tsc;
use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// The emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";

/// Tag of the root file system's share.
const ROOT_TAG: &str = "root";

/// How often QEMU looks whether a device that died is there again.
const RECONNECT_MS: u32 = 100;

/// First number of the descriptors that QEMU inherits.
const FIRST_FD: i32 = 10;

impl VmBuilder {
    /// QEMU's command line, with the descriptors that it refers to.
    pub fn command_line(
        &self,
        environment: &Environment,
        chosen: &Chosen,
        console: &Path,
        initramfs: Option<&Path>,
        sockets: Sockets,
        devices: &Devices,
    ) -> Result<CommandLine> {
        let mut line = CommandLine::default();
        line.add(["-nodefaults", "-no-user-config", "-display", "none"]);
        if !self.reboots {
            line.add(["-no-reboot"]);
        }
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
        if let Some(initramfs) = initramfs {
            line.add(["-initrd", path(initramfs)?]);
        }
        line.add(["-append", &self.kernel_command_line(chosen)]);
        line.add([
            "-chardev",
            &format!("file,id=console,path={}", path(console)?.replace(',', ",,")),
        ]);
        line.add(["-serial", "chardev:console"]);

        let fd = line.inherit(sockets.monitor);
        line.add(["-chardev", &format!("socket,id=monitor,fd={fd}")]);
        line.add(["-qmp", "chardev:monitor"]);
        for (socket, (tag, slot)) in sockets
            .shares
            .into_iter()
            .zip([(ROOT_TAG, 2), (agent::JOB_TAG, 3)])
        {
            let fd = line.inherit(socket);
            line.add(["-chardev", &format!("socket,id={tag},fd={fd}")]);
            line.add([
                "-device",
                &format!("vhost-user-fs-pci,chardev={tag},tag={tag},addr={slot:#x}"),
            ]);
        }
        let fd = line.inherit(sockets.agent);
        line.add(["-chardev", &format!("socket,id=agent,fd={fd}")]);
        if self.root == Root::Memory {
            line.add(["-device", "isa-serial,chardev=agent,index=1"]);
        } else {
            line.add(["-device", "virtio-serial-pci,addr=0x4"]);
            line.add([
                "-device",
                &format!("virtserialport,chardev=agent,name={}", agent::PORT),
            ]);
        }
        if self.q35 {
            // The ports themselves tell of what is behind them, as those of real machines do.
            line.add([
                "-global",
                "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
            ]);
        }
        self.add_disks(&mut line, devices)?;
        line.arguments.extend(self.qemu_arguments.iter().cloned());
        Ok(line)
    }

    fn machine(&self) -> &'static str {
        if self.microvm {
            // PCI carries our own devices, so that virtio-mmio is left to the disks. Interrupts
            // through the second I/O APIC do not reach this kernel.
            "microvm,ioapic2=off,acpi=on,pcie=on,rtc=on,isa-serial=on,memory-backend=memory"
        } else if self.q35 {
            "q35,memory-backend=memory"
        } else {
            "pc,memory-backend=memory"
        }
    }

    /// The shell mounts the share with the agent in it, because the sysroot is not ours to
    /// write to.
    fn kernel_command_line(&self, chosen: &Chosen) -> String {
        let (tag, folder) = (agent::JOB_TAG, agent::JOB_DIR);
        let mut arguments = self.kernel_arguments.join(" ");
        if !chosen.kvm {
            // On a busy host an emulated processor may see no timer interrupt for so long that the
            // kernel takes the timer to be broken, and panics.
            arguments += " no_timer_check";
            if self.microvm {
                arguments += &format!(" tsc_early_khz={}", tsc::frequency_khz());
            }
        }
        let arguments = arguments.trim();
        match self.root {
            Root::Share => format!(
                "console=ttyS0 panic=-1 rootfstype=virtiofs root={ROOT_TAG} ro {arguments} \
                 init=/bin/sh -- \
                 -c \"busybox mount -t virtiofs {tag} {folder} && exec {folder}/agent\""
            ),
            Root::Memory => {
                let (variable, port) = (agent::PORT_VARIABLE, "/dev/ttyS1");
                format!("console=ttyS0 panic=-1 {arguments} {variable}={port}")
            }
            Root::Disk => format!("console=ttyS0 panic=-1 {arguments}"),
        }
    }

    fn add_disks(&self, line: &mut CommandLine, devices: &Devices) -> Result<()> {
        for (index, disk) in self.disks.iter().enumerate() {
            line.arguments.extend(disk.extra_arguments());
            if let Some((blockdev, memory)) = disk.blockdev(index)? {
                if let Some(memory) = memory {
                    let fd = line.inherit(memory);
                    line.add(["-add-fd", &format!("fd={fd},set={index}")]);
                }
                line.add(["-blockdev", &blockdev.to_string()]);
            }
            if let Some(device) = devices.get(&disk.id) {
                let (id, path) = (disk.chardev(), device.socket());
                let mut chardev = format!("socket,id={id},path={path},abstract=on");
                if disk.device_config().is_some_and(|config| config.reconnects) {
                    chardev += &format!(",reconnect-ms={RECONNECT_MS}");
                }
                line.add(["-chardev", &chardev]);
            }
            let index = index_in_transport(&self.disks, index);
            if let Some(port) = disk.port(index)? {
                line.add(["-device", &port.to_string()]);
            }
            line.add(["-device", &disk.device(index)?.to_string()]);
        }
        Ok(())
    }
}

/// The number of `disks[index]` among the disks of the same transport.
pub fn index_in_transport(disks: &[Disk], index: usize) -> usize {
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
pub struct Sockets {
    pub monitor: OwnedFd,
    pub agent: OwnedFd,
    /// Those of the root file system and of the folder for both, or none.
    pub shares: Vec<OwnedFd>,
}

/// Arguments and descriptors of QEMU.
#[derive(Default)]
pub struct CommandLine {
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
        let mut command = Command::new(QEMU);
        command.args(&self.arguments).stdin(Stdio::null());
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
