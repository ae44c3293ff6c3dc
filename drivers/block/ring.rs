// SPDX-License-Identifier: GPL-2.0

//! What a queue's lock guards: the virtqueue, and the state of the completion protocol.

use crate::{
    completion::{self, Handler, Pass},
    device::BlockDriver,
    stats::Stats,
    suppress::Suppress,
};
use blk_mq::{Done, Hctx, Request, RequestList, Started};
use virtio::{Kick, Reason, Rejected, Used, Virtqueue};

/// A request on its way to the device.
pub(crate) type Token = Request<BlockDriver, Started>;

/// The guarded part of a queue.
pub(crate) struct Ring {
    /// [`None`] once the device is out of service.
    vq: Option<Virtqueue<Token>>,
    handler: Handler,
    /// The block layer's queue was stopped because the ring was full.
    stopped: bool,
}

impl Ring {
    /// A ring on the virtqueue `vq`, in which nothing is in flight.
    pub(crate) fn new(vq: Virtqueue<Token>) -> Self {
        Self {
            vq: Some(vq),
            handler: Handler::new(),
            stopped: false,
        }
    }

    /// Takes the virtqueue out of service. It is to be dropped after the lock.
    pub(crate) fn take(&mut self) -> Option<Virtqueue<Token>> {
        self.vq.take()
    }

    /// Whether the device has broken the protocol, or is gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.vq.as_ref().is_some_and(Virtqueue::is_broken)
    }

    /// Whether a pass of the protocol is owed. It is not once the device is out of service.
    pub(crate) fn is_owed(&self) -> bool {
        self.vq.is_some() && self.handler.is_owed()
    }

    /// Whether the block layer's queue is to be started, now that a pass has made room. It is not
    /// taken to be stopped any more then.
    #[inline]
    pub(crate) fn take_restart(&mut self, pass: &Pass) -> bool {
        let restart = self.stopped && pass.completions > 0;
        self.stopped &= !restart;
        restart
    }

    /// Adds a request to the ring.
    ///
    /// # Errors
    ///
    /// The request, and why it could not be added.
    #[inline]
    pub(crate) fn add(&mut self, token: Token) -> Result<(), Rejected<Token>> {
        match &mut self.vq {
            Some(vq) => vq.add(token),
            None => Err(Rejected {
                token,
                reason: Reason::Failed,
            }),
        }
    }

    /// Stops the block layer's queue if a request was rejected because the ring is full.
    #[cold]
    pub(crate) fn stop_if_full(
        &mut self,
        reason: Reason,
        hctx: Hctx<'_, BlockDriver>,
        stats: &Stats,
    ) {
        if reason == Reason::Full {
            hctx.stop();
            self.stopped = true;
            stats.ring_full_stops.add(1);
        }
    }

    /// Prepares a kick; the device is notified after the lock.
    #[inline]
    pub(crate) fn kick(&mut self, stats: &Stats) -> Option<Kick> {
        let kick = self.vq.as_mut()?.kick_prepare();
        match kick {
            Some(_) => stats.kicks.add(1),
            None => stats.suppressed_kicks.add(1),
        }
        kick
    }

    /// Runs a pass of the protocol and collects in `done` what the device has returned. [`None`] if
    /// the device is out of service.
    #[inline]
    pub(crate) fn collect(
        &mut self,
        suppress: Suppress,
        budget: u32,
        done: &mut RequestList<BlockDriver, Done>,
    ) -> Option<Pass> {
        let vq = self.vq.as_mut()?;
        Some(self.handler.run(vq, suppress, budget, |used| {
            done.push(used.token.returned());
        }))
    }
}

impl completion::Ring for Virtqueue<Token> {
    type Buf = Used<Token>;

    #[inline]
    fn disable_cb(&mut self) {
        Virtqueue::disable_cb(self);
    }

    #[inline]
    fn enable_cb(&mut self) -> bool {
        Virtqueue::enable_cb(self)
    }

    #[inline]
    fn enable_cb_delayed(&mut self) -> bool {
        Virtqueue::enable_cb_delayed(self)
    }

    #[inline]
    fn get_buf(&mut self) -> Option<Used<Token>> {
        Virtqueue::get_buf(self)
    }
}
