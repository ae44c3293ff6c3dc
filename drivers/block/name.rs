// SPDX-License-Identifier: GPL-2.0

//! The names of disks: `vda`, `vdb`, … `vdz`, `vdaa`, …
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

use core::fmt;

/// What every name starts with.
const PREFIX: &[u8] = b"vd";

/// The letters that count.
const LETTERS: u32 = 26;

/// The longest name, and its end: the prefix, seven letters for any 32-bit index, and a NUL.
const CAPACITY: usize = 2 + 7 + 1;

/// The name of a disk, with a NUL behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskName {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl DiskName {
    /// The name of the disk number `index`: letters in bijective base 26.
    pub fn new(index: u32) -> Self {
        let mut bytes = [0; CAPACITY];
        let mut len = 0;
        let mut letters = [0; CAPACITY];
        let mut count = 0;
        let mut rest = Some(index);
        for slot in &mut letters {
            let Some(value) = rest else {
                break;
            };
            *slot = b'a' + (value % LETTERS) as u8;
            count += 1;
            rest = (value / LETTERS).checked_sub(1);
        }
        let name = PREFIX.iter().chain(letters.iter().take(count).rev());
        for (to, from) in bytes.iter_mut().zip(name) {
            *to = *from;
            len += 1;
        }
        Self { bytes, len }
    }

    /// The name, without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The name with its NUL.
    pub fn as_bytes_with_nul(&self) -> &[u8] {
        self.bytes.get(..self.len + 1).unwrap_or(&[0])
    }
}

impl fmt::Display for DiskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}
