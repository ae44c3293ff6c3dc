// SPDX-License-Identifier: GPL-2.0

//! A major number, for disks whose device numbers do not come from the extended range.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use kernel::{bindings, prelude::*};

/// A major number of a driver's own, under a name in `/proc/devices`.
pub struct Major {
    number: u32,
    name: &'static CStr,
}

impl Major {
    /// How many minor numbers it has.
    pub const MINORS: u32 = 1 << bindings::MINORBITS;

    /// Registers a free number. Process context. C function: `register_blkdev()`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if none is free; `ENOMEM`.
    pub fn register(name: &'static CStr) -> Result<Self> {
        // SAFETY: The name is `'static`; nothing is to be loaded on demand.
        let number = unsafe { bindings::__register_blkdev(0, name.as_char_ptr(), None) };
        kernel::error::to_result(number)?;
        Ok(Self {
            number: number.unsigned_abs(),
            name,
        })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Major {
    fn drop(&mut self) {
        // SAFETY: The number was registered under this name.
        unsafe { bindings::unregister_blkdev(self.number, self.name.as_char_ptr()) };
    }
}
