// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the device has told the driver about the largest request, and whether the driver heeds it.

use crate::options::Options;
use crate::ranges::Fields;
use crate::request::{Malformed, Operation, Request};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_SECURE_ERASE, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_F_WRITE_ZEROES,
};

/// The largest request, and the operations on ranges of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    segments: u32,
    bytes: u32,
    discard: Option<Fields>,
    write_zeroes: Option<Fields>,
    secure_erase: Option<Fields>,
}

impl Default for Limits {
    /// None at all, and no operations on ranges.
    fn default() -> Self {
        Self {
            segments: u32::MAX,
            bytes: u32::MAX,
            discard: None,
            write_zeroes: None,
            secure_erase: None,
        }
    }
}

impl Limits {
    /// The limits that such a device tells. At least one segment is always possible.
    pub fn new(options: &Options) -> Self {
        Self {
            segments: options.seg_max().max(1),
            bytes: options.size_max.unwrap_or(u32::MAX),
            discard: options.discard,
            write_zeroes: options.write_zeroes,
            secure_erase: options.secure_erase,
        }
    }

    /// Those that a driver with these features knows.
    pub fn known_to(self, features: u64) -> Self {
        let any = Self::default();
        let has = |bit: u32| features & (1 << bit) != 0;
        Self {
            segments: if has(VIRTIO_BLK_F_SEG_MAX) {
                self.segments
            } else {
                any.segments
            },
            bytes: if has(VIRTIO_BLK_F_SIZE_MAX) {
                self.bytes
            } else {
                any.bytes
            },
            discard: self.discard.filter(|_| has(VIRTIO_BLK_F_DISCARD)),
            write_zeroes: self.write_zeroes.filter(|_| has(VIRTIO_BLK_F_WRITE_ZEROES)),
            secure_erase: self.secure_erase.filter(|_| has(VIRTIO_BLK_F_SECURE_ERASE)),
        }
    }

    /// Lets a request pass that keeps the limits on a disk of `size` bytes.
    pub fn check(&self, request: Request, size: u64) -> Result<Request, Malformed> {
        let malformed = |reason| Malformed {
            reason,
            status: Some(request.status),
        };
        if request.data.len() > self.segments as usize {
            return Err(malformed("there are more segments than seg_max"));
        }
        let mut lengths = request.data.iter().map(|buffer| buffer.length);
        if lengths.any(|length| length > self.bytes) {
            return Err(malformed("a segment is longer than size_max"));
        }
        let fields = match request.operation {
            Operation::Discard => self.discard,
            Operation::WriteZeroes => self.write_zeroes,
            Operation::SecureErase => self.secure_erase,
            _ => return Ok(request),
        };
        let Some(fields) = fields else {
            return Err(malformed("the feature of the operation was not negotiated"));
        };
        let limit = |limit| if limit == 0 { u32::MAX } else { limit };
        if request.ranges.len() > limit(fields.ranges) as usize {
            return Err(malformed("there are more ranges than the device takes"));
        }
        let mut ranges = request.ranges.iter();
        if ranges
            .clone()
            .any(|range| range.sectors > limit(fields.sectors))
        {
            return Err(malformed("a range is longer than the device takes"));
        }
        if ranges.any(|range| range.on_disk(size).is_none()) {
            return Err(malformed("a range lies behind the end of the disk"));
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Range;
    use crate::request::Buffer;
    use clap::Parser;
    use vm_memory::GuestAddress;

    const STATUS: GuestAddress = GuestAddress(0x8000);
    const SIZE: u64 = 1 << 20;

    fn limits(line: &str) -> Limits {
        let words = ["vbr-device", "--socket", "s"].into_iter();
        Limits::new(&Options::parse_from(words.chain(line.split_whitespace())))
    }

    fn request(lengths: &[u32]) -> Request {
        let buffer = |length| Buffer {
            address: GuestAddress(0x1000),
            length,
        };
        Request {
            operation: Operation::Read,
            sector: 0,
            data: lengths.iter().copied().map(buffer).collect(),
            ranges: Vec::new(),
            status: STATUS,
        }
    }

    fn why(limits: Limits, request: Request) -> Option<&'static str> {
        let malformed = limits.check(request, SIZE).err()?;
        assert_eq!(malformed.status, Some(STATUS));
        Some(malformed.reason)
    }

    fn reason(limits: Limits, lengths: &[u32]) -> Option<&'static str> {
        why(limits, request(lengths))
    }

    fn discard(limits: Limits, ranges: &[(u64, u32)]) -> Option<&'static str> {
        let range = |(sector, sectors)| Range {
            sector,
            sectors,
            flags: 0,
        };
        let request = Request {
            operation: Operation::Discard,
            ranges: ranges.iter().copied().map(range).collect(),
            ..request(&[16 * ranges.len() as u32])
        };
        why(limits, request)
    }

    #[test]
    fn ranges_keep_the_limits_and_the_disk() {
        let some = limits("--discard 8,2,1");
        assert_eq!(discard(some, &[(0, 8), (2040, 8)]), None);
        for (ranges, word) in [
            (vec![(0, 9)], "longer"),
            (vec![(0, 1), (1, 1), (2, 1)], "more ranges"),
            (vec![(2041, 8)], "behind the end"),
        ] {
            let found = discard(some, &ranges).unwrap_or_default();
            assert!(found.contains(word), "{ranges:?}: {found}");
        }
        assert_eq!(discard(limits("--discard 0,0,0"), &[(0, 2048); 99]), None);
        let unknown = some.known_to(0);
        assert!(discard(unknown, &[(0, 1)]).is_some_and(|why| why.contains("negotiated")));
        let known = some.known_to(1 << VIRTIO_BLK_F_DISCARD);
        assert_eq!(discard(known, &[(0, 1)]), None);
    }

    #[test]
    fn the_largest_request_passes_and_a_larger_one_does_not() {
        let told = limits("--seg-max 2 --size-max 4096");
        assert_eq!(reason(told, &[4096, 4096]), None);
        assert!(reason(told, &[4096, 4097]).is_some_and(|why| why.contains("size_max")));
        assert!(reason(told, &[512; 3]).is_some_and(|why| why.contains("seg_max")));
    }

    #[test]
    fn a_driver_is_held_to_what_it_knows() {
        let told = limits("--seg-max 2 --size-max 4096");
        let segments = told.known_to(1 << VIRTIO_BLK_F_SEG_MAX);
        assert_eq!(reason(segments, &[8192, 8192]), None);
        assert!(reason(segments, &[512; 3]).is_some());
        let bytes = told.known_to(1 << VIRTIO_BLK_F_SIZE_MAX);
        assert_eq!(reason(bytes, &[512; 3]), None);
        assert!(reason(bytes, &[8192]).is_some());
    }

    #[test]
    fn one_segment_of_any_length_is_always_possible() {
        let told = limits("--seg-max 0");
        assert_eq!(reason(told, &[u32::MAX]), None);
        assert!(reason(told, &[512, 512]).is_some());
    }
}
