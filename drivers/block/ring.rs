// SPDX-License-Identifier: GPL-2.0

//! What a queue's lock guards: the virtqueue, what is in flight on it, and the state of completion
//! protocol and coalescing.

use crate::{
    coalesce::{Found, Load, Policy, Wait},
    completion::{self, End, Handler, Plan, Rearm},
    device::BlockDriver,
    history::History,
    kicks::Due,
    settings::Settings,
    stats::{Source, Stats},
    values::Hint,
};
use blk_mq::{Done, Hctx, Next, Request, RequestList, Started};
use trace::QueueId;
use virtio::{Reason, Rejected, Used, UsedEventHint, Virtqueue};

/// How often a queue is looked at whose interrupts get lost, in microseconds.
const WATCH_USECS: u32 = 10_000;

/// A request on its way to the device.
pub(crate) type Token = Request<BlockDriver, Started>;

/// The guarded part of a queue.
pub(crate) struct Ring {
    id: QueueId,
    /// [`None`] once the device is out of service.
    vq: Option<Virtqueue<Token>>,
    handler: Handler,
    policy: Policy,
    history: History,
    settings: Settings,
    /// Nothing is signalled on this queue.
    polled: bool,
    /// An interrupt has been missed: the timer looks after the queue until one comes.
    watched: bool,
    /// The block layer's queue was stopped because the ring was full.
    stopped: bool,
    /// Requests that the device has, or has returned without that being collected.
    in_flight: u32,
    /// Those of them that must not wait.
    urgent: u32,
    pub(crate) stats: Stats,
}

/// A visit to the ring: one pass of the protocol, or several with the end of what they collected
/// between.
pub(crate) struct Visit {
    source: Source,
    /// How many requests the passes may collect.
    budget: u32,
    /// How many they have collected.
    collected: u32,
}

impl Visit {
    /// A visit that may collect up to `budget` requests.
    pub(crate) const fn new(source: Source, budget: u32) -> Self {
        Self {
            source,
            budget,
            collected: 0,
        }
    }
}

/// What is to be done after the lock.
pub(crate) struct Outcome {
    /// The block layer's queue was stopped, and there is room now.
    pub(crate) restart: bool,
    /// The requests are ended together.
    pub(crate) batch: bool,
    /// Another pass of this visit follows.
    pub(crate) again: bool,
    /// When to look again after the visit.
    pub(crate) next: Next,
}

impl Ring {
    /// A ring on the virtqueue `vq`, in which nothing is in flight.
    pub(crate) fn new(vq: Virtqueue<Token>, id: QueueId, polled: bool, settings: Settings) -> Self {
        Self {
            id,
            vq: Some(vq),
            handler: Handler::new(),
            policy: Policy::new(),
            history: History::new(),
            settings,
            polled,
            watched: false,
            stopped: false,
            in_flight: 0,
            urgent: 0,
            stats: Stats::default(),
        }
    }

    /// Puts a virtqueue into service in the place of one that was taken out. Settings and counters
    /// stay.
    pub(crate) fn put(&mut self, vq: Virtqueue<Token>) {
        self.vq = Some(vq);
        self.handler = Handler::new();
        self.policy = Policy::new();
        self.watched = false;
        self.stopped = false;
        self.in_flight = 0;
        self.urgent = 0;
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

    /// Whether the device may signal so late that a request could look lost meanwhile.
    pub(crate) fn is_patient(&self) -> bool {
        self.polled || self.settings.suppress.plan().rearm == Rearm::Delayed
    }

    /// Counts a completion that no interrupt has told of, although one was promised. From then on
    /// the queue is watched, until an interrupt comes. Returns when to look again.
    pub(crate) fn miss(&mut self) -> Next {
        self.stats.missed_interrupts.add(1u32);
        self.watched = true;
        Next::After(WATCH_USECS)
    }

    /// Sets what the next pass goes by. What coalescing has learnt by other settings is forgotten.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.settings = *settings;
        self.policy = Policy::new();
    }

    /// What coalescing chose last, and the depth that it goes by.
    pub(crate) fn coalescing(&self) -> (Wait, u32) {
        (self.history.now(), self.policy.depth())
    }

    /// What coalescing chose lately.
    pub(crate) fn history(&self) -> History {
        self.history
    }

