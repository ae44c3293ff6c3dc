// SPDX-License-Identifier: GPL-2.0

//! The buckets of the histogram: powers of two, none left out, none too many.

use models::driver::histogram::{bucket, BUCKETS, TIME_BUCKETS};
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
            assert_eq!(bucket(count.into(), BUCKETS), index, "{count}");
        }
    }
}

#[test]
fn the_last_bucket_takes_the_largest_ring_and_all_above() {
    assert_eq!(bucket(32767, BUCKETS), BUCKETS - 2);
    for count in [32768, 32769, 65536, u64::MAX] {
        assert_eq!(bucket(count, BUCKETS), BUCKETS - 1, "{count}");
    }
}

#[test]
fn the_last_bucket_of_times_takes_a_second_and_all_above() {
    assert_eq!(bucket((1 << 30) - 1, TIME_BUCKETS), TIME_BUCKETS - 2);
    for time in [1 << 30, 1 << 40, u64::MAX] {
        assert_eq!(bucket(time, TIME_BUCKETS), TIME_BUCKETS - 1, "{time}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn more_never_falls_lower(count in 0..u64::MAX, buckets in 0..70usize) {
        prop_assert!(bucket(count, buckets) <= bucket(count + 1, buckets));
        prop_assert!(bucket(count, buckets) < buckets.max(1));
    }
}
