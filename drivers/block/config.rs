// SPDX-License-Identifier: GPL-2.0

//! The device's features, and the fields of its configuration space
//! (`struct virtio_blk_config`; virtio 1.2, sections 5.2.3 and 5.2.4).

use crate::{
    limits::{self, Topology},
    ranges::{self, Fields},
    request::Order,
    values::CacheMode,
    zones,
};
use bindings_ext::virtio_blk_config as C;
use blk_mq::Geometry;
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
        /// The geometry is in `geometry`.
        GEOMETRY = bindings_ext::VIRTIO_BLK_F_GEOMETRY, legacy;
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
        /// The device can forget ranges of the disk.
        DISCARD = bindings_ext::VIRTIO_BLK_F_DISCARD, legacy;
        /// The device can write zeroes by itself.
        WRITE_ZEROES = bindings_ext::VIRTIO_BLK_F_WRITE_ZEROES, legacy;
        /// The device can forget ranges of the disk for good.
        SECURE_ERASE = bindings_ext::VIRTIO_BLK_F_SECURE_ERASE, legacy;
        /// The device may have zones.
        ZONED = bindings_ext::VIRTIO_BLK_F_ZONED, modern;
        /// The device tells how worn it is (`VIRTIO_BLK_F_LIFETIME`, which the kernel's header does
        /// not have).
        LIFETIME = 15, modern;
    }
}

const CAPACITY: Field<u64> = Field::at(offset_of!(C, capacity));
const SIZE_MAX: Gated<u32, Features> = Gated::at(offset_of!(C, size_max), Features::SIZE_MAX);
const SEG_MAX: Gated<u32, Features> = Gated::at(offset_of!(C, seg_max), Features::SEG_MAX);
const CYLINDERS: Gated<u16, Features> =
    Gated::at(offset_of!(C, geometry.cylinders), Features::GEOMETRY);
const HEADS: Gated<u8, Features> = Gated::at(offset_of!(C, geometry.heads), Features::GEOMETRY);
const SECTORS: Gated<u8, Features> = Gated::at(offset_of!(C, geometry.sectors), Features::GEOMETRY);
const BLK_SIZE: Gated<u32, Features> = Gated::at(offset_of!(C, blk_size), Features::BLK_SIZE);
const PHYSICAL_BLOCK_EXP: Gated<u8, Features> =
    Gated::at(offset_of!(C, physical_block_exp), Features::TOPOLOGY);
const ALIGNMENT_OFFSET: Gated<u8, Features> =
    Gated::at(offset_of!(C, alignment_offset), Features::TOPOLOGY);
const MIN_IO_SIZE: Gated<u16, Features> = Gated::at(offset_of!(C, min_io_size), Features::TOPOLOGY);
const OPT_IO_SIZE: Gated<u32, Features> = Gated::at(offset_of!(C, opt_io_size), Features::TOPOLOGY);
const WRITEBACK: Gated<u8, Features> = Gated::at(offset_of!(C, wce), Features::CONFIG_WCE);
const NUM_QUEUES: Gated<u16, Features> = Gated::at(offset_of!(C, num_queues), Features::MQ);
const MAX_DISCARD_SECTORS: Gated<u32, Features> =
    Gated::at(offset_of!(C, max_discard_sectors), Features::DISCARD);
const MAX_DISCARD_SEG: Gated<u32, Features> =
    Gated::at(offset_of!(C, max_discard_seg), Features::DISCARD);
const DISCARD_SECTOR_ALIGNMENT: Gated<u32, Features> =
    Gated::at(offset_of!(C, discard_sector_alignment), Features::DISCARD);
const MAX_WRITE_ZEROES_SECTORS: Gated<u32, Features> = Gated::at(
    offset_of!(C, max_write_zeroes_sectors),
    Features::WRITE_ZEROES,
);
const MAX_SECURE_ERASE_SECTORS: Gated<u32, Features> = Gated::at(
    offset_of!(C, max_secure_erase_sectors),
    Features::SECURE_ERASE,
);
const MAX_SECURE_ERASE_SEG: Gated<u32, Features> =
    Gated::at(offset_of!(C, max_secure_erase_seg), Features::SECURE_ERASE);
const SECURE_ERASE_SECTOR_ALIGNMENT: Gated<u32, Features> = Gated::at(
    offset_of!(C, secure_erase_sector_alignment),
    Features::SECURE_ERASE,
);
const ZONE_SECTORS: Gated<u32, Features> =
    Gated::at(offset_of!(C, zoned.zone_sectors), Features::ZONED);
const MAX_OPEN_ZONES: Gated<u32, Features> =
    Gated::at(offset_of!(C, zoned.max_open_zones), Features::ZONED);
const MAX_ACTIVE_ZONES: Gated<u32, Features> =
    Gated::at(offset_of!(C, zoned.max_active_zones), Features::ZONED);