    /// Whether a signal can be asked for at any buffer.
    #[inline]
    pub(crate) fn can_count(&self) -> bool {
        self.vq.as_ref().is_some_and(Virtqueue::has_used_event)
    }

    /// Adds a request to the ring.
    ///
    /// # Errors
    ///
    /// The request, and why it could not be added.
    #[inline]
    pub(crate) fn add(&mut self, token: Token) -> Result<(), Rejected<Token>> {
        let Some(vq) = &mut self.vq else {
            return Err(Rejected {
                token,
                reason: Reason::Failed,
            });
        };
        let urgent = token.is_urgent();
        vq.add(token)?;
        self.in_flight = self.in_flight.wrapping_add(1);
        if urgent {
            self.urgent = self.urgent.wrapping_add(1);
            self.hasten();
        }
        Ok(())
    }

    /// Has the next completion signalled at once. If there is one already, a pass is owed.
    #[cold]
    fn hasten(&mut self) {
        if let (Some(vq), false) = (&mut self.vq, self.polled) {
            let hint = self.settings.used_event_hint;
            let hastened = self.handler.hasten(&mut Callbacks { vq, hint });
            self.stats.hastened.add(hastened);
        }
    }

    /// Stops the block layer's queue if a request was rejected because the ring is full.
    #[cold]
    pub(crate) fn stop_if_full(&mut self, reason: Reason, hctx: Hctx<'_, BlockDriver>) {
        if reason == Reason::Full {
            hctx.stop();
            self.stopped = true;
            self.stats.ring_full_stops.add(1u32);
        }
    }

    /// Prepares a kick; the device is notified after the lock.
    #[inline]
    pub(crate) fn kick(&mut self) -> Option<Due> {
        let Some(kick) = self.vq.as_mut()?.kick_prepare() else {
            self.stats.suppressed_kicks.add(1u32);
            return None;
        };
        let before = self.stats.kicks.get();
        self.stats.kicks.add(1u32);
        Some(Due::new(kick, before))
    }

    /// Runs a pass of the protocol and collects in `done` what the device has returned. [`None`] if
    /// the device is out of service.
    #[inline]
    pub(crate) fn collect(
        &mut self,
        visit: &mut Visit,
        done: &mut RequestList<BlockDriver, Done>,
    ) -> Option<Outcome> {
        let (source, before) = (visit.source, visit.collected);
        let (plan, wait) = if before == 0 {
            self.begin(source)
        } else {
            self.go_on()
        };
        let plan = plan.at(self.in_flight);
        let ring = &mut Callbacks {
            vq: self.vq.as_mut()?,
            hint: self.settings.used_event_hint,
        };
        let (in_flight, urgent) = (&mut self.in_flight, &mut self.urgent);
        let budget = visit.budget.wrapping_sub(before);
        let pass = self.handler.run(ring, plan, budget, |used| {
            let request = used.token.returned();
            *in_flight = in_flight.wrapping_sub(1);
            if *urgent > 0 && request.is_urgent() {
                *urgent = urgent.wrapping_sub(1);
            }
            done.push(request);
        });
        visit.collected = before.wrapping_add(pass.completions);
        self.stats.count(source, before == 0, &pass);
        trace::drain(self.id, pass.drains, pass.completions, self.in_flight);
        if before == 0 && self.settings.coalesce_adaptive.0 {
            self.learn(source);
        }
        let restart = self.stopped && pass.completions > 0;
        self.stopped &= !restart;
        let (reqs, next) = match (pass.end, plan.rearm, wait) {
            (End::Again, ..) => (0, Next::Nothing),
            (End::Budget, ..) => (0, Next::Poll),
            (End::Late, Rearm::Ahead(reqs), Some(wait)) => (reqs, Next::After(wait.usecs)),
            (End::Late, _, Some(wait)) => (0, Next::After(wait.usecs)),
            _ => (0, self.watch()),
        };
        let again = pass.end == End::Again;
        if !again {
            self.end(visit, reqs, next);
        }
        Some(Outcome {
            restart,
            batch: self.settings.batch.0,
            again,
            next,
        })
    }

