// SPDX-License-Identifier: GPL-2.0

//! What a disk can do, out of what its configuration space says (virtio 1.2, section 5.2.4 "Device
//! configuration layout").
//!
//! The device may say anything: every value is checked, and either used, or replaced by a default
//! where that is harmless, or refused with an error that says which value and why. This file is
//! pure: it imports nothing but `core`, so that it is tested on the host as it is.

use super::named::named;
use core::fmt;

named! {
    /// How requests are described to the device.
    pub enum Indirect: "auto, on, off" {
        /// By descriptors of the ring where it is deep enough, else as [`Indirect::On`].
        #[default]
        Auto = "auto",
        /// By a table of descriptors each, where the device can read that.
        On = "on",
        /// By descriptors of the ring, always.
        Off = "off",
    }
}

impl Indirect {
    /// Whether requests on `ring`, which could have tables, should have them.
    ///
    /// A table is memory to be allocated and freed for each request. Descriptors of the ring cost
    /// nothing, but a short request takes three of them, so a shallow ring would hold less.
    pub const fn is_wanted(self, ring: Ring) -> bool {
        match self {
            Self::Auto => ring.size < SHORT_DESCRIPTORS * DEEP,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// The smallest block, and the unit of capacity and of sector numbers, in bytes.
pub const SECTOR: u32 = 512;

/// The smallest `size_max` that the block layer can serve, in bytes: it moves whole pages.
pub const MIN_SEGMENT: u32 = 4096;

/// The descriptors of a request whose data is one segment.
const SHORT_DESCRIPTORS: u32 = 3;

/// How many short requests a ring must hold without tables to be deep: as many as one of the usual
/// size, 256, holds with them.
const DEEP: u32 = 256;

/// The descriptors of a request beside its data: header and status.
const FRAME_DESCRIPTORS: u32 = 2;

/// The topology fields, which come with `VIRTIO_BLK_F_TOPOLOGY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The binary logarithm of the logical blocks in a physical one.
    pub physical_block_exp: u8,
    /// The offset of the first aligned logical block.
    pub alignment_offset: u8,
    /// The smallest efficient size of I/O, in logical blocks.
    pub min_io_size: u16,
    /// The best size of I/O, in logical blocks.
    pub opt_io_size: u32,
}

/// The fields of the configuration space that limits come from; [`None`] where the feature was not
/// negotiated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// The most data segments of one request (`VIRTIO_BLK_F_SEG_MAX`).
    pub seg_max: Option<u32>,
    /// The longest segment in bytes (`VIRTIO_BLK_F_SIZE_MAX`).
    pub size_max: Option<u32>,
    /// The logical block in bytes (`VIRTIO_BLK_F_BLK_SIZE`).
    pub blk_size: Option<u32>,
    /// The topology (`VIRTIO_BLK_F_TOPOLOGY`).
    pub topology: Option<Topology>,
}

/// The ring that requests go through.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// The number of descriptors.
    pub size: u32,
    /// A request takes one descriptor, whatever its length.
    pub indirect: bool,
}

/// What the machine sets bounds to.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The longest segment in bytes that can be mapped for the device.
    pub max_dma_size: usize,
    /// The largest logical block in bytes that the block layer serves.
    pub max_block_size: u32,
}

/// The limits of a disk. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The logical block: a power of two, at least [`SECTOR`].
    pub logical_block_size: u32,
    /// The physical block: a power of two, at least the logical one.
    pub physical_block_size: u32,
    /// Where the first physical block starts.
    pub alignment_offset: u32,
    /// The smallest efficient size of I/O; 0 if unknown.
    pub io_min: u32,
    /// The best size of I/O; 0 if unknown.
    pub io_opt: u32,
    /// The most data segments of one request; at least 1, and a request of so many fits the ring.
    pub max_segments: u16,
    /// The longest segment; at least [`MIN_SEGMENT`].
    pub max_segment_size: u32,
}

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `blk_size` is no power of two between the sector and the block layer's largest block.
    BlockSize {
        /// What the device said, in bytes.
        blk_size: u32,
        /// The largest block, in bytes.
        max: u32,
    },
    /// Segments would be shorter than [`MIN_SEGMENT`].
    SegmentSize {
        /// The longest segment allowed, in bytes.
        size: u32,
    },
    /// A request could not hold as much as one logical block.
    RequestSize {
        /// The most bytes of a request.
        bytes: u64,
        /// The logical block in bytes.
        blk_size: u32,
    },
    /// The ring cannot hold a request with data.
    RingTooSmall {
        /// The number of descriptors.
        size: u32,
    },
    /// `VIRTIO_BLK_F_MQ` was negotiated, but `num_queues` is 0.
    NoQueues,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockSize { blk_size, max } => write!(
                f,
                "blk_size {blk_size} is unusable: it must be a power of two from {SECTOR} to {max}"
            ),
            Self::SegmentSize { size } => write!(
                f,
                "segments of {size} bytes are unusable: size_max must be at least {MIN_SEGMENT}"
            ),
            Self::RequestSize { bytes, blk_size } => write!(
                f,
                "requests of {bytes} bytes are unusable: seg_max times size_max must be at least \
                 blk_size, {blk_size}"
            ),
            Self::RingTooSmall { size } => write!(
                f,
                "a ring of {size} descriptors is unusable: a request needs at least {}",
                FRAME_DESCRIPTORS + 1
            ),
            Self::NoQueues => f.write_str("num_queues is 0: it must be at least 1"),
        }
    }
}

