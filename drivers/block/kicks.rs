// SPDX-License-Identifier: GPL-2.0

//! How long the device's notification takes the guest.
//!
//! A kick that leaves the guest for good (`ioeventfd=off`, or an emulated device) takes
//! microseconds, one that is an eventfd on the host, or a posted write, much less.
//!
//! One kick of [`SAMPLE`] is timed: two looks at the clock cost more than all else that the driver
//! does about a kick.

use crate::histogram::{bucket, TIME_BUCKETS};
use blk_mq::now_ns;
use kernel::sync::atomic::{Atomic, Relaxed};
use trace::QueueId;
use virtio::Kick;

/// Of so many kicks of a queue one is timed, the first one to begin with.
const SAMPLE: u64 = 16;

/// A kick that is due.
pub(crate) struct Due {
    kick: Kick,
    timed: bool,
}

impl Due {
    /// The kick of a queue that has had `before` others.
    #[inline]
    pub(crate) fn new(kick: Kick, before: u64) -> Self {
        Self {
            kick,
            timed: before % SAMPLE == 0,
        }
    }
}

/// The time of a queue's kicks. They are sent without its lock, so by several CPUs at a time.
pub(crate) struct Kicks {
    id: QueueId,
    histogram: [Atomic<u64>; TIME_BUCKETS],
}

impl Kicks {
    pub(crate) const fn new(id: QueueId) -> Self {
        Self {
            id,
            histogram: [const { Atomic::new(0) }; TIME_BUCKETS],
        }
    }

    /// Notifies the device, if a kick is due. Any context; without the queue's lock.
    #[inline]
    pub(crate) fn send(&self, due: Option<Due>) {
        let Some(Due { kick, timed }) = due else {
            return;
        };
        if timed || trace::is_kick_watched() {
            self.send_timed(kick, timed);
        } else {
            kick.notify();
        }
    }

    /// Notifies the device and takes the time, which counts if `timed` is set.
    #[cold]
    fn send_timed(&self, kick: Kick, timed: bool) {
        let start = now_ns();
        kick.notify();
        let elapsed = now_ns().saturating_sub(start);
        if timed {
            self.count(elapsed);
        }
        trace::kick(self.id, elapsed);
    }

    fn count(&self, elapsed: u64) {
        if let Some(count) = self.histogram.get(bucket(elapsed, TIME_BUCKETS)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// How many of the timed kicks took 0 ns, and 2^(k-1) to 2^k - 1 ns.
    pub(crate) fn histogram(&self) -> impl Iterator<Item = u64> + '_ {
        self.histogram.iter().map(|count| count.load(Relaxed))
    }
}
