// SPDX-License-Identifier: GPL-2.0

//! What devices answer when they are asked about themselves.

use models::driver::answers::{serial, Lifetime, SERIAL};

#[test]
fn a_serial_number_ends_with_a_zero_byte_or_not_at_all() {
    let full = [b'x'; SERIAL];
    assert_eq!(serial(&full), full);
    let mut padded = [0; SERIAL];
    padded[..3].copy_from_slice(b"abc");
    assert_eq!(serial(&padded), b"abc");
    assert_eq!(serial(&[0; SERIAL]), b"");
    assert_eq!(serial(b"a\0b"), b"a");
    assert_eq!(serial(b""), b"");
    assert_eq!(serial(&[b'y'; SERIAL + 5]), [b'y'; SERIAL]);
}

#[test]
fn a_lifetime_is_three_little_endian_numbers() {
    let answer = [1, 0, 10, 0, 0x34, 0x12];
    assert_eq!(answer.len(), Lifetime::LEN);
    let known = Lifetime {
        pre_eol_info: 1,
        device_lifetime_est_typ_a: 10,
        device_lifetime_est_typ_b: 0x1234,
    };
    assert_eq!(Lifetime::decode(&answer), Some(known));
    assert_eq!(Lifetime::decode(&answer[..5]), None);
}
