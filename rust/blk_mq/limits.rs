// SPDX-License-Identifier: GPL-2.0

//! The limits of a disk.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h) (`struct queue_limits`)

use crate::zones::ZonedLimits;
use bindings_ext as ext;
use kernel::bindings;

/// What a disk can do. Sizes are in bytes; 0 stands for the block layer's default where not said
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The smallest unit that can be addressed: a power of two from 512 to
    /// [`Limits::MAX_BLOCK_SIZE`].
    pub logical_block_size: u32,
    /// The smallest unit that is written without reading first; at least the logical block.
    pub physical_block_size: u32,
    /// Where the first physical block starts.
    pub alignment_offset: u32,
    /// The smallest size of I/O that is efficient.
    pub io_min: u32,
    /// The best size of I/O.
    pub io_opt: u32,
    /// The most segments of one request; at least 1.
    pub max_segments: u16,
    /// The longest segment.
    pub max_segment_size: u32,
    /// The most sectors of 512 bytes that one request discards; 0 if the device cannot.
    pub max_discard_sectors: u32,
    /// The most ranges that one request discards; at least 1 if the device can.
    pub max_discard_segments: u16,
    /// The smallest unit that is discarded, a power of two.
    pub discard_granularity: u32,
    /// The most sectors that one request zeroes; 0 if the device cannot.
    pub max_write_zeroes_sectors: u32,
    /// The most sectors that one request erases; 0 if the device cannot.
    pub max_secure_erase_sectors: u32,
    /// The device has a volatile write cache, which flushes make durable.
    pub write_cache: bool,
    /// The disk is written zone by zone.
    pub zoned: Option<ZonedLimits>,
}

impl Limits {
    /// The largest logical block that the block layer serves, in bytes.
    pub const MAX_BLOCK_SIZE: u32 = ext::BLK_MAX_BLOCK_SIZE;

    /// The limits as the block layer takes them. There is no limit on the length of a request but
    /// that of its segments.
    pub(crate) fn to_raw(self) -> bindings::queue_limits {
        let mut features = ext::BLK_FEAT_ROTATIONAL;
        if self.write_cache {
            features |= ext::BLK_FEAT_WRITE_CACHE;
        }
        let zoned = self.zoned.unwrap_or_default();
        if self.zoned.is_some() {
            features |= ext::BLK_FEAT_ZONED;
        }
        bindings::queue_limits {
            features,
            logical_block_size: self.logical_block_size,
            physical_block_size: self.physical_block_size,
            alignment_offset: self.alignment_offset,
            io_min: self.io_min,
            io_opt: self.io_opt,
            max_segments: self.max_segments,
            max_segment_size: self.max_segment_size,
            max_hw_sectors: u32::MAX,
            max_hw_discard_sectors: self.max_discard_sectors,
            max_discard_segments: self.max_discard_segments,
            discard_granularity: self.discard_granularity,
            max_write_zeroes_sectors: self.max_write_zeroes_sectors,
            max_secure_erase_sectors: self.max_secure_erase_sectors,
            chunk_sectors: zoned.zone_sectors,
            max_open_zones: zoned.max_open_zones,
            max_active_zones: zoned.max_active_zones,
            max_hw_zone_append_sectors: zoned.max_append_sectors,
            zone_write_granularity: zoned.write_granularity,
            ..pin_init::zeroed()
        }
    }
}