    /// Goes idle, if nothing has come while the caller ended what the last pass of the visit has
    /// collected. Returns when to look again; [`None`] if the visit begins or goes on.
    #[inline]
    pub(crate) fn rest(&mut self, visit: &Visit) -> Option<Next> {
        if visit.collected == 0 {
            return None;
        }
        let ring = &mut Callbacks {
            vq: self.vq.as_mut()?,
            hint: self.settings.used_event_hint,
        };
        if !self.handler.rest(ring) {
            return None;
        }
        let next = self.watch();
        self.end(visit, 0, next);
        Some(next)
    }

    /// When to look whether a signal was lost.
    #[inline]
    fn watch(&self) -> Next {
        if self.watched {
            Next::After(WATCH_USECS)
        } else {
            Next::Nothing
        }
    }

    /// Notes the end of a visit, with a signal after `reqs` completions, or the next for 0.
    #[inline]
    fn end(&mut self, visit: &Visit, reqs: u16, next: Next) {
        self.stats.end(visit.source, visit.collected);
        let usecs = match next {
            Next::After(usecs) => usecs,
            _ => 0,
        };
        trace::rearm(self.id, reqs.into(), usecs);
    }

    /// Begins a visit: what its passes do, and how long the signal after it may wait.
    #[inline]
    fn begin(&mut self, source: Source) -> (Plan, Option<Wait>) {
        match source {
            Source::Rearm => return (Plan::REARM, None),
            Source::Poll => return (Plan::POLL, None),
            Source::Interrupt => {
                self.watched = false;
                trace::queue_interrupt(self.id, self.in_flight);
            }
            Source::Continuation | Source::Timer => {}
        }
        let coalesce = self.settings.coalesce();
        let load = Load {
            in_flight: self.in_flight,
            urgent: self.urgent > 0,
            signalled: source == Source::Interrupt,
        };
        let can_count = self.can_count();
        let suppress = self.settings.suppress;
        let (plan, wait) = self.policy.plan(suppress, &coalesce, load, can_count);
        if coalesce.is_on() {
            self.stats.immediate_bypasses.add(wait.is_none());
            let reqs = match plan.rearm {
                Rearm::Ahead(reqs) => reqs,
                _ => 0,
            };
            let usecs = wait.map_or(0, |wait| wait.usecs);
            self.note(Wait { reqs, usecs });
        }
        (plan, wait)
    }

    /// Goes on with a visit whose last pass ended with [`End::Again`]: nothing waits.
    #[inline]
    fn go_on(&self) -> (Plan, Option<Wait>) {
        let plan = Plan {
            rearm: Rearm::Quiescent,
            ..self.settings.suppress.plan()
        };
        (plan, None)
    }

    /// Adapts coalescing to what the first pass of a visit has left.
    #[inline]
    fn learn(&mut self, source: Source) {
        let idle = match source {
            Source::Interrupt | Source::Timer => blk_mq::is_cpu_idle(),
            Source::Continuation | Source::Rearm | Source::Poll => false,
        };
        let left = self.in_flight;
        self.policy.learn(Found { left, idle });
    }

    /// Notes what coalescing chose; no number of requests where only the time counts.
    #[inline]
    fn note(&mut self, wait: Wait) {
        let depth = self.policy.depth();
        if self.history.note(depth, wait) {
            self.stats.coalesce_changes.add(1u32);
            trace::coalesce_change(self.id, depth, wait.reqs.into(), wait.usecs);
        }
    }
}

/// A virtqueue as the protocol sees it.
struct Callbacks<'a> {
    vq: &'a mut Virtqueue<Token>,
    hint: Hint,
}

impl completion::Ring for Callbacks<'_> {
    type Buf = Used<Token>;

    #[inline]
    fn disable_cb(&mut self) {
        self.vq.disable_cb();
        match self.hint {
            Hint::Core => {}
            Hint::Avail => self.vq.hint_used_event(UsedEventHint::Avail),
            Hint::Behind => self.vq.hint_used_event(UsedEventHint::Behind),
        }
    }

    #[inline]
    fn enable_cb(&mut self) -> bool {
        self.vq.enable_cb()
    }

    #[inline]
    fn enable_cb_delayed(&mut self) -> bool {
        self.vq.enable_cb_delayed()
    }

    #[inline]
    fn enable_cb_ahead(&mut self, count: u16) -> bool {
        self.vq.enable_cb_ahead(count)
    }

    #[inline]
    fn get_buf(&mut self) -> Option<Used<Token>> {
        self.vq.get_buf()
    }
}
