// SPDX-License-Identifier: GPL-2.0

//! The device's features, and the fields of its configuration space
//! (`struct virtio_blk_config`; virtio 1.2, sections 5.2.3 and 5.2.4).

use crate::{
    limits::{self, Topology},
    request::Order,
};
use bindings_ext::virtio_blk_config as C;
use core::mem::offset_of;
use kernel::prelude::*;
use virtio::{
    config::{Field, Gated},
    transport, Device,
};

virtio::feature_table! {
    /// The features that this driver knows.
    pub(crate) struct Features {
        /// The longest segment is in `size_max`.
        SIZE_MAX = bindings_ext::VIRTIO_BLK_F_SIZE_MAX, legacy;
        /// The most segments of a request are in `seg_max`.
        SEG_MAX = bindings_ext::VIRTIO_BLK_F_SEG_MAX, legacy;
        /// The device is read-only.
        RO = bindings_ext::VIRTIO_BLK_F_RO, legacy;
        /// The logical block is in `blk_size`.
        BLK_SIZE = bindings_ext::VIRTIO_BLK_F_BLK_SIZE, legacy;
        /// The device can make its cache durable.
        FLUSH = bindings_ext::VIRTIO_BLK_F_FLUSH, legacy;
        /// The topology fields are there.
        TOPOLOGY = bindings_ext::VIRTIO_BLK_F_TOPOLOGY, legacy;
        /// The cache mode is in `writeback`.
        CONFIG_WCE = bindings_ext::VIRTIO_BLK_F_CONFIG_WCE, legacy;
        /// The number of queues is in `num_queues`.
        MQ = bindings_ext::VIRTIO_BLK_F_MQ, legacy;
    }
}

const CAPACITY: Field<u64> = Field::at(offset_of!(C, capacity));
const SIZE_MAX: Gated<u32, Features> = Gated::at(offset_of!(C, size_max), Features::SIZE_MAX);
const SEG_MAX: Gated<u32, Features> = Gated::at(offset_of!(C, seg_max), Features::SEG_MAX);
const BLK_SIZE: Gated<u32, Features> = Gated::at(offset_of!(C, blk_size), Features::BLK_SIZE);
const PHYSICAL_BLOCK_EXP: Gated<u8, Features> =
    Gated::at(offset_of!(C, physical_block_exp), Features::TOPOLOGY);
const ALIGNMENT_OFFSET: Gated<u8, Features> =
    Gated::at(offset_of!(C, alignment_offset), Features::TOPOLOGY);
const MIN_IO_SIZE: Gated<u16, Features> = Gated::at(offset_of!(C, min_io_size), Features::TOPOLOGY);
const OPT_IO_SIZE: Gated<u32, Features> = Gated::at(offset_of!(C, opt_io_size), Features::TOPOLOGY);
const WRITEBACK: Gated<u8, Features> = Gated::at(offset_of!(C, wce), Features::CONFIG_WCE);
const NUM_QUEUES: Gated<u16, Features> = Gated::at(offset_of!(C, num_queues), Features::MQ);

/// The capacity in sectors of 512 bytes.
pub(crate) fn capacity(device: &Device) -> Result<u64> {
    device.read(&CAPACITY)
}

/// The number of queues, if the device can have several.
pub(crate) fn num_queues(device: &Device) -> Result<Option<u16>> {
    device.read_gated(&NUM_QUEUES)
}

/// The fields that limits come from.
pub(crate) fn limits(device: &Device) -> Result<limits::Config> {
    let topology = if device.has(Features::TOPOLOGY) {
        Some(Topology {
            physical_block_exp: device.read_gated(&PHYSICAL_BLOCK_EXP)?.unwrap_or(0),
            alignment_offset: device.read_gated(&ALIGNMENT_OFFSET)?.unwrap_or(0),
            min_io_size: device.read_gated(&MIN_IO_SIZE)?.unwrap_or(0),
            opt_io_size: device.read_gated(&OPT_IO_SIZE)?.unwrap_or(0),
        })
    } else {
        None
    };
    Ok(limits::Config {
        seg_max: device.read_gated(&SEG_MAX)?,
        size_max: device.read_gated(&SIZE_MAX)?,
        blk_size: device.read_gated(&BLK_SIZE)?,
        topology,
    })
}

/// Whether the device has a volatile write cache. A cache mode that can be configured says so
/// itself; otherwise a device that can flush is taken to need it.
pub(crate) fn has_write_cache(device: &Device) -> Result<bool> {
    Ok(match device.read_gated(&WRITEBACK)? {
        Some(writeback) => writeback != 0,
        None => device.has(Features::FLUSH),
    })
}

/// Whether the device can only be read.
pub(crate) fn is_read_only(device: &Device) -> bool {
    device.has(Features::RO)
}

/// The byte order of requests.
pub(crate) fn order(device: &Device) -> Order {
    if device.has_transport(transport::VERSION_1) {
        Order::Little
    } else {
        Order::Native
    }
}
