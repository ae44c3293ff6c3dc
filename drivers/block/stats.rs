// SPDX-License-Identifier: GPL-2.0

//! The counters of a queue. They start at 0 when the disk appears and are never reset.

use crate::{
    completion::{End, Pass},
    histogram::{bucket, BUCKETS},
};
use kernel::fmt;

/// What made passes of the completion protocol run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An interrupt of the device.
    Interrupt,
    /// A budget was used up.
    Continuation,
    /// A request took too long, or settings changed: the device is to signal the next completion.
    Rearm,
    /// The time of a late signal is over.
    Timer,
    /// Somebody polls a queue without interrupts.
    Poll,
}

/// A counter. It wraps around.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counter(u64);

impl Counter {
    #[inline]
    pub(crate) fn add(&mut self, count: impl Into<u64>) {
        self.0 = self.0.wrapping_add(count.into());
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

/// The counters of a queue, guarded by its lock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stats {
    /// Interrupts that reached the driver. The virtio core keeps away those that find the used ring
    /// empty, so `/proc/interrupts` may show more.
    interrupts: Counter,
    /// Those of them that found nothing to complete.
    empty_interrupts: Counter,
    /// Times that the used ring was drained. To look whether more has come is none, if nothing has.
    drains: Counter,
    /// Requests that the device returned.
    completions: Counter,
    /// Times that the device was notified.
    pub(crate) kicks: Counter,
    /// Times that it was not, because it did not want to be.
    pub(crate) suppressed_kicks: Counter,
    /// Times that the queue was stopped because the ring was full.
    pub(crate) ring_full_stops: Counter,
    /// Visits that were neither an interrupt's nor the timer's.
    polls: Counter,
    /// Requests that were found completed only when their time was up.
    pub(crate) missed_interrupts: Counter,
    /// The most requests that one interrupt completed.
    largest_batch: Counter,
    /// Passes after which nothing waited although coalescing is on: the depth was low, or an urgent
    /// request in flight.
    pub(crate) immediate_bypasses: Counter,
    /// Urgent requests that had a late signal made an immediate one.
    pub(crate) hastened: Counter,
    /// Visits by the timer.
    timer_fires: Counter,
    /// Requests that they collected.
    timer_completions: Counter,
    /// Passes after which the device signals late, or not at all.
    late_ends: Counter,
    /// Changes of what coalescing chose by a factor of two.
    pub(crate) coalesce_changes: Counter,
    /// Times that the lock was taken, and those of them that somebody else had it.
    pub(crate) lock_acquisitions: Counter,
    pub(crate) lock_contended: Counter,
    /// How many interrupts completed how many requests.
    histogram: [Counter; BUCKETS],
}

impl Stats {
    /// Counts what a pass did; whether it was the `first` of its visit.
    #[inline]
    pub(crate) fn count(&mut self, source: Source, first: bool, pass: &Pass) {
        match source {
            Source::Interrupt => self.interrupts.add(first),
            Source::Timer => {
                self.timer_fires.add(first);
                self.timer_completions.add(pass.completions);
            }
            Source::Continuation | Source::Rearm | Source::Poll => self.polls.add(first),
        }
        self.drains.add(if first {
            pass.drains
        } else {
            (pass.completions > 0).into()
        });
        self.completions.add(pass.completions);
        self.late_ends.add(pass.end == End::Late);
    }

    /// Counts how many requests a visit has completed.
    #[inline]
    pub(crate) fn end(&mut self, source: Source, completions: u32) {
        if source != Source::Interrupt {
            return;
        }
        self.empty_interrupts.add(completions == 0);
        if u64::from(completions) > self.largest_batch.0 {
            self.largest_batch = Counter(completions.into());
        }
        let bucket = bucket(completions.into(), BUCKETS);
        if let Some(count) = self.histogram.get_mut(bucket) {
            count.add(1u32);
        }
    }

    /// Writes one counter a line, its name and its value, with the buckets of the histogram in one
    /// line.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = [
            ("interrupts", self.interrupts),
            ("empty_interrupts", self.empty_interrupts),
            ("drains", self.drains),
            ("completions", self.completions),
            ("kicks", self.kicks),
            ("suppressed_kicks", self.suppressed_kicks),
            ("ring_full_stops", self.ring_full_stops),
            ("polls", self.polls),
            ("missed_interrupts", self.missed_interrupts),
            ("largest_batch", self.largest_batch),
            ("immediate_bypasses", self.immediate_bypasses),
            ("hastened", self.hastened),
            ("timer_fires", self.timer_fires),
            ("timer_completions", self.timer_completions),
            ("late_ends", self.late_ends),
            ("coalesce_changes", self.coalesce_changes),
            ("lock_acquisitions", self.lock_acquisitions),
            ("lock_contended", self.lock_contended),
        ];
        for (name, count) in counters {
            writeln!(f, "{name} {}", count.0)?;
        }
        write_histogram(
            f,
            "hist_completions_per_interrupt",
            self.histogram.iter().map(|count| count.0),
        )
    }
}

/// Writes the buckets of a histogram in one line, behind its name.
pub(crate) fn write_histogram(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    counts: impl IntoIterator<Item = u64>,
) -> fmt::Result {
    f.write_str(name)?;
    for count in counts {
        write!(f, " {count}")?;
    }
    f.write_str("\n")
}
