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
//! returned; after it, the requests are ended together. What comes meanwhile is collected next,
//! with callbacks off until the ring is quiescent. An interrupt is bounded by [`BUDGET`]; what is
//! left goes on in softirq context.

use crate::{
    command,
    device::BlockDriver,
    history::History,
    kicks::Kicks,
    lock::{DeviceLock, Locked},
    request::Order,
    ring::{Ring, Token, Visit},
    settings::Settings,
    stats::{write_histogram, Source, Stats},
};
use blk_mq::{
    CompletionBatch, Done, Expired, Hctx, Idle, Next, PollHandler, Polled, Refusal, Request,
    RequestList, Status,
};
use kernel::{fmt, prelude::*, sync::Arc};
use trace::QueueId;
use virtio::{Reason, Rejected, Virtqueue};

/// How many requests one interrupt completes at most.
const BUDGET: u32 = 256;

/// A queue.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    ring: Locked,
    order: Order,
    kicks: Kicks,
}

impl Queue {
    /// A queue on the virtqueue `vq`, which has no interrupt if `polled` is set.
    pub(crate) fn new(
        vq: Virtqueue<Token>,
        id: QueueId,
        polled: bool,
        order: Order,
        settings: Settings,
        device: Arc<DeviceLock>,
    ) -> impl PinInit<Polled<Self>, Error> {
        let ring = Ring::new(vq, id, polled, settings);
        Polled::new(try_pin_init!(Self {
            ring <- Locked::new(ring, device),
            order,
            kicks: Kicks::new(id),
        }? Error))
    }

