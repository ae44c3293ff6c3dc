// SPDX-License-Identifier: GPL-2.0

//! A queue: one virtqueue, one hardware queue of the block layer, one lock.
//!
//! # Submission
//!
//! A request is encoded and its data mapped without the lock. Under it, the request is added to the
//! ring and a kick is prepared; the device is notified after it. A list of requests takes the lock
//! once and kicks once.
//!
//! # A full ring
//!
//! The block layer's queue is stopped under the lock and started when completions have made room,
//! before they are ended. See [`blk_mq::CompletionBatch`] for why nothing is lost between.
//!
//! # Completion
//!
//! Under the lock, the protocol ([`completion`](crate::completion)) collects what the device has
//! returned; after it, the requests are ended together. An interrupt is bounded by [`BUDGET`]; what
//! is left goes on in softirq context, with callbacks off until the ring is quiescent.

use crate::{
    completion::{End, Pass},
    device::BlockDriver,
    request::{self, Kind, Order},
    ring::{Ring, Token},
    stats::Stats,
    suppress::Suppress,
};
use blk_mq::{
    CompletionBatch, Done, Expired, Hctx, Idle, Op, PollHandler, Polled, Refusal, Request,
    RequestList, Status,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        new_spinlock_irq, SpinLockIrq,
    },
};
use virtio::{Reason, Rejected, Virtqueue};

/// How many requests one interrupt completes at most.
const BUDGET: u32 = 256;

/// A queue.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    ring: SpinLockIrq<Ring>,
    suppress: Atomic<u32>,
    order: Order,
    stats: Stats,
}

impl Queue {
    /// A queue on the virtqueue `vq`.
    pub(crate) fn new(
        vq: Virtqueue<Token>,
        order: Order,
        suppress: Suppress,
    ) -> impl PinInit<Polled<Self>, Error> {
        let ring = Ring::new(vq);
        Polled::new(try_pin_init!(Self {
            ring <- new_spinlock_irq!(ring, "virtio_blk_rs::queue"),
            suppress: Atomic::new(suppress as u32),
            order,
            stats: Stats::new(),
        }? Error))
    }

    /// The queue's counters.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whether the device has broken the protocol, or is gone. Any context.
    pub(crate) fn is_broken(&self) -> bool {
        self.ring.lock().is_broken()
    }

    /// Takes the virtqueue out of service. The device is reset, and fails what it still had.
    /// Process context; may sleep.
    pub(crate) fn close(&self) {
        let vq = self.ring.lock().take();
        drop(vq);
    }

    /// Encodes and maps a request, without the lock.
    ///
    /// # Errors
    ///
    /// The request, and what is wrong with it.
    #[inline]
    fn prepare(
        &self,
        request: Request<BlockDriver, Idle>,
    ) -> Result<Token, (Request<BlockDriver, Idle>, Status)> {
        let (kind, sector) = match request.op() {
            Op::Read => (Kind::In, request.sector()),
            Op::Write => (Kind::Out, request.sector()),
            Op::Flush => (Kind::Flush, 0),
            Op::Other(_) => return Err((request, Status::NotSupported)),
        };
        let header = request::encode(self.order, kind, request.ioprio(), sector);
        request
            .start(header)
            .map_err(|request| (request, Status::Resource))
    }

    /// Submits one request.
    ///
    /// # Errors
    ///
    /// The request was given back to the block layer.
    #[inline]
    pub(crate) fn submit(
        &self,
        hctx: Hctx<'_, BlockDriver>,
        request: Request<BlockDriver, Idle>,
        last: bool,
    ) -> Result<(), Refusal> {
        let token = self
            .prepare(request)
            .map_err(|(request, status)| request.refuse(status))?;
        let mut ring = self.ring.lock();
        let result = ring.add(token);
        if let Err(rejected) = &result {
            ring.stop_if_full(rejected.reason, hctx, &self.stats);
        }
        // What was added before must not wait for a request that cannot be added now.
        let kick = if last || result.is_err() {
            ring.kick(&self.stats)
        } else {
            None
        };
        drop(ring);
        if let Some(kick) = kick {
            kick.notify();
        }
        result.map_err(|rejected| rejected.token.refuse(status_of(rejected.reason)))
    }

