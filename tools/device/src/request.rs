// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the driver asks for: reads a chain of descriptors, and checks strictly that it is made as
//! the standard wants it.
//!
//! All that the device may read comes before all that it may write; the first descriptor is the
//! header of 16 bytes, the last one the status byte, and those in between the data, in the
//! direction of the operation and in whole sectors. None is empty.
//!
//! What discards, zeroes or erases has ranges of the disk for data, of 16 bytes each. In front of
//! the status byte of an append, in the same descriptor, the sector is told at which its data went.

use crate::lifetime;
use crate::ranges::Range;
use crate::zoned::ZoneRequest;
use crate::zones::{Action, DESCRIPTOR, REPORT_HEADER};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN,
    VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_SECURE_ERASE, VIRTIO_BLK_T_WRITE_ZEROES,
    VIRTIO_BLK_T_ZONE_APPEND, VIRTIO_BLK_T_ZONE_CLOSE, VIRTIO_BLK_T_ZONE_FINISH,
    VIRTIO_BLK_T_ZONE_OPEN, VIRTIO_BLK_T_ZONE_REPORT, VIRTIO_BLK_T_ZONE_RESET,
    VIRTIO_BLK_T_ZONE_RESET_ALL,
};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Bytes of a sector, whatever the disk's block size is.
pub const SECTOR: u64 = 512;

/// Bytes of the header: type, reserved, sector.
const HEADER: u32 = 16;

/// Bytes of the sector in front of an append's status byte.
const APPEND_SECTOR: u32 = 8;

/// A piece of the guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Where it begins.
    pub address: GuestAddress,
    /// Its length in bytes.
    pub length: u32,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Make what was written last.
    Flush,
    /// Tell the serial number.
    GetId,
    /// Tell how worn the disk is.
    GetLifetime,
    /// Forget ranges.
    Discard,
    /// Write zeroes to ranges.
    WriteZeroes,
    /// Forget ranges for good.
    SecureErase,
    /// Something about zones.
    Zone(ZoneRequest),
    /// Something that this device does not know.
    Unknown(u32),
}

impl Operation {
    fn from_type(number: u32) -> Self {
        match number {
            VIRTIO_BLK_T_IN => Self::Read,
            VIRTIO_BLK_T_OUT => Self::Write,
            VIRTIO_BLK_T_FLUSH => Self::Flush,
            VIRTIO_BLK_T_GET_ID => Self::GetId,
            lifetime::REQUEST => Self::GetLifetime,
            VIRTIO_BLK_T_DISCARD => Self::Discard,
            VIRTIO_BLK_T_WRITE_ZEROES => Self::WriteZeroes,
            VIRTIO_BLK_T_SECURE_ERASE => Self::SecureErase,
            VIRTIO_BLK_T_ZONE_APPEND => Self::Zone(ZoneRequest::Append),
            VIRTIO_BLK_T_ZONE_REPORT => Self::Zone(ZoneRequest::Report),
            VIRTIO_BLK_T_ZONE_OPEN => Self::Zone(ZoneRequest::Act(Action::Open)),
            VIRTIO_BLK_T_ZONE_CLOSE => Self::Zone(ZoneRequest::Act(Action::Close)),
            VIRTIO_BLK_T_ZONE_FINISH => Self::Zone(ZoneRequest::Act(Action::Finish)),
            VIRTIO_BLK_T_ZONE_RESET => Self::Zone(ZoneRequest::Act(Action::Reset)),
            VIRTIO_BLK_T_ZONE_RESET_ALL => Self::Zone(ZoneRequest::ResetAll),
            other => Self::Unknown(other),
        }
    }

    /// Bytes of the last descriptor.
    fn trailer(self) -> u32 {
        match self {
            Self::Zone(ZoneRequest::Append) => APPEND_SECTOR + 1,
            _ => 1,
        }
    }
}

