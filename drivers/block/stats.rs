// SPDX-License-Identifier: GPL-2.0

//! The counters of a queue. They start at 0 when the disk appears and are never reset.

use crate::{
    completion::Pass,
    histogram::{bucket, BUCKETS},
};
use kernel::{
    fmt,
    sync::atomic::{Atomic, Relaxed},
};

/// A counter with one writer at a time: whoever has the queue's lock. Readers need no lock.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, count: u32) {
        self.set(self.get().wrapping_add(count.into()));
    }
}

/// The counters of a queue. All are written under the queue's lock.
pub(crate) struct Stats {
    /// Interrupts that reached the driver. The virtio core keeps away those that find the used ring
    /// empty, so `/proc/interrupts` may show more.
    interrupts: Counter,
    /// Those of them that found nothing to complete.
    empty_interrupts: Counter,
    /// Times that the used ring was drained.
    drains: Counter,
    /// Requests that the device returned.
    completions: Counter,
    /// Times that the device was notified.
    pub(crate) kicks: Counter,
    /// Times that it was not, because it did not want to be.
    pub(crate) suppressed_kicks: Counter,
    /// Times that the queue was stopped because the ring was full.
    pub(crate) ring_full_stops: Counter,
    /// Passes outside of interrupts: after a budget was used up, for a request that timed out, or
    /// for a change of mode.
    polls: Counter,
    /// Requests that were found completed only when their time was up.
    pub(crate) missed_interrupts: Counter,
    /// The most requests that one interrupt completed.
    largest_batch: Counter,
    /// How many interrupts completed how many requests.
    histogram: [Counter; BUCKETS],
}

impl Stats {
    pub(crate) const fn new() -> Self {
        Self {
            interrupts: Counter::new(),
            empty_interrupts: Counter::new(),
            drains: Counter::new(),
            completions: Counter::new(),
            kicks: Counter::new(),
            suppressed_kicks: Counter::new(),
            ring_full_stops: Counter::new(),
            polls: Counter::new(),
            missed_interrupts: Counter::new(),
            largest_batch: Counter::new(),
            histogram: [const { Counter::new() }; BUCKETS],
        }
    }

    /// Counts what an interrupt did.
    #[inline]
    pub(crate) fn count_interrupt(&self, pass: &Pass) {
        self.interrupts.add(1);
        if pass.completions == 0 {
            self.empty_interrupts.add(1);
        }
        if u64::from(pass.completions) > self.largest_batch.get() {
            self.largest_batch.set(pass.completions.into());
        }
        if let Some(count) = self.histogram.get(bucket(pass.completions)) {
            count.add(1);
        }
        self.count_pass(pass);
    }

    /// Counts what a poll did.
    pub(crate) fn count_poll(&self, pass: &Pass) {
        self.polls.add(1);
        self.count_pass(pass);
    }

    #[inline]
    fn count_pass(&self, pass: &Pass) {
        self.drains.add(pass.drains);
        self.completions.add(pass.completions);
    }

    /// Writes one counter a line, its name and its value, with the buckets of the histogram in one
    /// line.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = [
            ("interrupts", &self.interrupts),
            ("empty_interrupts", &self.empty_interrupts),
            ("drains", &self.drains),
            ("completions", &self.completions),
            ("kicks", &self.kicks),
            ("suppressed_kicks", &self.suppressed_kicks),
            ("ring_full_stops", &self.ring_full_stops),
            ("polls", &self.polls),
            ("missed_interrupts", &self.missed_interrupts),
            ("largest_batch", &self.largest_batch),
        ];
        for (name, counter) in counters {
            writeln!(f, "{name} {}", counter.get())?;
        }
        f.write_str("hist_completions_per_interrupt")?;
        for count in &self.histogram {
            write!(f, " {}", count.get())?;
        }
        f.write_str("\n")
    }
}
