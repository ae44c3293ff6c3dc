// SPDX-License-Identifier: GPL-2.0

//! Sizes as the kernel words them.
//!
//! C header: [`include/linux/string_helpers.h`](srctree/include/linux/string_helpers.h)

use kernel::{bindings, fmt, prelude::*};

/// A size in words such as `1.07 GB` or `1.00 GiB`.
pub struct Size([u8; Self::LEN]);

impl Size {
    /// Three digits, a point, a space and a unit, and the byte that ends it.
    const LEN: usize = 10;

    /// The size of `blocks` blocks of `block` bytes in powers of 1000. C function:
    /// `string_get_size()` with `STRING_UNITS_10`.
    pub fn decimal(blocks: u64, block: u32) -> Self {
        Self::new(blocks, block, bindings::string_size_units_STRING_UNITS_10)
    }

    /// The size of `blocks` blocks of `block` bytes in powers of 1024. C function:
    /// `string_get_size()` with `STRING_UNITS_2`.
    pub fn binary(blocks: u64, block: u32) -> Self {
        Self::new(blocks, block, bindings::string_size_units_STRING_UNITS_2)
    }

    fn new(blocks: u64, block: u32, units: bindings::string_size_units) -> Self {
        let mut text = [0; Self::LEN];
        // SAFETY: The buffer has the stated length, the last byte of which the function keeps for
        // the end of the string.
        unsafe {
            bindings::string_get_size(
                blocks,
                block.into(),
                units,
                text.as_mut_ptr().cast(),
                Self::LEN as i32,
            )
        };
        Self(text)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = CStr::from_bytes_until_nul(&self.0).unwrap_or_default();
        f.write_str(text.to_str().unwrap_or_default())
    }
}
