// SPDX-License-Identifier: GPL-2.0

//! The buckets of histograms: powers of two.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// How many buckets the histogram of completions per interrupt has: for 0, and for each power of
/// two up to the largest ring, 32768.
pub const BUCKETS: usize = 17;

/// How many buckets the histogram of the time of kicks has: up to 2^31 ns, two seconds.
pub const TIME_BUCKETS: usize = 32;

/// The bucket of `value` out of `buckets`: 0 for 0, and k for 2^(k-1) to 2^k - 1. The last one
/// takes all that is more.
#[inline]
pub const fn bucket(value: u64, buckets: usize) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    if bits < buckets {
        bits
    } else {
        buckets.saturating_sub(1)
    }
}
