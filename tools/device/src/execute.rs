// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Carries requests out: moves the data, writes the status byte, counts.

use crate::counters::Counters;
use crate::device::Device;
use crate::ranges::Range;
use crate::request::{Buffer, Malformed, Operation, Request, SECTOR};
use crate::storage::Clear;
use crate::zones::Refusal;
use std::io;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ID_BYTES, VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
};
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions, VolatileSlice};

/// Why a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It cannot be carried out (`IOERR`).
    Io,
    /// The zones do not allow it.
    Zones(Refusal),
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Zones(refusal)
    }
}

/// Carries out what a chain asks for and returns how many bytes of the guest's memory were
/// written.
pub fn execute(
    device: &Device,
    counters: &Counters,
    memory: &GuestMemoryMmap,
    request: &Result<Request, Malformed>,
) -> u32 {
    counters.requests.increment();
    let (status, place, length) = match request {
        Ok(request) => {
            let (status, length) = perform(device, counters, memory, request);
            (status, Some(request.status), length)
        }
        Err(malformed) => {
            counters.bad_chains.increment();
            device.note_malformed(malformed.reason);
            (VIRTIO_BLK_S_IOERR, malformed.status, 0)
        }
    };
    match place.map(|place| write_status(memory, place, status)) {
        Some(Ok(())) => length.saturating_add(1),
        Some(Err(_)) => {
            counters.bad_chains.increment();
            device.note_malformed("the status byte is outside of the memory");
            0
        }
        None => 0,
    }
}

fn write_status(
    memory: &GuestMemoryMmap,
    place: GuestAddress,
    status: u32,
) -> vm_memory::GuestMemoryResult<()> {
    memory.write_obj(status as u8, place)
}

/// Counts what a request asks for.
fn count(counters: &Counters, request: &Request) {
    match request.operation {
        Operation::Read => counters.reads.increment(),
        Operation::Write => counters.writes.increment(),
        Operation::Flush => counters.flushes.increment(),
        Operation::GetId => counters.get_ids.increment(),
        Operation::Discard => counters.discards.increment(),
        Operation::WriteZeroes => counters.write_zeroes.increment(),
        Operation::SecureErase => counters.secure_erases.increment(),
        Operation::Zone(asked) => asked.count(counters),
        Operation::GetLifetime | Operation::Unknown(_) => {}
    }
    let unmaps = request.ranges.iter().filter(|range| range.flags != 0);
    counters.ranges.add(request.ranges.len() as u64);
    counters.unmaps.add(unmaps.count() as u64);
}

/// Returns the status, and the number of bytes of data that were written to the guest's memory.
fn perform(
    device: &Device,
    counters: &Counters,
    memory: &GuestMemoryMmap,
    request: &Request,
) -> (u32, u32) {
    count(counters, request);
    if let Some(status) = device.policy().fail.status(request.operation) {
        match status {
            VIRTIO_BLK_S_UNSUPP => return unsupported(counters),
            _ => counters.io_errors.increment(),
        }
        return (status, 0);
    }
    let zoned = device.zoned();
    let zoned = zoned.and_then(|zoned| zoned.perform(device, counters, memory, request));
    if let Some(result) = zoned {
        return conclude(counters, result);
    }
    let storage = device.storage();
    let mut written = 0;
    let result = match request.operation {
        Operation::Read => {
            written = request.length();
            transfer(device, memory, request, request.sector, |offset, slice| {
                storage.read(offset, slice)
            })
            .inspect(|()| counters.bytes_read.add(request.length()))
        }
        Operation::Write => transfer(device, memory, request, request.sector, |offset, slice| {
            device.write(offset, slice)
        })
        .and_then(|()| {
            counters.bytes_written.add(request.length());
            if device.has_write_cache() {
                Ok(())
            } else {
                storage.flush()
            }
        }),
        Operation::Flush => device.flush(),
        Operation::Discard | Operation::WriteZeroes | Operation::SecureErase => request
            .ranges
            .iter()
            .try_for_each(|range| clear(device, counters, request.operation, range)),
        Operation::GetId => match device.serial() {
            Some(serial) => {
                let mut id = [0; VIRTIO_BLK_ID_BYTES as usize];
                for (place, byte) in id.iter_mut().zip(serial.bytes()) {
                    *place = byte;
                }
                tell(memory, &request.data, &id).map(|count| written = count)
            }
            None => return unsupported(counters),
        },
        Operation::GetLifetime => match device.lifetime() {
            Some(lifetime) => {
                tell(memory, &request.data, &lifetime.bytes()).map(|count| written = count)
            }
            None => return unsupported(counters),
        },
        Operation::Zone(_) | Operation::Unknown(_) => return unsupported(counters),
    };
    conclude(counters, result.map(|()| written).map_err(Fault::from))
}

