// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A virtio-blk disk as the guest sees it.

use crate::backend::Backend;
use crate::device_config::DeviceConfig;
use anyhow::{bail, Context, Result};
use serde_json::{json, Map, Value};
use std::os::fd::OwnedFd;

/// First PCI slot for disks; those below belong to the chipset and to our own devices.
const FIRST_SLOT: usize = 8;

/// PCI slots for disks: the bus has 32.
const SLOTS: usize = 24;

/// First PCI slot for ports, each with one disk behind it.
const FIRST_PORT: usize = 24;

/// Ports: the last slot of a q35 belongs to its chipset.
const PORTS: usize = 7;

/// Transports that a microvm has.
const MMIO_TRANSPORTS: usize = 8;

/// How the guest reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// virtio-pci, with an interrupt a queue.
    Pci,
    /// virtio-pci behind a port of its own, which can be reset, and whose power can be switched
    /// off; only a q35 has it.
    PciExpress,
    /// virtio-mmio, with one interrupt for all; only a microvm has it.
    Mmio,
}

/// A disk to give to a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    pub(crate) id: String,
    pub(crate) transport: Transport,
    pub(crate) iothread: bool,
    pub(crate) ioeventfd: Option<bool>,
    backend: Backend,
    properties: Map<String, Value>,
}

impl Disk {
    /// A virtio-pci disk with QEMU's defaults. `id` names it for this crate and is its serial
    /// number, of which a guest sees at most 20 bytes.
    pub fn new(id: &str, backend: Backend) -> Self {
        let properties = Map::from_iter([("serial".to_owned(), json!(id))]);
        Self {
            id: id.to_owned(),
            transport: Transport::Pci,
            backend,
            iothread: false,
            ioeventfd: None,
            properties,
        }
    }

    /// The name of the disk.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Chooses the transport.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Number of request queues.
    pub fn num_queues(self, queues: u16) -> Self {
        self.property("num-queues", queues)
    }

    /// Descriptors a queue: a power of two from 4 to 1024.
    pub fn queue_size(self, descriptors: u16) -> Self {
        self.property("queue-size", descriptors)
    }

    /// Whether VIRTIO_F_EVENT_IDX is offered.
    pub fn event_idx(self, offered: bool) -> Self {
        self.property("event_idx", offered)
    }

    /// Whether VIRTIO_F_INDIRECT_DESC is offered.
    pub fn indirect_desc(self, offered: bool) -> Self {
        self.property("indirect_desc", offered)
    }

    /// Whether VIRTIO_F_RING_PACKED is offered.
    pub fn packed(self, offered: bool) -> Self {
        self.property("packed", offered)
    }

    /// Whether a kick goes through an eventfd instead of being handled by the kicking vCPU. With
    /// virtio-mmio it applies to all disks of the guest.
    pub fn ioeventfd(mut self, used: bool) -> Self {
        self.ioeventfd = Some(used);
        self
    }

    /// Whether a thread of its own serves the disk instead of QEMU's main loop.
    pub fn iothread(mut self, used: bool) -> Self {
        self.iothread = used;
        self
    }

    /// Any other property of the QEMU device, such as `("discard", true)`.
    pub fn property(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.properties.insert(name.to_owned(), value.into());
        self
    }

    /// The device's properties, for the record.
    pub fn properties(&self) -> &Map<String, Value> {
        &self.properties
    }

    /// The name of QEMU's block node, for commands such as `block_resize`.
    pub fn node(&self) -> String {
        format!("node-{}", self.id)
    }

    /// The argument of blockdev-add, if QEMU itself holds the content, with the descriptor that it
    /// refers to as `fdset`.
    pub(crate) fn blockdev(&self, fdset: usize) -> Result<Option<(Value, Option<OwnedFd>)>> {
        let blockdev = self
            .backend
            .blockdev(fdset)
            .with_context(|| format!("cannot make disk {}", self.id))?;
        Ok(blockdev.map(|(mut blockdev, memory)| {
            blockdev["node-name"] = json!(self.node());
            (blockdev, memory)
        }))
    }

    /// What the programmable device is, if it holds the content.
    pub(crate) fn device_config(&self) -> Option<&DeviceConfig> {
        match &self.backend {
            Backend::Device(config) => Some(config),
            _ => None,
        }
    }

    /// The name of QEMU's connection to the programmable device.
    pub(crate) fn chardev(&self) -> String {
        format!("chardev-{}", self.id)
    }

