// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How worn a disk says it is (`VIRTIO_BLK_F_LIFETIME`, virtio 1.2, section 5.2.6), which the
//! kernel's header does not know.

use anyhow::{bail, Result};
use std::str::FromStr;

/// The feature bit, `VIRTIO_BLK_F_LIFETIME`.
pub const FEATURE: u32 = 15;

/// The type of the request, `VIRTIO_BLK_T_GET_LIFETIME`.
pub const REQUEST: u32 = 10;

/// The answer: `pre_eol_info`, and an estimate for two types of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime([u16; 3]);

impl Lifetime {
    /// The answer's bytes.
    pub fn bytes(self) -> [u8; 6] {
        let [[a, b], [c, d], [e, f]] = self.0.map(u16::to_le_bytes);
        [a, b, c, d, e, f]
    }
}

impl FromStr for Lifetime {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Result<Vec<_>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([a, b, c]) => Ok(Self([*a, *b, *c])),
            _ => bail!("{text:?} is no lifetime: give three numbers from 0 to 65535, as in 1,2,3"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_make_an_answer() {
        let lifetime: Lifetime = "1,10,4660".parse().unwrap();
        assert_eq!(lifetime.bytes(), [1, 0, 10, 0, 0x34, 0x12]);
        for text in ["", "1,2", "1,2,3,4", "1,2,65536", "a,b,c"] {
            let refusal = text.parse::<Lifetime>().unwrap_err().to_string();
            assert!(refusal.contains("three numbers"), "{refusal}");
        }
    }
}
