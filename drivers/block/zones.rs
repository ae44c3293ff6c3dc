// SPDX-License-Identifier: GPL-2.0

//! What a zoned disk can do, out of what its configuration space says (virtio 1.3, section 5.2.5
//! "Device Initialization").
//!
//! The device may say anything. A disk whose zones the block layer cannot serve is refused with an
//! error that says which value and why. This file is pure: it imports nothing but `core`, so that
//! it is tested on the host as it is.

use core::fmt;

/// Bytes of a sector.
const SECTOR: u32 = 512;

/// The fields `zoned` of the configuration space, which come with `VIRTIO_BLK_F_ZONED`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `VIRTIO_BLK_Z_*`: 0 not zoned, 1 host-managed, 2 host-aware.
    pub model: u8,
    /// The size of a zone in sectors.
    pub zone_sectors: u32,
    /// How many zones may be open at a time; 0: any number.
    pub max_open_zones: u32,
    /// How many zones may be open or closed at a time; 0: any number.
    pub max_active_zones: u32,
    /// The longest append in sectors; 0: the device has none.
    pub max_append_sectors: u32,
    /// What writes to sequential zones are a multiple of, in bytes.
    pub write_granularity: u32,
}

/// What a zoned disk can do, as [`Config`] has it, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of a zone in sectors: a power of two, at least a logical block.
    pub zone_sectors: u32,
    /// How many zones may be open at a time; 0: any number.
    pub max_open_zones: u32,
    /// How many zones may be open or closed at a time; 0: any number, else at least as many as may
    /// be open.
    pub max_active_zones: u32,
    /// The longest append in sectors; 0: the block layer makes do with writes.
    pub max_append_sectors: u32,
    /// What writes are a multiple of, in bytes: a power of two from a logical block to a zone.
    pub write_granularity: u32,
}

/// Why a zoned device cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The model is none that the specification knows.
    Model(u8),
    /// This kernel knows no zones.
    NotConfigured,
    /// `zone_sectors` is no power of two, or less than a logical block.
    ZoneSize {
        /// What the device said, in sectors.
        zone_sectors: u32,
        /// The logical block in bytes.
        block_size: u32,
    },
    /// `write_granularity` is no power of two, or more than a zone.
    Granularity {
        /// What the device said, in bytes.
        write_granularity: u32,
        /// The size of a zone in sectors.
        zone_sectors: u32,
    },
    /// An append cannot be as long as the granularity, though there are appends.
    Append {
        /// What the device said, in sectors.
        max_append_sectors: u32,
        /// The granularity in bytes.
        write_granularity: u32,
    },
    /// More zones may be open than active.
    OpenZones {
        /// How many may be open.
        max_open_zones: u32,
        /// How many may be active.
        max_active_zones: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(model) => write!(
                f,
                "zone model {model} is unknown: it must be 0 (none), 1 (host-managed) or 2 \
                 (host-aware)"
            ),
            Self::NotConfigured => f.write_str(
                "the device has zones, which this kernel does not know: use one with \
                 CONFIG_BLK_DEV_ZONED",
            ),
            Self::ZoneSize {
                zone_sectors,
                block_size,
            } => write!(
                f,
                "zone_sectors {zone_sectors} is unusable: it must be a power of two, and a zone at \
                 least a block of {block_size} bytes"
            ),
            Self::Granularity {
                write_granularity,
                zone_sectors,
            } => write!(
                f,
                "write_granularity {write_granularity} is unusable: it must be a power of two, and \
                 at most a zone of {zone_sectors} sectors"
            ),
            Self::Append {
                max_append_sectors,
                write_granularity,
            } => write!(
                f,
                "max_append_sectors {max_append_sectors} is unusable: it must be 0, or at least \
                 write_granularity, {write_granularity} bytes"
            ),
            Self::OpenZones {
                max_open_zones,
                max_active_zones,
            } => write!(
                f,
                "max_open_zones {max_open_zones} is unusable: it must be at most \
                 max_active_zones, {max_active_zones}"
            ),
        }
    }
}

impl Limits {
    /// The limits of a device with logical blocks of `block_size` bytes; [`None`] if it is to be
    /// used without zones: it has none, or they are but advice (host-aware).
    ///
    /// # Errors
    ///
    /// An [`Error`] for a value that leaves nothing to work with.
    pub fn new(config: &Config, block_size: u32) -> Result<Option<Self>, Error> {
        match config.model {
            0 | 2 => return Ok(None),
            1 => {}
            model => return Err(Error::Model(model)),
        }
        let Config {
            zone_sectors,
            max_open_zones,
            max_active_zones,
            max_append_sectors,
            write_granularity,
            ..
        } = *config;
        let sector = u64::from(SECTOR);
        let zone = u64::from(zone_sectors).saturating_mul(sector);
        if !zone_sectors.is_power_of_two() || zone < block_size.into() {
            return Err(Error::ZoneSize {
                zone_sectors,
                block_size,
            });
        }
        if !write_granularity.is_power_of_two() || u64::from(write_granularity) > zone {
            return Err(Error::Granularity {
                write_granularity,
                zone_sectors,
            });
        }
        let append = u64::from(max_append_sectors).saturating_mul(sector);
        if append > 0 && append < write_granularity.into() {
            return Err(Error::Append {
                max_append_sectors,
                write_granularity,
            });
        }
        if max_active_zones > 0 && max_open_zones > max_active_zones {
            return Err(Error::OpenZones {
                max_open_zones,
                max_active_zones,
            });
        }
        Ok(Some(Self {
            zone_sectors,
            max_open_zones,
            max_active_zones,
            max_append_sectors,
            write_granularity: write_granularity.max(block_size),
        }))
    }

    /// The zone of a sector of a disk of `capacity` sectors: its first sector and how many it has,
    /// which is none behind the end of the disk.
    pub fn zone_of(&self, sector: u64, capacity: u64) -> (u64, u64) {
        if sector >= capacity {
            return (capacity, 0);
        }
        let zone = u64::from(self.zone_sectors.max(1));
        let start = sector.saturating_sub(sector.checked_rem(zone).unwrap_or(0));
        (start, capacity.saturating_sub(start).min(zone))
    }

    /// Whether an append to the zone at `sector` can have gone to `place`. All are in sectors.
    pub fn can_append(&self, sector: u64, place: u64) -> bool {
        let offset = place.checked_sub(sector);
        offset.is_some_and(|offset| offset < self.zone_sectors.into())
    }
}
