// SPDX-License-Identifier: GPL-2.0

//! The protocol as the driver has it, and a copy that can be broken: each [`Bug`] looks right, or
//! has been somebody's code, and is not.

use crate::driver::completion::{End, Handler, Pass, Ring};
use crate::driver::suppress::Suppress;

/// A protocol that can be explored.
pub trait Protocol: 'static {
    /// As [`Handler::run`].
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        suppress: Suppress,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass;

    /// As [`Handler::is_owed`].
    fn is_owed(&self) -> bool;
}

impl Protocol for Handler {
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        suppress: Suppress,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass {
        self.run(ring, suppress, budget, take)
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
    /// Drains before callbacks are disabled, then enables them without a second look.
    DisabledAfterDrain,
    /// Goes idle with callbacks off.
    NeverEnabled,
    /// Enables callbacks when the budget is used up, and calls that quiescent.
    BudgetIsQuiescence,
    /// Forgets from one pass to the next that callbacks are off.
    ForgetsCallbacksOff,
    /// Looks at the budget after it has taken a buffer, and drops the buffer.
    LosesBufferAtBudget,
    /// Has no budget.
    BudgetIgnored,
    /// Hands out the newest buffer first.
    Reversed,
}

/// A protocol with a bug.
pub struct Mutant {
    bug: Bug,
    callbacks_off: bool,
}

impl Mutant {
    /// The protocol with `bug`.
    pub fn new(bug: Bug) -> Self {
        Self {
            bug,
            callbacks_off: false,
        }
    }

    fn disable<R: Ring>(&mut self, ring: &mut R) {
        ring.disable_cb();
        self.callbacks_off = true;
    }

    fn enable<R: Ring>(&mut self, ring: &mut R, suppress: Suppress) -> bool {
        self.callbacks_off = false;
        if suppress == Suppress::Delayed {
            ring.enable_cb_delayed() || self.bug == Bug::DelayedRecheckIgnored
        } else {
            ring.enable_cb()
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
            let loses = self.bug == Bug::LosesBufferAtBudget;
            if loses && pass.completions >= budget {
                emptied = false;
                break;
            }
            bufs.push(buf);
            pass.completions += 1;
            let unbounded = loses || self.bug == Bug::BudgetIgnored;
            if !unbounded && pass.completions >= budget {
                emptied = false;
                break;
            }
        }
        if self.bug == Bug::Reversed {
            bufs.reverse();
        }
        bufs.into_iter().for_each(take);
        emptied
    }
}

impl Protocol for Mutant {
    fn pass<R: Ring>(
        &mut self,
        ring: &mut R,
        suppress: Suppress,
        budget: u32,
        take: &mut dyn FnMut(R::Buf),
    ) -> Pass {
        let mut pass = Pass {
            drains: 0,
            completions: 0,
            end: End::Quiescent,
        };
        if self.bug == Bug::ForgetsCallbacksOff {
            self.callbacks_off = false;
        }
        loop {
            if suppress != Suppress::Off && self.bug != Bug::DisabledAfterDrain {
                self.disable(ring);
            }
            if !self.drain(ring, budget, &mut pass, take) {
                if self.bug == Bug::BudgetIsQuiescence {
                    self.enable(ring, suppress);
                } else {
                    self.disable(ring);
                    pass.end = End::Budget;
                }
                return pass;
            }
            if self.bug == Bug::DisabledAfterDrain {
                self.disable(ring);
                self.enable(ring, suppress);
                return pass;
            }
            if !self.callbacks_off || self.bug == Bug::NeverEnabled {
                return pass;
            }
            if self.enable(ring, suppress) || self.bug == Bug::RecheckIgnored {
                return pass;
            }
        }
    }

    fn is_owed(&self) -> bool {
        self.callbacks_off
    }
}
