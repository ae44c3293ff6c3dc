// SPDX-License-Identifier: GPL-2.0

//! What the device has told the driver about the largest request, and whether the driver heeds it.

use crate::request::{Malformed, Request};
use virtio_bindings::virtio_blk::{VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX};

/// The largest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    segments: u32,
    bytes: u32,
}

impl Default for Limits {
    /// None at all.
    fn default() -> Self {
        let (segments, bytes) = (u32::MAX, u32::MAX);
        Self { segments, bytes }
    }
}

impl Limits {
    /// The limits of a device with these fields in its configuration space. At least one segment
    /// is always possible.
    pub fn new(seg_max: u32, size_max: Option<u32>) -> Self {
        Self {
            segments: seg_max.max(1),
            bytes: size_max.unwrap_or(u32::MAX),
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
        }
    }

    /// Lets a request pass that keeps the limits.
    pub fn check(&self, request: Request) -> Result<Request, Malformed> {
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
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Buffer, Operation};
    use vm_memory::GuestAddress;

    const STATUS: GuestAddress = GuestAddress(0x8000);

    fn request(lengths: &[u32]) -> Request {
        let buffer = |length| Buffer {
            address: GuestAddress(0x1000),
            length,
        };
        Request {
            operation: Operation::Read,
            sector: 0,
            data: lengths.iter().copied().map(buffer).collect(),
            status: STATUS,
        }
    }

    fn reason(limits: Limits, lengths: &[u32]) -> Option<&'static str> {
        let malformed = limits.check(request(lengths)).err()?;
        assert_eq!(malformed.status, Some(STATUS));
        Some(malformed.reason)
    }

    #[test]
    fn the_largest_request_passes_and_a_larger_one_does_not() {
        let limits = Limits::new(2, Some(4096));
        assert_eq!(reason(limits, &[4096, 4096]), None);
        assert!(reason(limits, &[4096, 4097]).is_some_and(|why| why.contains("size_max")));
        assert!(reason(limits, &[512; 3]).is_some_and(|why| why.contains("seg_max")));
    }

    #[test]
    fn a_driver_is_held_to_what_it_knows() {
        let limits = Limits::new(2, Some(4096));
        let segments = limits.known_to(1 << VIRTIO_BLK_F_SEG_MAX);
        assert_eq!(reason(segments, &[8192, 8192]), None);
        assert!(reason(segments, &[512; 3]).is_some());
        let bytes = limits.known_to(1 << VIRTIO_BLK_F_SIZE_MAX);
        assert_eq!(reason(bytes, &[512; 3]), None);
        assert!(reason(bytes, &[8192]).is_some());
    }

    #[test]
    fn one_segment_of_any_length_is_always_possible() {
        let limits = Limits::new(0, None);
        assert_eq!(reason(limits, &[u32::MAX]), None);
        assert!(reason(limits, &[512, 512]).is_some());
    }
}