    /// The argument of device_add for the disk number `index` of its transport.
    pub(crate) fn device(&self, index: usize) -> Result<Value> {
        let mut device = match self.device_config() {
            Some(config) => {
                let mut device = config.front_end.properties(&self.properties);
                let driver = config.front_end.driver(self.transport);
                device.insert("driver".into(), json!(driver));
                device.insert("chardev".into(), json!(self.chardev()));
                device
            }
            None => {
                let mut device = self.properties.clone();
                let driver = match self.transport {
                    Transport::Pci | Transport::PciExpress => "virtio-blk-pci",
                    Transport::Mmio => "virtio-blk-device",
                };
                device.insert("driver".into(), json!(driver));
                device.insert("drive".into(), json!(self.node()));
                device
            }
        };
        device.insert("id".into(), json!(self.id));
        if self.iothread {
            device.insert("iothread".into(), json!(self.iothread_id()));
        }
        match self.transport {
            Transport::Pci => {
                if index >= SLOTS {
                    bail!("The guest has more than {SLOTS} virtio-pci disks. Use fewer.");
                }
                device.insert("addr".into(), json!(format!("{:#x}", FIRST_SLOT + index)));
                if let Some(used) = self.ioeventfd {
                    device.insert("ioeventfd".into(), json!(used));
                }
            }
            Transport::PciExpress => {
                device.insert("bus".into(), json!(self.port_id()));
                device.insert("addr".into(), json!("0x0"));
                if let Some(used) = self.ioeventfd {
                    device.insert("ioeventfd".into(), json!(used));
                }
            }
            Transport::Mmio => {
                if index >= MMIO_TRANSPORTS {
                    bail!(
                        "The guest has more than {MMIO_TRANSPORTS} virtio-mmio disks. Use fewer."
                    );
                }
                device.insert("bus".into(), json!(format!("virtio-mmio-bus.{index}")));
            }
        }
        Ok(device.into())
    }

    /// The argument of device_add for the port that the disk number `index` of its transport is
    /// behind, if it is behind one.
    pub(crate) fn port(&self, index: usize) -> Result<Option<Value>> {
        if self.transport != Transport::PciExpress {
            return Ok(None);
        }
        if index >= PORTS {
            bail!("The guest has more than {PORTS} PCI Express disks. Use fewer.");
        }
        Ok(Some(json!({
            "driver": "pcie-root-port",
            "id": self.port_id(),
            "addr": format!("{:#x}", FIRST_PORT + index),
            "chassis": index + 1,
            "slot": index + 1,
        })))
    }

    /// Arguments of QEMU that the device refers to.
    pub(crate) fn extra_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if self.iothread {
            arguments.push("-object".into());
            arguments.push(json!({"qom-type": "iothread", "id": self.iothread_id()}).to_string());
        }
        if let (Transport::Mmio, Some(used)) = (self.transport, self.ioeventfd) {
            let state = if used { "on" } else { "off" };
            arguments.push("-global".into());
            arguments.push(format!("virtio-mmio.ioeventfd={state}"));
        }
        arguments
    }

    /// A shell command that prints the name of the virtio device, such as `virtio3`, of the disk
    /// number `index` of its transport. It does not need a driver to be bound.
    pub(crate) fn find_virtio_device(&self, index: usize) -> String {
        match self.transport {
            Transport::Pci => {
                let slot = FIRST_SLOT + index;
                format!("basename /sys/bus/pci/devices/0000:00:{slot:02x}.0/virtio*")
            }
            Transport::PciExpress => {
                let slot = FIRST_PORT + index;
                format!("basename /sys/bus/pci/devices/0000:00:{slot:02x}.0/0000:*/virtio*")
            }
            // The ACPI devices are not numbered in the order of their transports, but each has
            // its transport's number as unique ID.
            Transport::Mmio => format!(
                "for device in /sys/bus/platform/devices/LNRO0005:*; do \
                 read -r uid <$device/firmware_node/uid; \
                 if test \"$uid\" = {index}; then basename $device/virtio*; fi; done"
            ),
        }
    }

    fn port_id(&self) -> String {
        format!("port-{}", self.id)
    }

    fn iothread_id(&self) -> String {
        format!("iothread-{}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_properties() {
        let disk = Disk::new("d", Backend::null(512))
            .num_queues(2)
            .property("discard", true);
        let device = disk.device(1).unwrap();
        assert_eq!(device["num-queues"], 2);
        assert_eq!(device["discard"], true);
        assert_eq!(device["addr"], "0x9");
        assert_eq!(device["serial"], "d");
    }

    #[test]
    fn too_many_disks_are_refused() {
        let disk = Disk::new("d", Backend::null(512));
        assert!(disk.device(SLOTS - 1).is_ok());
        assert!(disk.device(SLOTS).is_err());
        assert!(disk
            .clone()
            .transport(Transport::Mmio)
            .device(MMIO_TRANSPORTS)
            .is_err());
        let express = disk.transport(Transport::PciExpress);
        assert!(express.port(PORTS - 1).is_ok());
        assert!(express.port(PORTS).is_err());
    }
}