/// A request as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Where on the disk, in sectors.
    pub sector: u64,
    /// Where the data is or goes.
    pub data: Vec<Buffer>,
    /// The ranges of the disk that the data is about.
    pub ranges: Vec<Range>,
    /// Where the status byte goes.
    pub status: GuestAddress,
}

impl Request {
    /// Bytes of data.
    pub fn length(&self) -> u64 {
        let lengths = self.data.iter().map(|buffer| u64::from(buffer.length));
        lengths.sum()
    }

    /// Where an append is told at which sector its data went.
    pub fn append_sector(&self) -> GuestAddress {
        let place = self.status.0.saturating_sub(APPEND_SECTOR.into());
        GuestAddress(place)
    }
}

/// A chain that is not as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub reason: &'static str,
    /// Where the status byte goes, if the chain has a place for it.
    pub status: Option<GuestAddress>,
}

impl Request {
    /// Reads a request from the descriptors of its chain.
    pub fn parse(
        memory: &GuestMemoryMmap,
        chain: impl Iterator<Item = Descriptor>,
    ) -> Result<Self, Malformed> {
        let mut readable = Vec::new();
        let mut writable = Vec::new();
        let mut reason = None;
        let mut is_open = true;
        for descriptor in chain {
            is_open = descriptor.has_next();
            let buffer = Buffer {
                address: descriptor.addr(),
                length: descriptor.len(),
            };
            if buffer.length == 0 {
                reason = Some("a descriptor is empty");
            }
            if descriptor.is_write_only() {
                writable.push(buffer);
            } else if writable.is_empty() {
                readable.push(buffer);
            } else {
                reason = Some("a readable descriptor follows a writable one");
            }
        }
        let trailer = writable.pop();
        let place = trailer.filter(|_| !is_open);
        let place =
            place.map(|last| GuestAddress(last.address.0 + u64::from(last.length.max(1)) - 1));
        let malformed = |reason| Malformed {
            reason,
            status: place,
        };
        // The iterator ends early where a chain leaves its table, its memory, or loops.
        if is_open {
            return Err(malformed("the chain has no end"));
        }
        if let Some(reason) = reason {
            return Err(malformed(reason));
        }
        let (Some(trailer), Some(status)) = (trailer, place) else {
            return Err(malformed("there is no status byte at the end"));
        };
        if readable.is_empty() || readable[0].length != HEADER {
            return Err(malformed("there is no header of 16 bytes at the start"));
        }
        let header = readable.remove(0);
        let mut bytes = [0; HEADER as usize];
        memory
            .read_slice(&mut bytes, header.address)
            .map_err(|_| malformed("the header is outside of the memory"))?;
        let [a, b, c, d, _, _, _, _, sector @ ..] = bytes;
        let operation = Operation::from_type(u32::from_le_bytes([a, b, c, d]));
        if trailer.length != operation.trailer() {
            return Err(malformed("there is no status byte of its own at the end"));
        }
        let data = operation.data(readable, writable).map_err(malformed)?;
        let ranges = match operation {
            Operation::Discard | Operation::WriteZeroes | Operation::SecureErase => {
                operation.ranges(memory, &data).map_err(malformed)?
            }
            _ => Vec::new(),
        };
        let request = Self {
            operation,
            sector: u64::from_le_bytes(sector),
            data,
            ranges,
            status,
        };
        match operation {
            Operation::Read | Operation::Write | Operation::Zone(ZoneRequest::Append)
                if request.length() % SECTOR != 0 =>
            {
                Err(malformed("the data is not a number of sectors"))
            }
            Operation::Zone(ZoneRequest::Report)
                if request.length() < (REPORT_HEADER + DESCRIPTOR) as u64 =>
            {
                Err(malformed("a report of zones has no place for one"))
            }
            Operation::Zone(ZoneRequest::ResetAll) if request.sector != 0 => {
                Err(malformed("a reset of all zones has a sector"))
            }
            _ => Ok(request),
        }
    }
}

