// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A scenario's disk.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use vm::{Backend, DeviceConfig, Disk};

/// Size of a disk.
const SIZE: u64 = 1 << 30;

/// Properties of a disk; what is left out is as QEMU has it, but with one queue.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Request queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<u16>,
    /// Descriptors a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_size: Option<u16>,
    /// Whether VIRTIO_RING_F_EVENT_IDX is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_idx: Option<bool>,
    /// Whether VIRTIO_F_RING_PACKED is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    packed: Option<bool>,
    /// Whether VIRTIO_RING_F_INDIRECT_DESC is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    indirect: Option<bool>,
    /// Whether kicks go through an eventfd.
    #[serde(skip_serializing_if = "Option::is_none")]
    ioeventfd: Option<bool>,
    /// Whether a thread of its own serves the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    iothread: Option<bool>,
    /// Whether it is the programmable device, whose pace the jobs set.
    #[serde(skip_serializing_if = "Option::is_none")]
    paced: Option<bool>,
}

impl Device {
    /// These properties, and those of `base` where there are none.
    pub fn over(&self, base: &Self) -> Self {
        Self {
            queues: self.queues.or(base.queues),
            queue_size: self.queue_size.or(base.queue_size),
            event_idx: self.event_idx.or(base.event_idx),
            packed: self.packed.or(base.packed),
            indirect: self.indirect.or(base.indirect),
            ioeventfd: self.ioeventfd.or(base.ioeventfd),
            iothread: self.iothread.or(base.iothread),
            paced: self.paced.or(base.paced),
        }
    }

    /// Whether jobs set its pace.
    pub fn is_paced(&self) -> bool {
        self.paced == Some(true)
    }

    /// The disk called `id`.
    pub fn disk(&self, id: &str) -> Result<Disk> {
        let backend = match self.is_paced() {
            true => Backend::device(DeviceConfig::null(SIZE)),
            false => Backend::null(SIZE),
        };
        let mut disk = Disk::new(id, backend).num_queues(self.queues.unwrap_or(1));
        if let Some(size) = self.queue_size {
            disk = disk.queue_size(size);
        }
        if let Some(offered) = self.event_idx {
            disk = disk.event_idx(offered);
        }
        if let Some(offered) = self.packed {
            disk = disk.packed(offered);
        }
        if let Some(offered) = self.indirect {
            disk = disk.indirect_desc(offered);
        }
        if let Some(used) = self.ioeventfd {
            disk = disk.ioeventfd(used);
        }
        if let Some(used) = self.iothread {
            disk = disk.iothread(used);
        }
        disk.check()?;
        Ok(disk)
    }
}