impl Limits {
    /// Derives the limits of a disk.
    ///
    /// # Errors
    ///
    /// An [`Error`] for a value that leaves nothing to work with.
    pub fn new(config: &Config, ring: Ring, machine: Machine) -> Result<Self, Error> {
        let logical = logical_block_size(config, machine)?;
        let max_segments = max_segments(config, ring)?;
        let max_segment_size = max_segment_size(config, machine)?;
        let bytes = u64::from(max_segments).saturating_mul(max_segment_size.into());
        if bytes < logical.into() {
            return Err(Error::RequestSize {
                bytes,
                blk_size: logical,
            });
        }
        let topology = config.topology.unwrap_or_default();
        let blocks = |count: u32| logical.checked_mul(count).unwrap_or(0);
        Ok(Self {
            logical_block_size: logical,
            physical_block_size: physical_block_size(logical, topology),
            alignment_offset: blocks(topology.alignment_offset.into()),
            io_min: blocks(topology.min_io_size.into()),
            io_opt: blocks(topology.opt_io_size),
            max_segments,
            max_segment_size,
        })
    }
}

/// A block size of 0 counts as not said.
fn logical_block_size(config: &Config, machine: Machine) -> Result<u32, Error> {
    let max = machine.max_block_size;
    match config.blk_size {
        None | Some(0) => Ok(SECTOR),
        Some(size) if size.is_power_of_two() && (SECTOR..=max).contains(&size) => Ok(size),
        Some(blk_size) => Err(Error::BlockSize { blk_size, max }),
    }
}

/// A physical block that does not fit 32 bits is ignored: it is but advice.
fn physical_block_size(logical: u32, topology: Topology) -> u32 {
    1u32.checked_shl(topology.physical_block_exp.into())
        .and_then(|blocks| logical.checked_mul(blocks))
        .unwrap_or(logical)
}

/// At least one segment, whatever the device says, and no more than the ring has room for: a chain
/// must not be longer than the ring even as an indirect table (virtio 1.2, section 2.7.5.3.1).
fn max_segments(config: &Config, ring: Ring) -> Result<u16, Error> {
    let room = ring
        .size
        .checked_sub(FRAME_DESCRIPTORS)
        .filter(|room| *room > 0)
        .ok_or(Error::RingTooSmall { size: ring.size })?;
    let wanted = config.seg_max.unwrap_or(1).max(1);
    Ok(u16::try_from(wanted.min(room)).unwrap_or(u16::MAX))
}

fn max_segment_size(config: &Config, machine: Machine) -> Result<u32, Error> {
    let mappable = u32::try_from(machine.max_dma_size).unwrap_or(u32::MAX);
    let size = config.size_max.unwrap_or(u32::MAX).min(mappable);
    if size < MIN_SEGMENT {
        return Err(Error::SegmentSize { size });
    }
    Ok(size)
}

/// How many requests may be in flight on a ring: as many as `wanted`, or, if that is 0, as many as
/// the ring holds at best. Without indirect descriptors a request takes two and its data's.
pub fn queue_depth(wanted: u32, ring: Ring) -> u32 {
    match (wanted, ring.indirect) {
        (0, true) => ring.size.max(1),
        (0, false) => (ring.size / FRAME_DESCRIPTORS).max(1),
        (wanted, _) => wanted,
    }
}

/// How many virtqueues to ask for at most: what the device has, or `wanted` if that is less and not
/// 0. `num_queues` is [`None`] without `VIRTIO_BLK_F_MQ`.
///
/// # Errors
///
/// [`Error::NoQueues`] if the device has none.
pub fn max_queues(num_queues: Option<u16>, wanted: u32) -> Result<u32, Error> {
    let offered = match num_queues {
        None => 1,
        Some(0) => return Err(Error::NoQueues),
        Some(count) => count.into(),
    };
    Ok(match wanted {
        0 => offered,
        wanted => wanted.min(offered),
    })
}

/// How many of `count` virtqueues are polled if `wanted` should be: at least one is not.
pub fn poll_queues(count: u16, wanted: u32) -> u16 {
    let most = count.saturating_sub(1);
    u16::try_from(wanted).map_or(most, |wanted| wanted.min(most))
}
