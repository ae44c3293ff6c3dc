// SPDX-License-Identifier: GPL-2.0

//! A driver for virtio block devices (virtio 1.2, section 5.2 "Block Device").
//!
//! | file | holds |
//! |---|---|
//! | `params` | what is decided when a disk is bound |
//! | `settings`, `values`, `named` | the knobs of a disk, and what can be written to them |
//! | `device` | a device: probe, remove, change of capacity |
//! | `fault` | a probe that fails on purpose |
//! | `restart` | a device that is out of service for a while |
//! | `capacity`, `cache` | what is logged of its size; its cache mode |
//! | `config` | its feature bits and the fields of its configuration space |
//! | `limits`, `ranges` | what the disk can do, out of those fields (pure) |
//! | `zones`, `zone_report` | what zoned disks can do, and what they report (pure) |
//! | `zoned` | asking for zones |
//! | `operations` | what the block layer calls |
//! | `queue` | a queue: submission and completion |
//! | `lock` | its lock, and the scope of that |
//! | `ring` | what the lock guards |
//! | `kicks` | the time that notifying the device takes |
//! | `command` | what the block layer asks for, as the device is told |
//! | `request` | header, ranges and status on the ring (pure) |
//! | `questions`, `answers` | what the device tells about itself (the answers are pure) |
//! | `completion` | the completion protocol (pure) |
//! | `suppress` | the mode of interrupt suppression (pure) |
//! | `coalesce` | how long an interrupt may wait (pure) |
//! | `stats`, `histogram`, `history` | a queue's counters (the buckets are pure) |
//! | `debugfs` | the files of counters and status |
//! | `sysfs` | the disk's own attributes |
//! | `index`, `name` | a free `vdX` (the letters are pure) |

#![forbid(unsafe_code)]

// Pure: the host's tests compile the same files.
pub mod answers;
pub mod coalesce;
pub mod completion;
pub mod histogram;
pub mod limits;
pub mod name;
mod named;
pub mod ranges;
pub mod request;
pub mod suppress;
pub mod zone_report;
pub mod zones;

mod cache;
mod capacity;
mod command;
mod config;
mod debugfs;
mod device;
mod fault;
mod history;
mod index;
mod kicks;
mod lock;
mod operations;
mod params;
mod questions;
mod queue;
mod restart;
mod ring;
mod settings;
mod stats;
mod sysfs;
mod values;
mod zoned;

use device::{BlockDriver, Shared};
use kernel::prelude::*;

module! {
    type: VirtioBlk,
    name: "virtio_blk_rs",
    authors: ["The virtio_blk_rs developers"],
    description: "Virtio block driver with switchable interrupt mitigation",
    license: "GPL v2",
}

virtio::device_table! { BLOCK_DEVICES, [virtio::DeviceId::BLOCK] }

#[pin_data]
struct VirtioBlk {
    #[pin]
    _registration: virtio::Registration<BlockDriver>,
}

impl kernel::InPlaceModule for VirtioBlk {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _registration <- virtio::Registration::new(
                <Self as kernel::ModuleMetadata>::NAME,
                module,
                Shared::new()?,
            ),
        })
    }
}
