// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What a queue has done.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one queue since the start or the last reset. One thread adds to them, any may
        /// read them.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The counts at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Reads all.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.get(),)* }
            }

            /// Sets all to zero.
            pub fn reset(&self) {
                $(self.$name.reset();)*
            }
        }

        impl Snapshot {
            fn combine(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($name: of(self.$name, other.$name),)* }
            }
        }
    };
}

counters! {
    /// Requests that were ended, well or not.
    requests,
    /// Reads among them.
    reads,
    /// Writes among them.
    writes,
    /// Flushes among them.
    flushes,
    /// Questions for the serial number among them.
    get_ids,
    /// Discards among them.
    discards,
    /// Requests for zeroes among them.
    write_zeroes,
    /// Requests to forget for good among them.
    secure_erases,
    /// Ranges of the disk that these three were about.
    ranges,
    /// Ranges of zeroes that need not keep their place.
    unmaps,
    /// Bytes of the disk that these three have cleared.
    bytes_cleared,
    /// Reports of zones among them.
    zone_reports,
    /// Appends to zones among them.
    zone_appends,
    /// Requests to open a zone among them.
    zone_opens,
    /// Requests to close a zone among them.
    zone_closes,
    /// Requests to finish a zone among them.
    zone_finishes,
    /// Requests to reset a zone, or all, among them.
    zone_resets,
    /// Requests that the zones did not allow; they ended with a status of their own.
    zone_refusals,
    /// Requests that ended with UNSUPP.
    unsupported,
    /// Requests that ended with IOERR.
    io_errors,
    /// Chains that are not as the driver must make them; those with a status byte ended with
    /// IOERR.
    bad_chains,
    /// Times that the available ring itself made no sense.
    bad_rings,
    /// Bytes that reads have put into the guest's memory.
    bytes_read,
    /// Bytes that writes have taken from the guest's memory.
    bytes_written,
    /// Times that a kick made the worker look; kicks that come in between count once.
    kicks,
    /// Times that the worker looked into the available ring and found something.
    fetches,
    /// Signals that were sent.
    signals,
    /// Signals that a command has sent, of which there is nothing to see in the used ring.
    unasked_signals,
    /// Signals that were not sent because the guest did not want them.
    suppressed,
    /// Most requests that were on their way at a time.
    largest_backlog,
}

impl Add for Snapshot {
    type Output = Self;

    /// Two queues together.
    fn add(self, other: Self) -> Self {
        Self {
            largest_backlog: self.largest_backlog.max(other.largest_backlog),
            ..self.combine(other, u64::saturating_add)
        }
    }
}

impl Sum for Snapshot {
    fn sum<I: Iterator<Item = Self>>(queues: I) -> Self {
        queues.fold(Self::default(), Add::add)
    }
}

impl Sub for Snapshot {
    type Output = Self;

    /// What was added since `earlier`; the largest backlog stays the later one.
    fn sub(self, earlier: Self) -> Self {
        Self {
            largest_backlog: self.largest_backlog,
            ..self.combine(earlier, u64::saturating_sub)
        }
    }
}

/// One count.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Keeps the larger of the count and `value`.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// Reads the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_can_be_read_and_reset() {
        let counters = Counters::default();
        counters.requests.increment();
        counters.bytes_read.add(4096);
        counters.largest_backlog.raise(7);
        counters.largest_backlog.raise(3);
        let snapshot = counters.snapshot();
        assert_eq!((snapshot.requests, snapshot.bytes_read), (1, 4096));
        assert_eq!(snapshot.largest_backlog, 7);
        counters.reset();
        assert_eq!(counters.snapshot(), Snapshot::default());
    }

    #[test]
    fn queues_add_up_and_times_subtract() {
        let one = Snapshot {
            signals: 3,
            largest_backlog: 9,
            ..Snapshot::default()
        };
        let two: Snapshot = [one, one].into_iter().sum();
        assert_eq!((two.signals, two.largest_backlog), (6, 9));
        assert_eq!(two - one, one);
    }
}