    /// Whether the device has broken the protocol, or is gone. Any context.
    pub(crate) fn is_broken(&self) -> bool {
        self.ring.lock().is_broken()
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
        let token = command::start(self.order, request)
            .map_err(|(request, status)| request.refuse(status))?;
        let mut ring = self.ring.lock();
        let result = ring.add(token);
        if let Err(rejected) = &result {
            ring.stop_if_full(rejected.reason, hctx);
        }
        // What was added before must not wait for a request that cannot be added now.
        let kick = if last || result.is_err() {
            ring.kick()
        } else {
            None
        };
        let owed = ring.is_owed();
        drop(ring);
        self.kicks.send(kick);
        if owed {
            hctx.queue().follow(Next::Poll);
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
            match command::start(self.order, request) {
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
        let (kick, owed) = (ring.kick(), ring.is_owed());
        drop(ring);
        self.kicks.send(kick);
        if owed {
            hctx.queue().follow(Next::Poll);
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
        let kick = self.ring.lock().kick();
        self.kicks.send(kick);
    }

    /// Completes what the device has returned, up to `budget` requests.
    #[inline]
    fn complete(&self, source: Source, budget: u32) -> Next {
        let mut visit = Visit::new(source, budget);
        loop {
            let mut done = RequestList::<BlockDriver, Done>::new();
            let mut ring = self.ring.lock();
            if let Some(next) = ring.rest(&visit) {
                return next;
            }
            let Some(outcome) = ring.collect(&mut visit, &mut done) else {
                return Next::Nothing;
            };
            drop(ring);
            if outcome.restart {
                restart(&done);
            }
            if outcome.batch {
                CompletionBatch::end_all(done);
            } else {
                CompletionBatch::end_each(done);
            }
            if !outcome.again {
                return outcome.next;
            }
        }
    }

    /// Completes what the device has returned on a queue without interrupts, with the batch of
    /// whoever polls. Returns how many requests that were. Process context.
    pub(crate) fn poll_into(&self, batch: &mut CompletionBatch<BlockDriver>) -> u32 {
        let mut visit = Visit::new(Source::Poll, u32::MAX);
        let mut done = RequestList::<BlockDriver, Done>::new();
        let mut ring = self.ring.lock();
        let Some(outcome) = ring.collect(&mut visit, &mut done) else {
            return 0;
        };
        drop(ring);
        if outcome.restart {
            restart(&done);
        }
        let mut count = 0u32;
        while let Some(request) = done.pop() {
            batch.end(request);
            count = count.wrapping_add(1);
        }
        count
    }

    /// Writes the counters, one a line.
    pub(crate) fn write_counters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = self.ring.lock();
        let (stats, (now, depth)) = (ring.stats, ring.coalescing());
        drop(ring);
        Stats::write(&stats, f)?;
        write_histogram(f, "hist_kick_ns", self.kicks.histogram())?;
        writeln!(f, "coalesce_depth {depth}")?;
        writeln!(f, "coalesce_reqs_now {}", now.reqs)?;
        writeln!(f, "coalesce_usecs_now {}", now.usecs)
    }

    /// What coalescing chose lately.
    pub(crate) fn history(&self) -> History {
        self.ring.lock().history()
    }

    /// Whether the queue can ask for a signal at any buffer.
    pub(crate) fn can_count(&self) -> bool {
        self.ring.lock().can_count()
    }
}

/// Starts the block layer's queue of these requests, for which there is room now.
#[cold]
fn restart(done: &RequestList<BlockDriver, Done>) {
    if let Some(hctx) = done.hctx() {
        hctx.start_stopped();
    }
}

/// Takes the virtqueue out of service. The device is reset, and fails what it still had. Process
/// context; may sleep.
pub(crate) fn close(queue: &Polled<Queue>) {
    let vq = queue.ring.lock().take();
    drop(vq);
    queue.cancel_timer();
}

/// Takes the virtqueue out of service for a while. The device is reset; requests that it still had
/// are put back, to be submitted again, or fail if the device must not see them twice. Returns how
/// many there were. Process context, with the block layer's queues quiesced; may sleep.
pub(crate) fn suspend(queue: &Polled<Queue>) -> u32 {
    // What the device has returned need not be submitted again.
    rearm(queue);
    let vq = queue.ring.lock().take();
    let mut count = 0u32;
    if let Some(vq) = vq {
        vq.retire(|token| {
            count = count.wrapping_add(1);
            if token.is_repeatable() {
                token.requeue();
            }
        });
    }
    queue.cancel_timer();
    count
}

/// Puts a virtqueue into service in the place of the one that was taken out. Process context, with
/// the block layer's queues quiesced.
pub(crate) fn resume(queue: &Polled<Queue>, vq: Virtqueue<Token>) {
    queue.ring.lock().put(vq);
}

/// Serves an interrupt of the queue. Hard interrupt context, as a rule.
#[inline]
pub(crate) fn interrupt(queue: &Polled<Queue>) {
    queue.follow(queue.complete(Source::Interrupt, BUDGET));
}

/// A pass outside of interrupts and polls, after which the device signals the next completion.
/// Process context.
fn rearm(queue: &Polled<Queue>) {
    queue.follow(queue.complete(Source::Rearm, BUDGET));
}

/// Sets what the queue goes by, at once: a signal that was asked for later does not have to come
/// first. Process context.
pub(crate) fn configure(queue: &Polled<Queue>, settings: &Settings) {
    queue.ring.lock().configure(settings);
    rearm(queue);
}

/// Looks for the completion of a request that has taken too long. If it is there, the interrupt
/// that should have told of it is counted as missed, unless nothing promised one. Where one was
/// missed, more may be: the queue is looked at by a timer until an interrupt comes. Process
/// context.
pub(crate) fn rescue(queue: &Polled<Queue>, request: &Expired<'_>) {
    rearm(queue);
    if request.is_in_flight() {
        return;
    }
    let mut ring = queue.ring.lock();
    if ring.is_patient() {
        return;
    }
    let next = ring.miss();
    drop(ring);
    queue.follow(next);
    kernel::pr_warn_once!(
        "request {} had completed without an interrupt; its queue is polled until one comes. \
         Further ones are only counted\n",
        request.tag()
    );
}

impl PollHandler for Queue {
    fn poll(&self, budget: u32) -> Next {
        self.complete(Source::Continuation, budget)
    }

    fn expired(&self) -> Next {
        self.complete(Source::Timer, BUDGET)
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
