// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The Rust driver's own counters, from debugfs.

use crate::queue_file::QueueFile;
use anyhow::{Context, Result};
use std::ops::{Add, Sub};

/// What one queue, or several together, did since the driver was bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Interrupts that reached the driver.
    pub interrupts: u64,
    /// Interrupts that found nothing completed.
    pub empty_interrupts: u64,
    /// Passes over the used ring.
    pub drains: u64,
    /// Requests that the device has returned.
    pub completions: u64,
    /// Notifications sent to the device.
    pub kicks: u64,
    /// Notifications that the device did not want.
    pub suppressed_kicks: u64,
    /// Times that a full ring stopped the queue.
    pub ring_full_stops: u64,
    /// Most requests returned by one interrupt. Of a difference, the later value.
    pub largest_batch: u64,
    /// Interrupts by the number of requests that they returned: in bucket 0 none, in bucket k
    /// from 2^(k-1) to 2^k - 1.
    pub completions_per_interrupt: Vec<u64>,
}

const HISTOGRAM: &str = "hist_completions_per_interrupt";

impl Counters {
    /// Parses one queue's file.
    pub fn parse(text: &str) -> Result<Self> {
        let file = QueueFile::parse(text)?;
        let missing = |name: &str| format!("the counters have no {name}: {text:?}");
        let value = |name| file.value(name).with_context(|| missing(name));
        let histogram = file.histogram(HISTOGRAM);
        Ok(Self {
            interrupts: value("interrupts")?,
            empty_interrupts: value("empty_interrupts")?,
            drains: value("drains")?,
            completions: value("completions")?,
            kicks: value("kicks")?,
            suppressed_kicks: value("suppressed_kicks")?,
            ring_full_stops: value("ring_full_stops")?,
            largest_batch: value("largest_batch")?,
            completions_per_interrupt: histogram.with_context(|| missing(HISTOGRAM))?.to_vec(),
        })
    }

    fn combine(&self, other: &Self, of: impl Fn(u64, u64) -> u64, largest_batch: u64) -> Self {
        let buckets = &self.completions_per_interrupt;
        let others = &other.completions_per_interrupt;
        let bucket = |buckets: &[u64], k: usize| buckets.get(k).copied().unwrap_or_default();
        let histogram =
            (0..buckets.len().max(others.len())).map(|k| of(bucket(buckets, k), bucket(others, k)));
        Self {
            interrupts: of(self.interrupts, other.interrupts),
            empty_interrupts: of(self.empty_interrupts, other.empty_interrupts),
            drains: of(self.drains, other.drains),
            completions: of(self.completions, other.completions),
            kicks: of(self.kicks, other.kicks),
            suppressed_kicks: of(self.suppressed_kicks, other.suppressed_kicks),
            ring_full_stops: of(self.ring_full_stops, other.ring_full_stops),
            largest_batch,
            completions_per_interrupt: histogram.collect(),
        }
    }
}

impl Add<&Counters> for &Counters {
    type Output = Counters;

    /// Two queues together.
    fn add(self, other: &Counters) -> Counters {
        let largest_batch = self.largest_batch.max(other.largest_batch);
        self.combine(other, u64::saturating_add, largest_batch)
    }
}

impl Sub<&Counters> for &Counters {
    type Output = Counters;

    /// What was added since `earlier`.
    fn sub(self, earlier: &Counters) -> Counters {
        self.combine(earlier, u64::saturating_sub, self.largest_batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "interrupts 10\nempty_interrupts 1\ndrains 12\ncompletions 100\n\
                         kicks 40\nsuppressed_kicks 60\nring_full_stops 2\nlargest_batch 31\n\
                         hist_completions_per_interrupt 1 2 3 4\n";

    #[test]
    fn parses_every_counter() {
        let counters = Counters::parse(QUEUE).unwrap();
        assert_eq!((counters.interrupts, counters.empty_interrupts), (10, 1));
        assert_eq!((counters.drains, counters.completions), (12, 100));
        assert_eq!((counters.kicks, counters.suppressed_kicks), (40, 60));
        assert_eq!((counters.ring_full_stops, counters.largest_batch), (2, 31));
        assert_eq!(counters.completions_per_interrupt, [1, 2, 3, 4]);
    }

    #[test]
    fn a_missing_counter_is_named() {
        let message = Counters::parse("interrupts 1\n").unwrap_err().to_string();
        assert!(message.contains("empty_interrupts"), "{message}");
        let message = Counters::parse(&QUEUE.replace("hist", "hits")).unwrap_err();
        assert!(message.to_string().contains(HISTOGRAM), "{message}");
    }

    #[test]
    fn queues_add_up_and_times_subtract() {
        let one = Counters::parse(QUEUE).unwrap();
        let two = &one + &one;
        assert_eq!(two.completions, 200);
        assert_eq!(two.largest_batch, 31);
        assert_eq!(two.completions_per_interrupt, [2, 4, 6, 8]);
        assert_eq!(&two - &one, one);
    }
}
