// SPDX-License-Identifier: GPL-2.0

//! What a zoned device reports about each of its zones (virtio 1.3, section 5.2.6 "Device
//! Operation").
//!
//! The device may report anything. Each report has to begin where the one before ended and to tell
//! at least one zone, so that whoever asks for zones comes to an end whatever the device answers.
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

use super::zones::Limits;
use core::fmt;

/// The length of the head of a report, `struct virtio_blk_zone_report`.
pub const HEAD: usize = 64;

/// The length of what a report says about a zone, `struct virtio_blk_zone_descriptor`.
pub const DESCRIPTOR: usize = 64;

/// What can be done with a zone, as a report says (`VIRTIO_BLK_ZS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It is conventional: it can be written anywhere.
    Conventional = 0,
    /// Nothing was written.
    Empty = 1,
    /// A write has opened it.
    ImplicitlyOpen = 2,
    /// It was opened.
    ExplicitlyOpen = 3,
    /// Something was written, and it is not open.
    Closed = 4,
    /// It is broken: it can be read only.
    ReadOnly = 13,
    /// No more can be written.
    Full = 14,
    /// It is broken: it cannot be used.
    Offline = 15,
}

impl State {
    const ALL: [Self; 8] = [
        Self::Conventional,
        Self::Empty,
        Self::ImplicitlyOpen,
        Self::ExplicitlyOpen,
        Self::Closed,
        Self::ReadOnly,
        Self::Full,
        Self::Offline,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u8 == number)
    }
}

/// A zone. All numbers are sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its first sector.
    pub start: u64,
    /// How many sectors it has.
    pub len: u64,
    /// How many of them can be written: from 1 to all.
    pub capacity: u64,
    /// Where the next write begins; its end if it is full, and [`u64::MAX`] if it has no place to
    /// write, or any.
    pub write_pointer: u64,
    /// Its type and state: a zone is sequential unless it is [`State::Conventional`].
    pub state: State,
}

/// What is wrong with a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It has no zones, though the disk goes on.
    NoZones {
        /// The first sector of the zone that it was to begin with.
        start: u64,
    },
    /// A zone is not where the one before ended.
    Start {
        /// Where it is.
        found: u64,
        /// Where it should be.
        start: u64,
    },
    /// A zone is of a type that does not exist, or not on this disk.
    Type {
        /// The first sector of the zone.
        start: u64,
        /// Its type.
        number: u8,
    },
    /// A zone is in a state that does not exist, or not for its type.
    State {
        /// The first sector of the zone.
        start: u64,
        /// Its state.
        number: u8,
    },
    /// A zone can hold nothing, or more than it is long, or is conventional and cannot be filled.
    Capacity {
        /// The first sector of the zone.
        start: u64,
        /// What it can hold.
        capacity: u64,
        /// How long it is.
        len: u64,
    },
    /// A write pointer is outside of its zone.
    WritePointer {
        /// The first sector of the zone.
        start: u64,
        /// The write pointer.
        found: u64,
        /// How long it is.
        len: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoZones { start } => write!(
                f,
                "zone {start}: it is not reported, though it must be: the disk does not end there"
            ),
            Self::Start { found, start } => write!(
                f,
                "zone {start}: one at {found} is reported in its place, where all must be reported \
                 in order"
            ),
            Self::Type { start, number } => write!(
                f,
                "zone {start}: invalid type {number:#x}: it must be 1 (conventional) or 2 \
                 (sequential write required)"
            ),
            Self::State { start, number } => write!(
                f,
                "zone {start}: invalid state {number:#x}: it must be 0 if it is conventional, else \
                 1 to 4 or 13 to 15"
            ),
            Self::Capacity {
                start,
                capacity,
                len,
            } => write!(
                f,
                "zone {start}: invalid capacity {capacity}: it must be 1 to {len} sectors, and all \
                 if it is conventional"
            ),
            Self::WritePointer { start, found, len } => write!(
                f,
                "zone {start}: invalid write pointer {found}: it must be at most {len} sectors \
                 behind the start"
            ),
        }
    }
}