    /// Submits a list of requests; what cannot be prepared stays in it.
    pub(crate) fn submit_list(
        &self,
        hctx: Hctx<'_, BlockDriver>,
        requests: &mut RequestList<BlockDriver, Idle>,
    ) {
        let mut left = RequestList::new();
        let mut tokens = RequestList::new();
        while let Some(request) = requests.pop() {
            match self.prepare(request) {
                Ok(token) => tokens.push(token),
                Err((request, _)) => left.push(request),
            }
        }
        *requests = left;

        let mut rejected = None;
        let mut ring = self.ring.lock();
        while let Some(token) = tokens.pop() {
            if let Err(Rejected { token, .. }) = ring.add(token) {
                rejected = Some(token);
                break;
            }
        }
        let kick = ring.kick(&self.stats);
        drop(ring);
        if let Some(kick) = kick {
            kick.notify();
        }
        // The first that found no room goes back with all behind it, so that their order stays.
        if let Some(token) = rejected {
            token.requeue();
            while let Some(token) = tokens.pop() {
                token.requeue();
            }
            hctx.kick_requeue_list();
        }
    }

    /// Notifies the device of what was submitted without a kick.
    pub(crate) fn commit(&self) {
        let kick = self.ring.lock().kick(&self.stats);
        if let Some(kick) = kick {
            kick.notify();
        }
    }

    /// Completes what the device has returned, up to `budget` requests.
    #[inline]
    fn complete(&self, suppress: Suppress, budget: u32, count: impl FnOnce(&Stats, &Pass)) -> End {
        let mut done = RequestList::<BlockDriver, Done>::new();
        let mut ring = self.ring.lock();
        let Some(pass) = ring.collect(suppress, budget, &mut done) else {
            return End::Quiescent;
        };
        count(&self.stats, &pass);
        let restart = ring.take_restart(&pass);
        drop(ring);
        if restart {
            if let Some(hctx) = done.hctx() {
                hctx.start_stopped();
            }
        }
        CompletionBatch::end_all(done);
        pass.end
    }

    /// The mode of suppression.
    #[inline]
    pub(crate) fn suppress(&self) -> Suppress {
        Suppress::from_raw(self.suppress.load(Relaxed) as u8)
    }
}

/// Serves an interrupt of the queue. Hard interrupt context, as a rule.
#[inline]
pub(crate) fn interrupt(queue: &Polled<Queue>) {
    if queue.complete(queue.suppress(), BUDGET, Stats::count_interrupt) == End::Budget {
        queue.schedule();
    }
}

/// A pass outside of interrupts and polls, after which the device signals the next completion.
/// Process context.
fn rearm(queue: &Polled<Queue>) {
    if queue.complete(Suppress::Loop, BUDGET, Stats::count_poll) == End::Budget {
        queue.schedule();
    }
}

/// Sets the mode of suppression, at once: a signal that was asked for later, in the old mode, does
/// not have to come first. Process context.
pub(crate) fn set_suppress(queue: &Polled<Queue>, suppress: Suppress) {
    queue.suppress.store(suppress as u32, Relaxed);
    rearm(queue);
}

/// Looks for the completion of a request that has taken too long. If it is there, the interrupt
/// that should have told of it is counted as missed, unless it was asked for only when others have
/// completed as well. Process context.
pub(crate) fn rescue(queue: &Polled<Queue>, request: &Expired<'_>) {
    rearm(queue);
    if request.is_in_flight() || queue.suppress() == Suppress::Delayed {
        return;
    }
    let ring = queue.ring.lock();
    queue.stats.missed_interrupts.add(1);
    drop(ring);
    kernel::pr_warn_once!(
        "request {} had completed without an interrupt; further ones are only counted\n",
        request.tag()
    );
}

impl PollHandler for Queue {
    fn poll(&self, budget: u32) -> bool {
        self.complete(self.suppress(), budget, Stats::count_poll) == End::Budget
    }

    fn is_owed(&self) -> bool {
        self.ring.lock().is_owed()
    }
}

fn status_of(reason: Reason) -> Status {
    match reason {
        Reason::Full | Reason::Resource => Status::Resource,
        Reason::Failed => Status::IoError,
    }
}
