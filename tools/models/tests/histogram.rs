// SPDX-License-Identifier: GPL-2.0

//! The buckets of the histogram: powers of two, none left out, none too many.

use models::driver::histogram::{bucket, BUCKETS};
use proptest::prelude::*;

/// The smallest count of a bucket.
fn first_of(bucket: usize) -> u32 {
    if bucket == 0 {
        0
    } else {
        1 << (bucket - 1)
    }
}

#[test]
fn each_bucket_has_its_range() {
    for index in 0..BUCKETS - 1 {
        let (first, last) = (first_of(index), first_of(index + 1) - 1);
        for count in [first, first.midpoint(last), last] {
            assert_eq!(bucket(count), index, "{count}");
        }
    }
}

#[test]
fn the_last_bucket_takes_the_largest_ring_and_all_above() {
    assert_eq!(bucket(32767), BUCKETS - 2);
    for count in [32768, 32769, 65536, u32::MAX] {
        assert_eq!(bucket(count), BUCKETS - 1, "{count}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_never_falls_lower(count in 0..u32::MAX) {
        prop_assert!(bucket(count) <= bucket(count + 1));
        prop_assert!(bucket(count) < BUCKETS);
    }
}
