// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Zone reports, true ones and others, and how a device lies about zones at all.

use super::{Refusal, Zone, Zones};
use anyhow::{bail, Result};
use std::fmt;
use std::str::FromStr;

/// Bytes of the head of a report: the number of descriptors, and 56 that are reserved.
pub const REPORT_HEADER: usize = 64;

/// Bytes of a zone's descriptor, of which the last 38 are reserved.
pub const DESCRIPTOR: usize = 64;

/// What stands where the standard says that nothing defined does.
const UNDEFINED: u64 = u64::MAX;

/// How what is said about zones is false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lie {
    /// It is true.
    #[default]
    Nothing,
    /// Reports have no zones.
    Empty,
    /// Reports have more zones than fit into any.
    Many,
    /// Every report begins with the first zone.
    Stuck,
    /// The first zone that was asked for is missing.
    Skip,
    /// Zones lie behind the end of any disk.
    Far,
    /// Zones can hold more than they are long.
    Large,
    /// Write pointers lie behind their zones.
    Pointer,
    /// Zones are of a type that does not exist.
    Kind,
    /// Zones are in a state that does not exist.
    State,
    /// Reports are true, but appends are told a place in no zone.
    Append,
}

impl Lie {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Nothing, "nothing"),
        (Self::Empty, "empty"),
        (Self::Many, "many"),
        (Self::Stuck, "stuck"),
        (Self::Skip, "skip"),
        (Self::Far, "far"),
        (Self::Large, "large"),
        (Self::Pointer, "pointer"),
        (Self::Kind, "kind"),
        (Self::State, "state"),
        (Self::Append, "append"),
    ];

    /// The names of all, for messages.
    pub const NAMES: &'static str =
        "nothing, empty, many, stuck, skip, far, large, pointer, kind, state or append";
}

impl FromStr for Lie {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::ALL.iter().find(|(_, name)| *name == text) {
            Some((lie, _)) => Ok(*lie),
            None => bail!("{text:?} is no lie about zones: choose {}", Self::NAMES),
        }
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(lie, _)| lie == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

impl Zones {
    /// What a report of at most `room` bytes says that begins with the zone of `sector`.
    pub fn report(&self, sector: u64, room: usize, lie: Lie) -> Result<Vec<u8>, Refusal> {
        let asked = self.index_of(sector)?;
        let first = match lie {
            Lie::Stuck => 0,
            Lie::Skip => asked + 1,
            _ => asked,
        };
        let fits = room.saturating_sub(REPORT_HEADER) / DESCRIPTOR;
        let fits = if lie == Lie::Empty { 0 } else { fits };
        let zones = self.all().iter().skip(first).take(fits);
        let count = match lie {
            Lie::Many => u64::MAX,
            _ => zones.len() as u64,
        };
        let mut report = vec![0; REPORT_HEADER];
        report[..8].copy_from_slice(&count.to_le_bytes());
        report.extend(zones.flat_map(|zone| describe(zone, lie)));
        Ok(report)
    }
}

fn describe(zone: &Zone, lie: Lie) -> [u8; DESCRIPTOR] {
    let capacity = match lie {
        Lie::Large => zone.length + 1,
        _ => zone.capacity,
    };
    let start = match lie {
        Lie::Far => u64::MAX - zone.length + 1,
        _ => zone.start,
    };
    let pointer = match lie {
        Lie::Pointer => Some(zone.end() + 1),
        _ => zone.write_pointer(),
    };
    let mut bytes = [0; DESCRIPTOR];
    bytes[..8].copy_from_slice(&capacity.to_le_bytes());
    bytes[8..16].copy_from_slice(&start.to_le_bytes());
    bytes[16..24].copy_from_slice(&pointer.unwrap_or(UNDEFINED).to_le_bytes());
    bytes[24] = if lie == Lie::Kind { 4 } else { zone.kind() };
    bytes[25] = match lie {
        Lie::State => 5,
        _ => zone.state.number(),
    };
    bytes
}