const MAX_APPEND_SECTORS: Gated<u32, Features> =
    Gated::at(offset_of!(C, zoned.max_append_sectors), Features::ZONED);
const WRITE_GRANULARITY: Gated<u32, Features> =
    Gated::at(offset_of!(C, zoned.write_granularity), Features::ZONED);
const MODEL: Gated<u8, Features> = Gated::at(offset_of!(C, zoned.model), Features::ZONED);

/// The largest capacity in sectors of 512 bytes, `BLK_DEV_MAX_SECTORS`: as many bytes as an offset
/// in a file can count.
const MAX_SECTORS: u64 = i64::MAX as u64 >> 9;

/// The capacity in sectors of 512 bytes.
///
/// # Errors
///
/// `EINVAL` if it is larger than the kernel can address; what the transport reports.
pub(crate) fn capacity(device: &Device) -> Result<u64> {
    let sectors = device.read(&CAPACITY)?;
    if sectors > MAX_SECTORS {
        dev_err!(
            device.as_ref(),
            "a capacity of {sectors} sectors is unusable: it must be at most {MAX_SECTORS}\n"
        );
        return Err(EINVAL);
    }
    Ok(sectors)
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

/// The fields of operations on ranges of the disk.
pub(crate) fn ranges(device: &Device) -> Result<ranges::Config> {
    type Gate = Gated<u32, Features>;
    let fields = |sectors: &Gate, ranges: &Gate, alignment: &Gate| -> Result<Option<Fields>> {
        let max_ranges = device.read_gated(ranges)?.unwrap_or(0);
        let alignment = device.read_gated(alignment)?.unwrap_or(0);
        Ok(device.read_gated(sectors)?.map(|max_sectors| Fields {
            max_sectors,
            max_ranges,
            alignment,
        }))
    };
    Ok(ranges::Config {
        discard: fields(
            &MAX_DISCARD_SECTORS,
            &MAX_DISCARD_SEG,
            &DISCARD_SECTOR_ALIGNMENT,
        )?,
        write_zeroes: device.read_gated(&MAX_WRITE_ZEROES_SECTORS)?,
        secure_erase: fields(
            &MAX_SECURE_ERASE_SECTORS,
            &MAX_SECURE_ERASE_SEG,
            &SECURE_ERASE_SECTOR_ALIGNMENT,
        )?,
    })
}

/// The fields about zones, if the device has them.
pub(crate) fn zones(device: &Device) -> Result<Option<zones::Config>> {
    let Some(model) = device.read_gated(&MODEL)? else {
        return Ok(None);
    };
    Ok(Some(zones::Config {
        model,
        zone_sectors: device.read_gated(&ZONE_SECTORS)?.unwrap_or(0),
        max_open_zones: device.read_gated(&MAX_OPEN_ZONES)?.unwrap_or(0),
        max_active_zones: device.read_gated(&MAX_ACTIVE_ZONES)?.unwrap_or(0),
        max_append_sectors: device.read_gated(&MAX_APPEND_SECTORS)?.unwrap_or(0),
        write_granularity: device.read_gated(&WRITE_GRANULARITY)?.unwrap_or(0),
    }))
}

/// The geometry, if the device has one.
pub(crate) fn geometry(device: &Device) -> Result<Option<Geometry>> {
    if !device.has(Features::GEOMETRY) {
        return Ok(None);
    }
    Ok(Some(Geometry {
        cylinders: device.read_gated(&CYLINDERS)?.unwrap_or(0),
        heads: device.read_gated(&HEADS)?.unwrap_or(0),
        sectors: device.read_gated(&SECTORS)?.unwrap_or(0),
    }))
}

/// The cache mode. One that can be configured says so itself, by a value that is not 0; otherwise a
/// device that can flush is taken to need it.
pub(crate) fn cache_mode(device: &Device) -> Result<CacheMode> {
    let is_volatile = match device.read_gated(&WRITEBACK)? {
        Some(writeback) => writeback != 0,
        None => can_flush(device),
    };
    Ok(if is_volatile {
        CacheMode::WriteBack
    } else {
        CacheMode::WriteThrough
    })
}

/// Asks the device for a cache mode, which it need not heed.
///
/// # Errors
///
/// `EOPNOTSUPP` if the mode cannot be configured; `EIO` if the transport cannot write.
pub(crate) fn set_cache_mode(device: &Device, mode: CacheMode) -> Result {
    device.write_gated(&WRITEBACK, mode as u8)
}

/// Whether the cache mode can be configured.
pub(crate) fn has_cache_modes(device: &Device) -> bool {
    device.has(Features::CONFIG_WCE)
}

/// Whether the device can make durable what has been written.
pub(crate) fn can_flush(device: &Device) -> bool {
    device.has(Features::FLUSH)
}

/// Whether the device tells how worn it is.
pub(crate) fn tells_lifetime(device: &Device) -> bool {
    device.has(Features::LIFETIME)
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