impl Operation {
    /// Chooses the data of the operation's direction, of which there must be some, and demands that
    /// there is none of the other.
    fn data(
        self,
        readable: Vec<Buffer>,
        writable: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, &'static str> {
        match (self, readable.is_empty(), writable.is_empty()) {
            (Self::Read | Self::GetId | Self::GetLifetime, true, false) => Ok(writable),
            (Self::Zone(ZoneRequest::Report), true, false) => Ok(writable),
            (Self::Write | Self::Zone(ZoneRequest::Append), false, true) => Ok(readable),
            (Self::Zone(ZoneRequest::Act(_) | ZoneRequest::ResetAll), true, true) => Ok(Vec::new()),
            (Self::Flush, true, true) => Ok(Vec::new()),
            (Self::Discard | Self::WriteZeroes | Self::SecureErase, false, true) => Ok(readable),
            (Self::Unknown(_), ..) => Ok(writable),
            (Self::Read, ..) => Err("a read has no place for data, or data of its own"),
            (Self::Write, ..) => Err("a write has no data, or a place for some"),
            (Self::Flush, ..) => Err("a flush has data"),
            (Self::GetId, ..) => Err("a question for the serial number has no place for it"),
            (Self::GetLifetime, ..) => Err("a question for the lifetime has no place for it"),
            (Self::Zone(ZoneRequest::Append), ..) => Err("an append has no data"),
            (Self::Zone(ZoneRequest::Report), ..) => Err("a report of zones has no place"),
            (Self::Zone(_), ..) => Err("a request about zones has data"),
            (Self::Discard | Self::WriteZeroes | Self::SecureErase, ..) => {
                Err("there are no ranges, or a place for some")
            }
        }
    }

    /// Reads the ranges, and demands that none is empty and that their flags are those that the
    /// operation has.
    fn ranges(self, memory: &GuestMemoryMmap, data: &[Buffer]) -> Result<Vec<Range>, &'static str> {
        let mut bytes = Vec::new();
        for buffer in data {
            let start = bytes.len();
            bytes.resize(start + buffer.length as usize, 0);
            memory
                .read_slice(&mut bytes[start..], buffer.address)
                .map_err(|_| "the ranges are outside of the memory")?;
        }
        let chunks = bytes.chunks_exact(Range::SIZE);
        if !chunks.remainder().is_empty() {
            return Err("the ranges are not a multiple of 16 bytes");
        }
        let ranges: Vec<_> = chunks.map(Range::from_bytes).collect();
        let flags = match self {
            Self::WriteZeroes => Range::UNMAP,
            _ => 0,
        };
        if ranges.iter().any(|range| range.flags & !flags != 0) {
            return Err("a range has a flag that the operation does not have");
        }
        if ranges.iter().any(|range| range.sectors == 0) {
            return Err("a range is empty");
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtio_bindings::virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};

    const HEADER_AT: u64 = 0x100;
    const NEXT: u16 = VRING_DESC_F_NEXT as u16;
    const WRITE: u16 = VRING_DESC_F_WRITE as u16;

