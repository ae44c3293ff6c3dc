// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Ranges of the disk, and how many and how long ones the device takes at a time.

use crate::request::SECTOR;
use anyhow::{bail, Result};
use std::ops;
use std::str::FromStr;

/// A range of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first sector.
    pub sector: u64,
    /// How many sectors there are.
    pub sectors: u32,
    /// What else the driver says.
    pub flags: u32,
}

impl Range {
    /// Bytes of a range in the guest's memory.
    pub const SIZE: usize = 16;

    /// What is zeroed need not keep its place.
    pub const UNMAP: u32 = 1;

    /// The range in these bytes, of which there are [`Self::SIZE`].
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word =
            |at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            sector: u64::from(word(0)) | (u64::from(word(4)) << 32),
            sectors: word(8),
            flags: word(12),
        }
    }

    /// The place in bytes, if that is on a disk of `size` bytes.
    pub fn on_disk(&self, size: u64) -> Option<ops::Range<u64>> {
        let start = self.sector.checked_mul(SECTOR)?;
        let end = start.checked_add(u64::from(self.sectors) * SECTOR)?;
        (end <= size).then_some(start..end)
    }
}

/// The fields of the configuration space about an operation on ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Most sectors of a range; 0: no limit.
    pub sectors: u32,
    /// Most ranges of a request; 0: no limit.
    pub ranges: u32,
    /// What ranges should be multiples of, in sectors.
    pub alignment: u32,
}

impl FromStr for Fields {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([sectors, ranges, alignment]) => Ok(Self {
                sectors: *sectors,
                ranges: *ranges,
                alignment: *alignment,
            }),
            _ => bail!(
                "{text:?} are no limits: give SECTORS,RANGES,ALIGNMENT, each from 0 to {}",
                u32::MAX
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_on_the_disk_or_not() {
        let range = |sector, sectors| Range {
            sector,
            sectors,
            flags: 0,
        };
        assert_eq!(range(2, 6).on_disk(4096), Some(1024..4096));
        for behind in [
            range(2, 7),
            range(8, 1),
            range(u64::MAX / 512, 1),
            range(u64::MAX, u32::MAX),
        ] {
            assert_eq!(behind.on_disk(4096), None, "{behind:?}");
        }
    }

    #[test]
    fn fields_are_three_numbers() {
        let fields: Fields = "8192,16,4294967295".parse().unwrap();
        let right = (8192, 16, u32::MAX);
        assert_eq!((fields.sectors, fields.ranges, fields.alignment), right);
        for text in ["", "1", "1,2", "1,2,3,4", "1,2,x", "1,2,4294967296"] {
            let message = text.parse::<Fields>().unwrap_err().to_string();
            assert!(message.contains("SECTORS,RANGES"), "{message}");
        }
    }
}
