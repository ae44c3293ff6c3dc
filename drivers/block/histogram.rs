// SPDX-License-Identifier: GPL-2.0

//! The buckets of the histogram of completions per interrupt.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// How many buckets there are: for 0, and for each power of two up to the largest ring, 32768.
pub const BUCKETS: usize = 17;

/// The bucket of `count`: 0 for 0, and k for 2^(k-1) to 2^k - 1. The last one takes all that is
/// more.
#[inline]
pub const fn bucket(count: u32) -> usize {
    let bits = (u32::BITS - count.leading_zeros()) as usize;
    if bits < BUCKETS {
        bits
    } else {
        BUCKETS - 1
    }
}
