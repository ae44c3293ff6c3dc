// SPDX-License-Identifier: GPL-2.0

//! A driver for virtio block devices (virtio 1.2, section 5.2 "Block Device").
//!
//! | file | holds |
//! |---|---|
//! | `params` | the module's parameters |
//! | `device` | a device: probe, remove, change of capacity |
//! | `config` | its feature bits and the fields of its configuration space |
//! | `limits` | what the disk can do, out of those fields (pure) |
//! | `operations` | what the block layer calls |
//! | `queue` | a queue: submission and completion |
//! | `ring` | what a queue's lock guards |
//! | `request` | header and status on the ring (pure) |
//! | `completion` | the completion protocol (pure) |
//! | `suppress` | the mode of interrupt suppression (pure) |
//! | `stats`, `histogram` | a queue's counters (the buckets are pure) |
//! | `debugfs` | their files |
//! | `sysfs` | the disk's own attributes |
//! | `index`, `name` | a free `vdX` (the letters are pure) |

#![forbid(unsafe_code)]

// Pure: the host's tests compile the same files.
pub mod completion;
pub mod histogram;
pub mod limits;
pub mod name;
pub mod request;
pub mod suppress;

mod config;
mod debugfs;
mod device;
mod index;
mod operations;
mod params;
mod queue;
mod ring;
mod stats;
mod sysfs;

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
