// SPDX-License-Identifier: GPL-2.0

//! The protocol as the driver has it, and a copy that can be broken: each [`Bug`] looks right, or
//! has been somebody's code, and is not.

use crate::driver::completion::{End, Handler, Pass, Plan, Rearm, Ring};

/// A protocol that can be explored.
pub trait Protocol: 'static {
    /// As [`Handler::run`].
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        plan: Plan,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass;

    /// As [`Handler::hasten`].
    fn hasten<R: Ring>(&mut self, ring: &mut R) -> bool;

    /// As [`Handler::rest`].
    fn rest<R: Ring>(&mut self, ring: &mut R) -> bool;

    /// As [`Handler::is_owed`].
    fn is_owed(&self) -> bool;
}

impl Protocol for Handler {
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        plan: Plan,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass {
        self.run(ring, plan, budget, take)
    }

    fn hasten<R: Ring>(&mut self, ring: &mut R) -> bool {
        Handler::hasten(self, ring)
    }

    fn rest<R: Ring>(&mut self, ring: &mut R) -> bool {
        Handler::rest(self, ring)
    }

    fn is_owed(&self) -> bool {
        Handler::is_owed(self)
    }
}

/// One way in which the protocol can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// None: the copy behaves as the original.
    None,
    /// Goes idle although enabling callbacks reported that buffers are there.
    RecheckIgnored,
    /// The same for the delayed variant only, in the belief that a signal comes anyway.
    DelayedRecheckIgnored,
    /// The same for a signal ahead only, in the belief that the timer is soon enough.
    AheadRecheckIgnored,
    /// Asks for the signal one buffer further ahead than the plan says.
    AheadTooFar,
    /// Drains before callbacks are disabled, then enables them without a second look.
    DisabledAfterDrain,
    /// Goes idle with callbacks off.
    NeverEnabled,
    /// Enables callbacks when the budget is used up, and calls that quiescent.
    BudgetIsQuiescence,
    /// Goes idle after a pass that found something, and left the signal to the next.
    AgainIsQuiescence,
    /// Forgets from one pass to the next that callbacks are off.
    ForgetsCallbacksOff,
    /// Takes callbacks to be on after a pass that ended late.
    LateIsOn,
    /// Ends late with callbacks on, if the plan does not disable them.
    LateWithCallbacksOn,
    /// Ends late after a pass that found nothing, so that the timer never rests.
    LateForNothing,
    /// Looks at the budget after it has taken a buffer, and drops the buffer.
    LosesBufferAtBudget,
    /// Has no budget.
    BudgetIgnored,
    /// Hands out the newest buffer first.
    Reversed,
    /// Does not care for urgent requests.
    NeverHastens,
    /// Hastens, but takes callbacks to be on although buffers are there.
    HastenRecheckIgnored,
}

/// What the device was last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callbacks {
    On,
    Late,
    Off,
    Owed,
}

/// A protocol with a bug.
pub struct Mutant {
    bug: Bug,
    callbacks: Callbacks,
}

