// SPDX-License-Identifier: GPL-2.0

//! What a device answers when it is asked about itself (virtio 1.2, section 5.2.6 "Device
//! Operation").
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// The length of a serial number, `VIRTIO_BLK_ID_BYTES`.
pub const SERIAL: usize = 20;

/// The serial number in an answer. It ends with a zero byte only where it is shorter than
/// [`SERIAL`].
pub fn serial(answer: &[u8]) -> &[u8] {
    let answer = answer.get(..SERIAL).unwrap_or(answer);
    answer.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// How worn the device is, `struct virtio_blk_lifetime`. What the numbers mean is in the eMMC
/// standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The state of the reserved blocks.
    pub pre_eol_info: u16,
    /// The estimate for one type of memory, in tenths of the life.
    pub device_lifetime_est_typ_a: u16,
    /// The estimate for the other type of memory, in tenths of the life.
    pub device_lifetime_est_typ_b: u16,
}

impl Lifetime {
    /// The length of an answer.
    pub const LEN: usize = 6;

    /// Decodes an answer, which is little-endian; [`None`] if it is too short.
    pub const fn decode(answer: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, ..] = answer else {
            return None;
        };
        Some(Self {
            pre_eol_info: u16::from_le_bytes([*a, *b]),
            device_lifetime_est_typ_a: u16::from_le_bytes([*c, *d]),
            device_lifetime_est_typ_b: u16::from_le_bytes([*e, *f]),
        })
    }
}
