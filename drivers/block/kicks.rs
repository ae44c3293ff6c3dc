// SPDX-License-Identifier: GPL-2.0

//! How long the device's notification takes the guest.
//!
//! A kick that leaves the guest for good (`ioeventfd=off`, or an emulated device) takes
//! microseconds, one that is an eventfd on the host, or a posted write, much less.

use crate::histogram::{bucket, TIME_BUCKETS};
use blk_mq::now_ns;
use kernel::sync::atomic::{Atomic, Relaxed};
use trace::QueueId;
use virtio::Kick;

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
    pub(crate) fn send(&self, kick: Option<Kick>) {
        let Some(kick) = kick else {
            return;
        };
        let start = now_ns();
        kick.notify();
        let elapsed = now_ns().saturating_sub(start);
        if let Some(count) = self.histogram.get(bucket(elapsed, TIME_BUCKETS)) {
            count.fetch_add(1, Relaxed);
        }
        trace::kick(self.id, elapsed);
    }

    /// How many kicks took 0 ns, and 2^(k-1) to 2^k - 1 ns.
    pub(crate) fn histogram(&self) -> impl Iterator<Item = u64> + '_ {
        self.histogram.iter().map(|count| count.load(Relaxed))
    }
}
