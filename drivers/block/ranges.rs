// SPDX-License-Identifier: GPL-2.0

//! What a disk can discard, zero and erase, out of what its configuration space says (virtio 1.2,
//! section 5.2.4 "Device configuration layout").
//!
//! A disk is useful without these operations: where a device says nonsense about one of them, the
//! disk goes without it, and a [`Warning`] says why. The other values are as in [`limits`]. This
//! file is pure: it imports nothing but `core`, so that it is tested on the host as it is.
//!
//! [`limits`]: super::limits

use super::{
    limits::{Limits, MIN_SEGMENT, SECTOR},
    request::RANGE,
};
use core::fmt;

/// The most ranges of a request, however many the device takes.
pub const MAX_RANGES: u16 = 256;

// The ranges of a request are one segment of its data, which every device must take.
const _: () = assert!(MAX_RANGES as usize * RANGE <= MIN_SEGMENT as usize);

/// What the configuration space says about an operation, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The most sectors of a range.
    pub max_sectors: u32,
    /// The most ranges of a request.
    pub max_ranges: u32,
    /// What ranges should be multiples of.
    pub alignment: u32,
}

/// The fields of the configuration space; [`None`] where the feature was not negotiated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// `VIRTIO_BLK_F_DISCARD`.
    pub discard: Option<Fields>,
    /// `max_write_zeroes_sectors` (`VIRTIO_BLK_F_WRITE_ZEROES`). A request has one range only.
    pub write_zeroes: Option<u32>,
    /// `VIRTIO_BLK_F_SECURE_ERASE`.
    pub secure_erase: Option<Fields>,
}

/// What the disk can do. Sectors have 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The most sectors of a discard: at least [`Ranges::discard_granularity`], or 0 if there is
    /// none.
    pub max_discard_sectors: u32,
    /// The most ranges of a discard, from 1 to [`MAX_RANGES`]; 1 if there is none.
    pub max_discard_ranges: u16,
    /// The unit of discards in bytes: a power of two, at least the physical block.
    pub discard_granularity: u32,
    /// The most sectors that are zeroed at a time: at least a logical block, or 0 if none are.
    pub max_write_zeroes_sectors: u32,
    /// The most sectors that are erased at a time: at least a logical block, or 0 if none are.
    pub max_secure_erase_sectors: u32,
}

/// Why the disk goes without an operation that the device offers. The `block` is the smallest
/// piece of the disk that the block layer uses it on, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// `max_discard_sectors` is less than a physical block.
    Discard {
        /// What the device said.
        max_sectors: u32,
        /// What it should say at least.
        block: u32,
    },
    /// `max_write_zeroes_sectors` is less than a logical block.
    WriteZeroes {
        /// What the device said.
        max_sectors: u32,
        /// What it should say at least.
        block: u32,
    },
    /// `max_secure_erase_sectors` is less than a logical block, or one of the other fields is 0,
    /// which the specification forbids.
    SecureErase {
        /// What the device said.
        fields: Fields,
        /// What it should say at least.
        block: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discard { max_sectors, block } => write!(
                f,
                "no discard: max_discard_sectors is {max_sectors}; it must be 0 (no limit) or at \
                 least {block}"
            ),
            Self::WriteZeroes { max_sectors, block } => write!(
                f,
                "no write zeroes: max_write_zeroes_sectors is {max_sectors}; it must be 0 (no \
                 limit) or at least {block}"
            ),
            Self::SecureErase {
                fields:
                    Fields {
                        max_sectors,
                        max_ranges,
                        alignment,
                    },
                block,
            } => write!(
                f,
                "no secure erase: max_secure_erase_sectors is {max_sectors}, max_secure_erase_seg \
                 {max_ranges}, secure_erase_sector_alignment {alignment}; they must be at least \
                 {block}, 1 and 1"
            ),
        }
    }
}

impl Ranges {
    /// Derives what a disk of these `limits` can do, and gives `warn` the reason for each operation
    /// that it goes without although the device offers it.
    pub fn new(config: &Config, limits: &Limits, mut warn: impl FnMut(Warning)) -> Self {
        let secure_erase = config.secure_erase.filter(|fields| {
            let block = limits.logical_block_size / SECTOR;
            let good = fields.max_sectors >= block && fields.max_ranges > 0 && fields.alignment > 0;
            if !good {
                let fields = *fields;
                warn(Warning::SecureErase { fields, block });
            }
            good
        });
        // The block layer has one set of such limits for what it discards and what it erases.
        let both = [config.discard, secure_erase];
        let least = |of: fn(Fields) -> u32| {
            let values = both.into_iter().flatten().map(of);
            values.filter(|value| *value > 0).min()
        };
        let alignment = least(|fields| fields.alignment);
        let max_ranges = match both {
            [None, None] => 1,
            _ => least(|fields| fields.max_ranges).unwrap_or(limits.max_segments.into()),
        };
        let (max_discard_sectors, discard_granularity) = match config.discard {
            Some(fields) => discard(fields.max_sectors, alignment, limits, &mut warn),
            None => (0, limits.physical_block_size),
        };
        Self {
            max_discard_sectors,
            max_discard_ranges: u16::try_from(max_ranges).map_or(MAX_RANGES, |n| n.min(MAX_RANGES)),
            discard_granularity,
            max_write_zeroes_sectors: write_zeroes(config.write_zeroes, limits, &mut warn),
            max_secure_erase_sectors: secure_erase.map_or(0, |fields| fields.max_sectors),
        }
    }
}

/// The most sectors of a discard, and its unit in bytes.
///
/// The alignment is advice. The block layer counts on a power of two, no less than a physical block
/// and no more than the longest discard: it would not split one that is too long otherwise.
fn discard(
    max_sectors: u32,
    alignment: Option<u32>,
    limits: &Limits,
    warn: &mut impl FnMut(Warning),
) -> (u32, u32) {
    let physical = limits.physical_block_size;
    let block = physical / SECTOR;
    let max_sectors = if max_sectors == 0 {
        u32::MAX
    } else {
        max_sectors
    };
    if max_sectors < block {
        warn(Warning::Discard { max_sectors, block });
        return (0, physical);
    }
    let granularity = alignment
        .filter(|sectors| sectors.is_power_of_two() && *sectors <= max_sectors)
        .and_then(|sectors| sectors.checked_mul(SECTOR))
        .map_or(physical, |bytes| bytes.max(physical));
    (max_sectors, granularity)
}

/// The most sectors that are zeroed at a time, in whole blocks: the block layer would fail pieces
/// of another length.
fn write_zeroes(max_sectors: Option<u32>, limits: &Limits, warn: &mut impl FnMut(Warning)) -> u32 {
    let block = limits.logical_block_size / SECTOR;
    match max_sectors {
        None => 0,
        Some(0) => u32::MAX,
        Some(max_sectors) if max_sectors < block => {
            warn(Warning::WriteZeroes { max_sectors, block });
            0
        }
        // The block is a power of two.
        Some(max_sectors) => max_sectors & !(block - 1),
    }
}