impl Mutant {
    /// The protocol with `bug`.
    pub fn new(bug: Bug) -> Self {
        Self {
            bug,
            callbacks: Callbacks::On,
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn disable<R: Ring>(&mut self, ring: &mut R) {
        ring.disable_cb();
        self.callbacks = Callbacks::Off;
    }

    /// Has the device signal, now or at a later buffer; `false` if there is something already.
    fn enable<R: Ring>(&mut self, ring: &mut R, rearm: Rearm) -> bool {
        self.callbacks = Callbacks::On;
        match rearm {
            Rearm::Delayed => ring.enable_cb_delayed() || self.has(Bug::DelayedRecheckIgnored),
            _ => ring.enable_cb(),
        }
    }

    /// Takes buffers until the ring is empty; `false` if the budget ends it before.
    fn drain<R: Ring>(
        &mut self,
        ring: &mut R,
        budget: u32,
        pass: &mut Pass,
        take: &mut dyn FnMut(R::Buf),
    ) -> bool {
        pass.drains += 1;
        let mut bufs = Vec::new();
        let mut emptied = true;
        while let Some(buf) = ring.get_buf() {
            let loses = self.has(Bug::LosesBufferAtBudget);
            if loses && pass.completions >= budget {
                emptied = false;
                break;
            }
            bufs.push(buf);
            pass.completions += 1;
            let unbounded = loses || self.has(Bug::BudgetIgnored);
            if !unbounded && pass.completions >= budget {
                emptied = false;
                break;
            }
        }
        if self.has(Bug::Reversed) {
            bufs.reverse();
        }
        bufs.into_iter().for_each(take);
        emptied
    }

    /// Ends a pass that has drained the ring; [`None`] if there is something in it again.
    fn rearm<R: Ring>(&mut self, ring: &mut R, rearm: Rearm, found: bool) -> Option<End> {
        let found = found || self.has(Bug::LateForNothing);
        let idle = match rearm {
            _ if self.has(Bug::NeverEnabled) => true,
            Rearm::Ahead(count) if found => {
                self.callbacks = Callbacks::Late;
                let count = count + u16::from(self.has(Bug::AheadTooFar));
                ring.enable_cb_ahead(count) || self.has(Bug::AheadRecheckIgnored)
            }
            Rearm::Timer if found => {
                if !self.has(Bug::LateWithCallbacksOn) {
                    ring.disable_cb();
                }
                self.callbacks = Callbacks::Late;
                true
            }
            Rearm::Never => {
                self.callbacks = Callbacks::Late;
                true
            }
            Rearm::Delayed => self.enable(ring, rearm),
            _ if self.callbacks == Callbacks::On => true,
            _ => self.enable(ring, rearm),
        };
        if !idle && !self.has(Bug::RecheckIgnored) {
            return None;
        }
        Some(match self.callbacks {
            Callbacks::Late => End::Late,
            _ => End::Quiescent,
        })
    }
}

impl Protocol for Mutant {
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        plan: Plan,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass {
        let mut pass = Pass {
            drains: 0,
            completions: 0,
            end: End::Quiescent,
        };
        let forgets = self.has(Bug::ForgetsCallbacksOff)
            || self.has(Bug::LateIsOn) && self.callbacks == Callbacks::Late;
        if forgets {
            self.callbacks = Callbacks::On;
        }
        if self.is_owed() {
            self.callbacks = Callbacks::Off;
        }
        loop {
            if plan.disable && !self.has(Bug::DisabledAfterDrain) {
                self.disable(ring);
            }
            if !self.drain(ring, budget, &mut pass, take) {
                if self.has(Bug::BudgetIsQuiescence) {
                    self.enable(ring, plan.rearm);
                } else {
                    ring.disable_cb();
                    self.callbacks = Callbacks::Owed;
                    pass.end = End::Budget;
                }
                return pass;
            }
            if self.has(Bug::DisabledAfterDrain) {
                self.disable(ring);
                self.enable(ring, plan.rearm);
                return pass;
            }
            if plan.rearm == Rearm::Quiescent && pass.completions > 0 {
                if !self.has(Bug::AgainIsQuiescence) {
                    pass.end = End::Again;
                }
                return pass;
            }
            if let Some(end) = self.rearm(ring, plan.rearm, pass.completions > 0) {
                pass.end = end;
                return pass;
            }
        }
    }

    fn hasten<R: Ring>(&mut self, ring: &mut R) -> bool {
        let late = self.callbacks == Callbacks::Late && !self.has(Bug::NeverHastens);
        if late {
            let on = ring.enable_cb() || self.has(Bug::HastenRecheckIgnored);
            self.callbacks = if on { Callbacks::On } else { Callbacks::Owed };
        }
        late
    }

    fn rest<R: Ring>(&mut self, ring: &mut R) -> bool {
        let off = self.callbacks == Callbacks::Off;
        off && (self.enable(ring, Rearm::Next) || self.has(Bug::RecheckIgnored))
    }

    fn is_owed(&self) -> bool {
        self.callbacks == Callbacks::Owed
    }
}
