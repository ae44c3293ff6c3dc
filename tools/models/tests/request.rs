// SPDX-License-Identifier: GPL-2.0

//! The request header, ranges and status byte, byte for byte as the specification has them.

use models::driver::request::{
    decode, decode_appended, encode, encode_range, Kind, Order, Outcome, HEADER, RANGE, TRAILER,
    UNMAP,
};
use proptest::prelude::*;

#[test]
fn a_little_endian_header_is_known() {
    let header = encode(Order::Little, Kind::Out, 0x4321, 0x0102_0304_0506_0708);
    let known = [
        1, 0, 0, 0, // type
        0x21, 0x43, 0, 0, // ioprio
        8, 7, 6, 5, 4, 3, 2, 1, // sector
    ];
    assert_eq!(header, known);
}

#[test]
fn kinds_have_the_numbers_of_the_specification() {
    for (kind, number) in [
        (Kind::In, 0),
        (Kind::Out, 1),
        (Kind::Flush, 4),
        (Kind::GetId, 8),
        (Kind::GetLifetime, 10),
        (Kind::Discard, 11),
        (Kind::WriteZeroes, 13),
        (Kind::SecureErase, 14),
        (Kind::ZoneAppend, 15),
        (Kind::ZoneReport, 16),
        (Kind::ZoneOpen, 18),
        (Kind::ZoneClose, 20),
        (Kind::ZoneFinish, 22),
        (Kind::ZoneReset, 24),
        (Kind::ZoneResetAll, 26),
    ] {
        let header = encode(Order::Little, kind, 0, 0);
        assert_eq!(header[..4], u32::to_le_bytes(number), "{kind:?}");
        assert_eq!(header[4..], [0; 12], "{kind:?}");
    }
}

#[test]
fn lengths_are_those_of_the_specification() {
    assert_eq!((HEADER, TRAILER, RANGE), (16, 9, 16));
}

#[test]
fn a_range_is_known() {
    let known = [
        8, 7, 6, 5, 4, 3, 2, 1, // sector
        4, 3, 2, 1, // number of sectors
        1, 0, 0, 0, // flags
    ];
    assert_eq!(
        encode_range(0x0102_0304_0506_0708, 0x0102_0304, UNMAP),
        known
    );
}

#[test]
fn an_append_is_told_its_sector() {
    let trailer = [8, 7, 6, 5, 4, 3, 2, 1, 0];
    assert_eq!(decode_appended(trailer), 0x0102_0304_0506_0708);
}

#[test]
fn only_zero_is_success() {
    for status in 0..=u8::MAX {
        let expected = match status {
            0 => Outcome::Ok,
            2 => Outcome::Unsupported,
            5 => Outcome::ZoneOpenResource,
            6 => Outcome::ZoneActiveResource,
            _ => Outcome::Failed,
        };
        assert_eq!(decode(status), expected, "{status}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn headers_carry_every_field(
        kind in prop::sample::select(vec![Kind::In, Kind::Out, Kind::Flush]),
        ioprio in any::<u16>(),
        sector in any::<u64>(),
    ) {
        let header = encode(Order::Little, kind, ioprio, sector);
        prop_assert_eq!(&header[..4], &(kind as u32).to_le_bytes());
        prop_assert_eq!(&header[4..8], &u32::from(ioprio).to_le_bytes());
        prop_assert_eq!(&header[8..], &sector.to_le_bytes());
        let header = encode(Order::Native, kind, ioprio, sector);
        prop_assert_eq!(&header[..4], &(kind as u32).to_ne_bytes());
        prop_assert_eq!(&header[4..8], &u32::from(ioprio).to_ne_bytes());
        prop_assert_eq!(&header[8..], &sector.to_ne_bytes());
    }
}
