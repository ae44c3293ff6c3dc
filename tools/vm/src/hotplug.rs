// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Adds disks to a running guest and takes them away.

use crate::command_line::index_in_transport;
use crate::disk::{Disk, Transport};
use crate::machine::Vm;
use anyhow::{bail, Result};
use serde_json::json;

impl Vm {
    /// Plugs a virtio-pci disk in. Its driver, if loaded, finds it at once.
    pub fn plug(&self, disk: Disk) -> Result<()> {
        let mut disks = self.lock_disks();
        disk.check()?;
        if disk.transport != Transport::Pci || !disk.extra_arguments().is_empty() {
            bail!(
                "Disk {} cannot be plugged in: only PCI disks without an iothread.",
                disk.id
            );
        }
        if disks.iter().any(|other| other.id == disk.id) {
            bail!(
                "The guest has or had a disk called {}. Give it an ID of its own.",
                disk.id
            );
        }
        let blockdev = disk.blockdev(disks.len())?;
        if matches!(blockdev, Some((_, Some(_)))) {
            bail!(
                "Disk {} cannot be plugged in: QEMU gets RAM disks at its start.",
                disk.id
            );
        }
        if let Some((blockdev, _)) = blockdev {
            self.monitor().execute("blockdev-add", blockdev)?;
        }
        self.devices()
            .start(self.environment(), self.run_dir(), &disk)?;
        if let Some(device) = self.devices().get(&disk.id) {
            let address = json!({"type": "unix", "data": {
                "path": device.socket(),
                "abstract": true,
            }});
            let socket = json!({"addr": address, "server": false});
            let chardev = json!({
                "id": disk.chardev(),
                "backend": {"type": "socket", "data": socket},
            });
            self.monitor().execute("chardev-add", chardev)?;
        }
        disks.push(disk);
        let index = disks.len() - 1;
        let device = disks[index].device(index_in_transport(&disks, index))?;
        self.monitor().execute("device_add", device)?;
        Ok(())
    }

    /// Asks the guest to let a disk go, and waits until it has.
    pub fn unplug(&self, id: &str) -> Result<()> {
        let (disk, _) = self.find_disk(id)?;
        self.monitor().execute("device_del", json!({"id": id}))?;
        while self.monitor().wait_for_event("DEVICE_DELETED")?["device"] != id {}
        if disk.device_config().is_some() {
            self.monitor()
                .execute("chardev-remove", json!({"id": disk.chardev()}))?;
            self.devices().remove(id);
        } else {
            self.monitor()
                .execute("blockdev-del", json!({"node-name": disk.node()}))?;
        }
        Ok(())
    }
}