/// How many bytes are enough for a report of `zones` zones that begins with that of `sector`, but
/// at most `most`. `capacity` is that of the disk in sectors.
pub fn length(limits: &Limits, capacity: u64, sector: u64, zones: u32, most: usize) -> usize {
    let (start, _) = limits.zone_of(sector, capacity);
    let left = capacity.saturating_sub(start);
    let left = left.div_ceil(limits.zone_sectors.max(1).into());
    let zones = usize::try_from(left.min(zones.into())).unwrap_or(usize::MAX);
    let length = zones.saturating_mul(DESCRIPTOR).saturating_add(HEAD);
    length.min(most)
}

/// Where reports come from.
pub trait Source {
    /// Why there is none.
    type Error;

    /// Asks the device for a report that begins with the zone of `sector`.
    fn report(&mut self, sector: u64) -> Result<&[u8], Self::Error>;
}

/// Why not all zones could be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// A report is wrong.
    Report(Error),
    /// There is no report, or no more zone is wanted.
    Other(E),
}

/// Tells `tell` of up to `count` zones of a disk of `capacity` sectors, from that of `sector` on,
/// and returns how many those were.
///
/// Each report tells at least one more zone, or is the last one.
///
/// # Errors
///
/// What is wrong with a report, or what `source` or `tell` has returned.
pub fn walk<S: Source>(
    limits: &Limits,
    capacity: u64,
    sector: u64,
    count: u32,
    source: &mut S,
    mut tell: impl FnMut(&Zone) -> Result<(), S::Error>,
) -> Result<u32, Stop<S::Error>> {
    let (mut start, mut len) = limits.zone_of(sector, capacity);
    let mut told = 0u32;
    while told < count && len > 0 {
        let before = told;
        let report = source.report(start).map_err(Stop::Other)?;
        for descriptor in descriptors(report) {
            if told == count || len == 0 {
                break;
            }
            let zone = decode(descriptor, start, len).map_err(Stop::Report)?;
            tell(&zone).map_err(Stop::Other)?;
            told = told.saturating_add(1);
            (start, len) = limits.zone_of(start.saturating_add(len), capacity);
        }
        if told == before {
            return Err(Stop::Report(Error::NoZones { start }));
        }
    }
    Ok(told)
}

/// The descriptors in a report: as many as it claims to have, if it is long enough.
fn descriptors(report: &[u8]) -> impl Iterator<Item = &[u8; DESCRIPTOR]> {
    let (head, rest) = report.split_at_checked(HEAD).unwrap_or_default();
    let claimed = head
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let claimed = usize::try_from(claimed).unwrap_or(usize::MAX);
    let whole = rest.chunks_exact(DESCRIPTOR);
    whole.filter_map(|bytes| bytes.first_chunk()).take(claimed)
}

/// Decodes what a report says about the zone of `len` sectors at `start`.
fn decode(descriptor: &[u8; DESCRIPTOR], start: u64, len: u64) -> Result<Zone, Error> {
    // z_cap, z_start, z_wp, z_type, z_state.
    let [a, b, c, d, e, f, g, h, descriptor @ ..] = descriptor;
    let capacity = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
    let [a, b, c, d, e, f, g, h, descriptor @ ..] = descriptor;
    let found = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
    let [a, b, c, d, e, f, g, h, kind, number, ..] = descriptor;
    let pointer = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
    let (kind, number) = (*kind, *number);

    if found != start {
        return Err(Error::Start { found, start });
    }
    let is_conventional = match kind {
        1 => true,
        2 => false,
        number => return Err(Error::Type { start, number }),
    };
    let state = State::from_number(number)
        .filter(|state| (*state == State::Conventional) == is_conventional)
        .ok_or(Error::State { start, number })?;
    if !(1..=len).contains(&capacity) || (is_conventional && capacity != len) {
        return Err(Error::Capacity {
            start,
            capacity,
            len,
        });
    }
    let write_pointer = match state {
        State::Conventional | State::ReadOnly | State::Offline => u64::MAX,
        State::Full => start.saturating_add(len),
        State::Empty | State::ImplicitlyOpen | State::ExplicitlyOpen | State::Closed => {
            let offset = pointer.checked_sub(start);
            if offset.is_none_or(|offset| offset > len) {
                return Err(Error::WritePointer {
                    start,
                    found: pointer,
                    len,
                });
            }
            pointer
        }
    };
    Ok(Zone {
        start,
        len,
        capacity,
        write_pointer,
        state,
    })
}
