// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Requests on a disk with zones, as the guest's memory shows them.

use clap::Parser;
use device::counters::Counters;
use device::device::Device;
use device::execute::execute;
use device::options::Options;
use device::request::{Buffer, Operation, Request};
use device::zoned::ZoneRequest;
use device::zones::Action;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_ZONED, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_S_ZONE_INVALID_CMD,
    VIRTIO_BLK_S_ZONE_UNALIGNED_WP,
};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const DATA: GuestAddress = GuestAddress(0x1000);
const STATUS: GuestAddress = GuestAddress(0x8008);

struct Bench {
    device: Device,
    counters: Counters,
    memory: GuestMemoryMmap,
}

impl Bench {
    fn new(features: u64) -> Self {
        let line = "vbr-device --socket s --size 65536 --zone-sectors 64";
        let device = Device::new(&Options::parse_from(line.split(' '))).unwrap();
        device.accept(features);
        Self {
            device,
            counters: Counters::default(),
            memory: GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap(),
        }
    }

    /// Returns the used length and the status.
    fn run(&self, operation: Operation, sector: u64, length: u32) -> (u32, u32) {
        self.memory.write_obj(0xff_u8, STATUS).unwrap();
        let buffer = Buffer {
            address: DATA,
            length,
        };
        let request = Request {
            operation,
            sector,
            data: if length > 0 { vec![buffer] } else { Vec::new() },
            ranges: Vec::new(),
            status: STATUS,
        };
        let length = execute(&self.device, &self.counters, &self.memory, &Ok(request));
        let status: u8 = self.memory.read_obj(STATUS).unwrap();
        (length, status.into())
    }

    fn fill(&self, byte: u8) {
        self.memory.write_slice(&[byte; 4096], DATA).unwrap();
    }

    fn data(&self) -> [u8; 4096] {
        let mut data = [0; 4096];
        self.memory.read_slice(&mut data, DATA).unwrap();
        data
    }
}

#[test]
fn an_append_tells_where_its_data_is() {
    let bench = Bench::new(1 << VIRTIO_BLK_F_ZONED);
    let append = Operation::Zone(ZoneRequest::Append);
    for place in [64_u64, 66] {
        bench.fill(place as u8);
        assert_eq!(bench.run(append, 64, 1024), (9, VIRTIO_BLK_S_OK));
        let told: u64 = bench.memory.read_obj(GuestAddress(0x8000)).unwrap();
        assert_eq!(told, place);
    }
    // Behind the write pointer there are zeroes, whatever the buffer holds.
    bench.fill(1);
    assert_eq!(
        bench.run(Operation::Read, 65, 2048),
        (2049, VIRTIO_BLK_S_OK)
    );
    let data = bench.data();
    assert_eq!((data[0], data[512], data[1535]), (64, 66, 66));
    assert_eq!((data[1536], data[2047], data[2048]), (0, 0, 1));
    let counts = bench.counters.snapshot();
    assert_eq!((counts.zone_appends, counts.bytes_written), (2, 2048));
}

#[test]
fn a_zone_that_was_reset_forgets() {
    let bench = Bench::new(1 << VIRTIO_BLK_F_ZONED);
    bench.fill(7);
    assert_eq!(bench.run(Operation::Write, 0, 512), (1, VIRTIO_BLK_S_OK));
    let again = bench.run(Operation::Write, 0, 512);
    assert_eq!(again, (1, VIRTIO_BLK_S_ZONE_UNALIGNED_WP));
    let reset = Operation::Zone(ZoneRequest::Act(Action::Reset));
    assert_eq!(bench.run(reset, 0, 0), (1, VIRTIO_BLK_S_OK));
    assert_eq!(bench.run(Operation::Read, 0, 512), (513, VIRTIO_BLK_S_OK));
    assert_eq!(bench.data()[..512], [0; 512]);
    let off_the_start = bench.run(reset, 1, 0);
    assert_eq!(off_the_start, (1, VIRTIO_BLK_S_ZONE_INVALID_CMD));
    let counts = bench.counters.snapshot();
    assert_eq!((counts.zone_resets, counts.zone_refusals), (2, 2));
    assert_eq!(counts.io_errors, 0);
}

#[test]
fn a_report_fills_the_buffer_as_far_as_it_goes() {
    let bench = Bench::new(1 << VIRTIO_BLK_F_ZONED);
    bench.fill(9);
    let report = Operation::Zone(ZoneRequest::Report);
    assert_eq!(bench.run(report, 64, 200), (129, VIRTIO_BLK_S_OK));
    let data = bench.data();
    assert_eq!(data[..8], 1_u64.to_le_bytes());
    assert_eq!(data[64 + 8..][..8], 64_u64.to_le_bytes());
    assert_eq!(data[128], 9);
}

/// The driver must not ask for zones unless it has accepted the feature.
#[test]
fn zones_are_for_those_who_know_them() {
    let bench = Bench::new(0);
    for request in [
        ZoneRequest::Append,
        ZoneRequest::Report,
        ZoneRequest::ResetAll,
        ZoneRequest::Act(Action::Open),
    ] {
        let answer = bench.run(Operation::Zone(request), 0, 512);
        assert_eq!(answer, (1, VIRTIO_BLK_S_UNSUPP), "{request:?}");
    }
    assert_eq!(bench.counters.snapshot().unsupported, 4);
}
