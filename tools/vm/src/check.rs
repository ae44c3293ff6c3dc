// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Checks the options of a disk.

use crate::disk::Disk;
use anyhow::{bail, Result};
use serde_json::{json, Value};

impl Disk {
    /// Checks what QEMU would refuse with a message that names no remedy.
    pub fn check(&self) -> Result<()> {
        let number = |name| self.properties().get(name).and_then(Value::as_u64);
        if let Some(size) = number("queue-size") {
            if !size.is_power_of_two() || !(4..=1024).contains(&size) {
                bail!(
                    "The queue size {size} of disk {} is not possible. Choose a power of two \
                     from 4 to 1024.",
                    self.id
                );
            }
        }
        if let Some(queues) = number("num-queues") {
            if !(1..=64).contains(&queues) {
                bail!(
                    "The number of queues {queues} of disk {} is not possible. Choose 1 to 64.",
                    self.id
                );
            }
        }
        if self.iothread && self.ioeventfd == Some(false) {
            bail!(
                "Disk {} cannot have an iothread without ioeventfd: kicks reach an iothread only \
                 through an eventfd. Leave one of the two options out.",
                self.id
            );
        }
        if self.device_config().is_some() {
            if self.iothread || self.ioeventfd == Some(false) {
                bail!(
                    "Disk {} is a process of its own, which needs ioeventfd and no iothread. Leave \
                     these options out.",
                    self.id
                );
            }
            if self.properties().get("packed") == Some(&json!(true)) {
                bail!(
                    "Disk {} cannot have packed rings: the programmable device has none. Leave \
                     the option out.",
                    self.id
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::device_config::DeviceConfig;

    #[test]
    fn bad_values_are_named_with_their_range() {
        for (disk, words) in [
            (
                Disk::new("d", Backend::null(1)).queue_size(2),
                ["2", "4 to 1024"],
            ),
            (
                Disk::new("d", Backend::null(1)).queue_size(48),
                ["48", "power of two"],
            ),
            (
                Disk::new("d", Backend::null(1)).num_queues(0),
                ["0", "1 to 64"],
            ),
            (
                Disk::new("d", Backend::null(1))
                    .iothread(true)
                    .ioeventfd(false),
                ["iothread", "Leave one"],
            ),
            (
                Disk::new("d", Backend::device(DeviceConfig::null(512))).iothread(true),
                ["process", "no iothread"],
            ),
            (
                Disk::new("d", Backend::device(DeviceConfig::null(512))).packed(true),
                ["packed", "Leave"],
            ),
        ] {
            let message = disk.check().unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