/// The status of a request, and how many bytes of data were written to the guest's memory.
fn conclude(counters: &Counters, result: Result<u64, Fault>) -> (u32, u32) {
    match result {
        Ok(written) => (VIRTIO_BLK_S_OK, u32::try_from(written).unwrap_or(u32::MAX)),
        Err(Fault::Io) => {
            counters.io_errors.increment();
            (VIRTIO_BLK_S_IOERR, 0)
        }
        Err(Fault::Zones(refusal)) => {
            counters.zone_refusals.increment();
            (refusal.status(), 0)
        }
    }
}

/// Calls `step` with each piece of the guest's memory and its place on the disk in bytes, of which
/// the first is at `sector`.
pub(crate) fn transfer(
    device: &Device,
    memory: &GuestMemoryMmap,
    request: &Request,
    sector: u64,
    mut step: impl FnMut(u64, &VolatileSlice<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let start = sector.checked_mul(SECTOR);
    let end = start.and_then(|start| start.checked_add(request.length()));
    let (Some(mut offset), Some(end)) = (start, end) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if end > device.storage().size() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for buffer in &request.data {
        let slices = memory
            .get_slices(
                buffer.address,
                buffer.length as usize,
                Permissions::ReadWrite,
            )
            .map_err(io::Error::other)?;
        for slice in slices {
            let slice = slice.map_err(io::Error::other)?;
            step(offset, &slice)?;
            offset += slice.len() as u64;
        }
    }
    Ok(())
}

/// Ends a request of a kind that the device does not know.
fn unsupported(counters: &Counters) -> (u32, u32) {
    counters.unsupported.increment();
    (VIRTIO_BLK_S_UNSUPP, 0)
}

/// Clears a range as the operation wants it.
fn clear(
    device: &Device,
    counters: &Counters,
    operation: Operation,
    range: &Range,
) -> io::Result<()> {
    let Some(place) = range.on_disk(device.storage().size()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let how = match operation {
        Operation::SecureErase => Clear::Overwrite,
        Operation::WriteZeroes if range.flags & Range::UNMAP == 0 => Clear::Zero,
        _ => Clear::Unmap,
    };
    let length = place.end - place.start;
    device.clear(place, how)?;
    counters.bytes_cleared.add(length);
    Ok(())
}

/// Fills the buffers with an answer, and returns how much of it they had room for.
pub(crate) fn tell(memory: &GuestMemoryMmap, buffers: &[Buffer], answer: &[u8]) -> io::Result<u64> {
    let mut rest = answer;
    for buffer in buffers {
        let (now, later) = rest.split_at(rest.len().min(buffer.length as usize));
        memory
            .write_slice(now, buffer.address)
            .map_err(io::Error::other)?;
        rest = later;
    }
    Ok((answer.len() - rest.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::Failures;
    use crate::options::Options;
    use crate::policy::Policy;
    use clap::Parser;
    use serde_json::json;

    const DATA: GuestAddress = GuestAddress(0x1000);
    const STATUS: GuestAddress = GuestAddress(0x8000);

    struct Bench {
        device: Device,
        counters: Counters,
        memory: GuestMemoryMmap,
    }

    impl Bench {
        fn new() -> Self {
            Self::with("--serial abc")
        }

        fn with(options: &str) -> Self {
            let line = ["vbr-device", "--socket", "s", "--size", "65536"].into_iter();
            let line = line.chain(options.split_whitespace());
            Self {
                device: Device::new(&Options::parse_from(line)).unwrap(),
                counters: Counters::default(),
                memory: GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap(),
            }
        }

        /// Returns the used length and the status.
        fn run(&self, operation: Operation, sector: u64, lengths: &[u32]) -> (u32, u32) {
            let mut address = DATA;
            let mut data = Vec::new();
            for length in lengths {
                data.push(Buffer {
                    address,
                    length: *length,
                });
                address.0 += u64::from(*length);
            }
            let request = Request {
                operation,
                sector,
                data,
                ranges: Vec::new(),
                status: STATUS,
            };
            self.execute(&Ok(request))
        }

        /// As [`Self::run`], for ranges of sectors and flags.
        fn run_ranges(&self, operation: Operation, ranges: &[(u64, u32, u32)]) -> (u32, u32) {
            let range = |(sector, sectors, flags)| Range {
                sector,
                sectors,
                flags,
            };
            let request = Request {
                operation,
                sector: 0,
                data: Vec::new(),
                ranges: ranges.iter().copied().map(range).collect(),
                status: STATUS,
            };
            self.execute(&Ok(request))
        }

        fn execute(&self, request: &Result<Request, Malformed>) -> (u32, u32) {
            self.memory.write_obj(0xff_u8, STATUS).unwrap();
            let length = execute(&self.device, &self.counters, &self.memory, request);
            let status: u8 = self.memory.read_obj(STATUS).unwrap();
            (length, status.into())
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let bench = Bench::new();
        bench.memory.write_slice(&[5; 1024], DATA).unwrap();
        let written = bench.run(Operation::Write, 126, &[512, 512]);
        assert_eq!(written, (1, VIRTIO_BLK_S_OK));
        bench.memory.write_slice(&[0; 1024], DATA).unwrap();
        let read = bench.run(Operation::Read, 126, &[1024]);
        assert_eq!(read, (1025, VIRTIO_BLK_S_OK));
        let mut found = [0; 1024];
        bench.memory.read_slice(&mut found, DATA).unwrap();
        assert_eq!(found, [5; 1024]);
        let counts = bench.counters.snapshot();
        assert_eq!((counts.reads, counts.writes, counts.requests), (1, 1, 2));
        assert_eq!((counts.bytes_read, counts.bytes_written), (1024, 1024));
    }

    #[test]
    fn the_end_of_the_disk_is_an_error() {
        let bench = Bench::new();
        for sector in [127, 128, u64::MAX / 512, u64::MAX] {
            let (length, status) = bench.run(Operation::Read, sector, &[512, 512]);
            assert_eq!((length, status), (1, VIRTIO_BLK_S_IOERR), "sector {sector}");
        }
        assert_eq!(bench.counters.snapshot().io_errors, 4);
    }

    #[test]
    fn memory_that_the_guest_does_not_have_is_an_error() {
        let bench = Bench::new();
        let request = Request {
            operation: Operation::Write,
            sector: 0,
            data: vec![Buffer {
                address: GuestAddress(0xffff_0000),
                length: 512,
            }],
            ranges: Vec::new(),
            status: STATUS,
        };
        assert_eq!(bench.execute(&Ok(request)), (1, VIRTIO_BLK_S_IOERR));
    }

    #[test]
    fn the_serial_number_is_padded() {
        let bench = Bench::new();
        bench.memory.write_slice(&[9; 20], DATA).unwrap();
        assert_eq!(bench.run(Operation::GetId, 0, &[20]), (21, VIRTIO_BLK_S_OK));
        let mut id = [0; 20];
        bench.memory.read_slice(&mut id, DATA).unwrap();
        assert_eq!(&id[..4], b"abc\0");
        assert!(id[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_lifetime_is_told_if_there_is_one() {
        let bench = Bench::with("--lifetime 1,2,3");
        let answer = bench.run(Operation::GetLifetime, 0, &[4, 2]);
        assert_eq!(answer, (7, VIRTIO_BLK_S_OK));
        let mut found = [0; 6];
        bench.memory.read_slice(&mut found, DATA).unwrap();
        assert_eq!(found, [1, 0, 2, 0, 3, 0]);
    }

    #[test]
    fn a_question_without_an_answer_is_unsupported() {
        let bench = Bench::with("--no-serial");
        for question in [Operation::GetId, Operation::GetLifetime] {
            let answer = bench.run(question, 0, &[20]);
            assert_eq!(answer, (1, VIRTIO_BLK_S_UNSUPP), "{question:?}");
        }
        assert_eq!(bench.counters.snapshot().unsupported, 2);
    }

    #[test]
    fn what_is_unknown_is_unsupported() {
        let bench = Bench::new();
        let answer = bench.run(Operation::Unknown(12), 0, &[]);
        assert_eq!(answer, (1, VIRTIO_BLK_S_UNSUPP));
        assert_eq!(bench.counters.snapshot().unsupported, 1);
    }

    #[test]
    fn ranges_are_cleared() {
        for (operation, flags) in [
            (Operation::Discard, 0),
            (Operation::WriteZeroes, 0),
            (Operation::WriteZeroes, 1),
            (Operation::SecureErase, 0),
        ] {
            let bench = Bench::new();
            bench.memory.write_slice(&[5; 2048], DATA).unwrap();
            bench.run(Operation::Write, 10, &[2048]);
            let answer = bench.run_ranges(operation, &[(10, 1, flags), (12, 1, 0)]);
            assert_eq!(answer, (1, VIRTIO_BLK_S_OK));
            bench.run(Operation::Read, 10, &[2048]);
            let mut found = [9; 2048];
            bench.memory.read_slice(&mut found, DATA).unwrap();
            for (sector, right) in found.chunks(512).zip([0, 5, 0, 5]) {
                assert_eq!(sector, [right; 512], "{operation:?}");
            }
            let counts = bench.counters.snapshot();
            let of_kind = counts.discards + counts.write_zeroes + counts.secure_erases;
            assert_eq!((of_kind, counts.ranges, counts.bytes_cleared), (1, 2, 1024));
            assert_eq!(counts.unmaps, u64::from(flags));
        }
    }

    #[test]
    fn what_is_to_fail_fails_without_being_carried_out() {
        let bench = Bench::new();
        let fail = json!({"read": "ioerr", "discard": "unsupp"});
        bench.device.set_policy(Policy {
            fail: Failures::from_json(&fail).unwrap(),
            ..Policy::default()
        });
        let read = bench.run(Operation::Read, 0, &[512]);
        assert_eq!(read, (1, VIRTIO_BLK_S_IOERR));
        let discard = bench.run_ranges(Operation::Discard, &[(0, 1, 0)]);
        assert_eq!(discard, (1, VIRTIO_BLK_S_UNSUPP));
        assert_eq!(bench.run(Operation::Flush, 0, &[]), (1, VIRTIO_BLK_S_OK));
        let counts = bench.counters.snapshot();
        assert_eq!((counts.reads, counts.discards, counts.flushes), (1, 1, 1));
        assert_eq!((counts.io_errors, counts.unsupported), (1, 1));
        assert_eq!((counts.bytes_read, counts.bytes_cleared), (0, 0));
    }

    #[test]
    fn a_malformed_chain_is_counted_and_ended() {
        let bench = Bench::new();
        let mut malformed = Malformed {
            reason: "wrong",
            status: Some(STATUS),
        };
        assert_eq!(bench.execute(&Err(malformed)), (1, VIRTIO_BLK_S_IOERR));
        malformed.status = None;
        assert_eq!(bench.execute(&Err(malformed)), (0, 0xff));
        assert_eq!(bench.counters.snapshot().bad_chains, 2);
        assert_eq!(bench.device.last_malformed(), Some("wrong"));
    }
}