    /// Parses a chain of `(length, writable)`, each at 0x1000 times its number.
    fn parse(kind: u32, chain: &[(u32, bool)]) -> Result<Request, Malformed> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap();
        memory
            .write_obj(kind.to_le(), GuestAddress(HEADER_AT))
            .unwrap();
        memory
            .write_obj(9_u64.to_le(), GuestAddress(HEADER_AT + 8))
            .unwrap();
        let last = chain.len().saturating_sub(1);
        let descriptors = chain.iter().enumerate().map(|(n, (length, writable))| {
            let address = if n == 0 { HEADER_AT } else { 0x1000 * n as u64 };
            let next = if n < last { NEXT } else { 0 };
            let write = if *writable { WRITE } else { 0 };
            Descriptor::new(address, *length, next | write, n as u16 + 1)
        });
        Request::parse(&memory, descriptors)
    }

    fn reason(kind: u32, chain: &[(u32, bool)]) -> &'static str {
        parse(kind, chain).unwrap_err().reason
    }

    #[test]
    fn a_read_has_header_data_status() {
        let request = parse(
            VIRTIO_BLK_T_IN,
            &[(16, false), (512, true), (4096, true), (1, true)],
        )
        .unwrap();
        assert_eq!(request.operation, Operation::Read);
        assert_eq!((request.sector, request.length()), (9, 4608));
        assert_eq!(request.data[1].address, GuestAddress(0x2000));
        assert_eq!(request.status, GuestAddress(0x3000));
    }

    #[test]
    fn a_write_has_its_data_in_front() {
        let request = parse(VIRTIO_BLK_T_OUT, &[(16, false), (512, false), (1, true)]).unwrap();
        assert_eq!(request.operation, Operation::Write);
        assert_eq!(request.data.len(), 1);
    }

    #[test]
    fn a_flush_is_two_descriptors() {
        let request = parse(VIRTIO_BLK_T_FLUSH, &[(16, false), (1, true)]).unwrap();
        assert_eq!(request.operation, Operation::Flush);
        assert!(
            reason(VIRTIO_BLK_T_FLUSH, &[(16, false), (8, false), (1, true)]).contains("flush")
        );
    }

    #[test]
    fn an_append_has_a_place_for_its_sector() {
        let request = parse(
            VIRTIO_BLK_T_ZONE_APPEND,
            &[(16, false), (512, false), (9, true)],
        )
        .unwrap();
        assert_eq!(request.operation, Operation::Zone(ZoneRequest::Append));
        assert_eq!(request.append_sector(), GuestAddress(0x2000));
        assert_eq!(request.status, GuestAddress(0x2008));
        for (chain, word) in [
            (vec![(16, false), (512, false), (1, true)], "status byte"),
            (vec![(16, false), (9, true)], "no data"),
            (vec![(16, false), (100, false), (9, true)], "sectors"),
        ] {
            let found = reason(VIRTIO_BLK_T_ZONE_APPEND, &chain);
            assert!(found.contains(word), "{chain:?}: {found}");
        }
    }

    #[test]
    fn requests_about_zones_have_their_shapes() {
        let report = [(16, false), (128, true), (1, true)];
        assert_eq!(
            parse(VIRTIO_BLK_T_ZONE_REPORT, &report).unwrap().operation,
            Operation::Zone(ZoneRequest::Report)
        );
        let short = [(16, false), (127, true), (1, true)];
        assert!(reason(VIRTIO_BLK_T_ZONE_REPORT, &short).contains("place for one"));
        let bare = [(16, false), (1, true)];
        for (kind, action) in [
            (VIRTIO_BLK_T_ZONE_OPEN, Action::Open),
            (VIRTIO_BLK_T_ZONE_CLOSE, Action::Close),
            (VIRTIO_BLK_T_ZONE_FINISH, Action::Finish),
            (VIRTIO_BLK_T_ZONE_RESET, Action::Reset),
        ] {
            let request = parse(kind, &bare).unwrap();
            assert_eq!(request.operation, Operation::Zone(ZoneRequest::Act(action)));
            assert!(reason(kind, &report).contains("has data"));
        }
        // The sector of all of these chains is 9.
        assert!(reason(VIRTIO_BLK_T_ZONE_RESET_ALL, &bare).contains("has a sector"));
    }

    #[test]
    fn what_is_unknown_is_no_mistake() {
        let request = parse(12, &[(16, false), (16, false), (1, true)]).unwrap();
        assert_eq!(request.operation, Operation::Unknown(12));
    }

    /// Parses a request with these ranges, in pieces of these lengths.
    fn parse_ranges(
        kind: u32,
        ranges: &[(u64, u32, u32)],
        lengths: &[u32],
    ) -> Result<Request, Malformed> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap();
        let at = GuestAddress(HEADER_AT);
        memory.write_obj(kind.to_le(), at).unwrap();
        let mut bytes = Vec::new();
        for (sector, sectors, flags) in ranges {
            bytes.extend(sector.to_le_bytes());
            bytes.extend(sectors.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
        }
        memory.write_slice(&bytes, GuestAddress(0x1000)).unwrap();
        let mut chain = vec![Descriptor::new(HEADER_AT, 16, NEXT, 1)];
        let mut address = 0x1000;
        for length in lengths {
            chain.push(Descriptor::new(address, *length, NEXT, 2));
            address += u64::from(*length);
        }
        chain.push(Descriptor::new(0x5000, 1, WRITE, 0));
        Request::parse(&memory, chain.into_iter())
    }

    #[test]
    fn ranges_are_read_however_they_lie() {
        let two = [(9, 8, 0), (1 << 40, 1, 0)];
        for lengths in [vec![32], vec![16, 16], vec![4, 27, 1]] {
            let request = parse_ranges(VIRTIO_BLK_T_DISCARD, &two, &lengths).unwrap();
            assert_eq!(request.operation, Operation::Discard);
            let found = request.ranges.iter();
            let found: Vec<_> = found
                .map(|range| (range.sector, range.sectors, range.flags))
                .collect();
            assert_eq!(found, two);
        }
    }

    #[test]
    fn mistakes_in_ranges_are_told_apart() {
        let (discard, zeroes) = (VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_WRITE_ZEROES);
        let erase = VIRTIO_BLK_T_SECURE_ERASE;
        assert!(parse_ranges(zeroes, &[(9, 8, 1)], &[16]).is_ok());
        for (kind, range, length, word) in [
            (discard, (9, 8, 1), 16, "flag"),
            (erase, (9, 8, 1), 16, "flag"),
            (zeroes, (9, 8, 2), 16, "flag"),
            (discard, (9, 0, 0), 16, "empty"),
            (discard, (9, 8, 0), 15, "multiple"),
        ] {
            let found = parse_ranges(kind, &[range], &[length]).unwrap_err().reason;
            assert!(found.contains(word), "{range:?}: {found}");
        }
        let none = reason(discard, &[(16, false), (1, true)]);
        assert!(none.contains("no ranges"), "{none}");
        let written = reason(erase, &[(16, false), (16, true), (1, true)]);
        assert!(written.contains("a place for some"), "{written}");
    }

    #[test]
    fn mistakes_are_told_apart() {
        let read = VIRTIO_BLK_T_IN;
        for (chain, word) in [
            (vec![], "no end"),
            (vec![(16, false)], "status byte"),
            (vec![(16, false), (512, true), (2, true)], "status byte"),
            (vec![(8, false), (512, true), (1, true)], "header"),
            (vec![(512, true), (1, true)], "header"),
            (vec![(16, false), (1, true)], "no place"),
            (
                vec![(16, false), (512, false), (1, true)],
                "data of its own",
            ),
            (vec![(16, false), (100, true), (1, true)], "sectors"),
            (
                vec![(16, false), (0, true), (512, true), (1, true)],
                "empty",
            ),
            (vec![(16, false), (512, true), (1, false)], "follows"),
        ] {
            let found = reason(read, &chain);
            assert!(found.contains(word), "{chain:?}: {found}");
        }
    }

    #[test]
    fn a_mistake_keeps_its_place_for_the_status() {
        let chain = [(8, false), (512, true), (1, true)];
        let status = parse(VIRTIO_BLK_T_IN, &chain).unwrap_err().status;
        assert_eq!(status, Some(GuestAddress(0x2000)));
        assert_eq!(
            parse(VIRTIO_BLK_T_IN, &[(16, false)]).unwrap_err().status,
            None
        );
    }

    #[test]
    fn a_chain_that_breaks_off_has_no_status() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap();
        let descriptors = [
            Descriptor::new(HEADER_AT, 16, NEXT, 1),
            Descriptor::new(0x1000, 1, WRITE | NEXT, 2),
        ];
        let error = Request::parse(&memory, descriptors.into_iter()).unwrap_err();
        assert_eq!((error.reason, error.status), ("the chain has no end", None));
    }
}
