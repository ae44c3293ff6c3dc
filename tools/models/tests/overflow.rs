// SPDX-License-Identifier: GPL-2.0

//! The pure files are built as the kernel builds them.

use std::hint::black_box;
use std::panic::catch_unwind;

/// With CONFIG_RUST_OVERFLOW_CHECKS an overflow stops the kernel: so it must stop these tests.
#[test]
fn overflows_are_checked() {
    assert!(catch_unwind(|| black_box(u8::MAX) + black_box(1)).is_err());
}
