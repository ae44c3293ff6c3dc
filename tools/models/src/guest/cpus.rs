// SPDX-License-Identifier: GPL-2.0

//! What the CPUs of the guest do, each in a thread of its own.

use super::Guest;
use crate::driver::completion::{End, Pass};
use crate::explore::{Coverage, Cpu};
use crate::fault::Fault;
use crate::line::{OWED, SIGNAL, STOP};
use crate::mutants::Protocol;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

impl<P: Protocol> Guest<P> {
    /// Names what acts by itself before the first thread starts: the device and, if there is one,
    /// the CPU that submits.
    pub fn start(&self) {
        let submitter = self.scenario.submitter == Cpu::Other;
        self.work.begin(1 + u32::from(submitter));
    }

    /// The CPU that takes the interrupts.
    pub fn take_interrupts(&self) {
        let (mut owed, mut unfinished) = (false, 0);
        loop {
            let bits = if owed {
                self.irq.take()
            } else {
                self.irq.wait()
            };
            if bits & STOP != 0 {
                break;
            }
            unfinished += bits.count_ones();
            if bits & SIGNAL != 0 {
                let pass = self.interrupt();
                if self.has(Fault::LateAcknowledge) {
                    unfinished += self.irq.take().count_ones();
                }
                owed |= pass.is_some_and(|pass| self.follow(pass));
            } else if owed {
                owed = self.follow(self.visit());
            }
            owed &= !self.has(Fault::ContinuationForgotten);
            if !owed {
                self.finish(std::mem::take(&mut unfinished));
            }
        }
    }

    /// C function: `vring_interrupt()`.
    fn interrupt(&self) -> Option<Pass> {
        if self.interrupt.arrives() {
            return Some(self.visit());
        }
        Coverage::count(&self.observer.coverage.empty_interrupts);
        None
    }

    /// Does what follows on a pass; `true` if this CPU owes another one.
    fn follow(&self, pass: Pass) -> bool {
        self.arm(pass);
        pass.end == End::Budget && self.owe()
    }

    /// Does what follows on a pass, and runs those that this CPU owes.
    fn go_on(&self, mut pass: Pass) {
        while self.follow(pass) {
            pass = self.visit();
        }
    }

    /// Has a pass run soon; `true` if it is this CPU that owes it.
    fn owe(&self) -> bool {
        if self.scenario.continuation == Cpu::Other {
            self.schedule();
        }
        self.scenario.continuation == Cpu::Same
    }

    /// C function: `irq_poll_sched()`.
    fn schedule(&self) {
        if !self.scheduled.swap(true, AcqRel) {
            self.poll.raise(OWED);
        }
    }

    /// The CPU that runs the poller, if it is another one.
    pub fn take_polls(&self) {
        loop {
            let bits = self.poll.wait();
            if bits & STOP != 0 {
                break;
            }
            while self.poll_once() {}
            self.finish(bits.count_ones());
        }
    }

    /// Polls once; `true` if the poller stays scheduled.
    fn poll_once(&self) -> bool {
        let pass = self.visit();
        if pass.end == End::Budget {
            return true;
        }
        // C function: irq_poll_complete().
        self.scheduled.swap(false, Release);
        self.arm(pass);
        let look = !self.has(Fault::PollerDoesNotLookAgain);
        if look && self.queue.lock().unwrap().protocol.is_owed() {
            self.schedule();
        }
        false
    }

    /// The CPU on which the timer runs out. C function: `hrtimer_run_softirq()`.
    pub fn take_timers(&self) {
        loop {
            let bits = self.timer.wait();
            if bits & STOP != 0 {
                break;
            }
            let pass = self.visit();
            let coverage = &self.observer.coverage;
            Coverage::count(&coverage.timer_fires);
            Coverage::add(&coverage.timer_completions, pass.completions);
            let mut unfinished = bits.count_ones();
            if self.has(Fault::TimerStartedMeanwhileIsLost) {
                unfinished += self.timer.take().count_ones();
            }
            self.go_on(pass);
            self.finish(unfinished);
        }
    }

    /// The CPU that submits, if it is another one.
    pub fn submit_rest(&self) {
        for _ in self.scenario.upfront..self.scenario.requests {
            let mut queue = self.queue.lock().unwrap();
            assert!(self.submit(&mut queue), "the ring has room for all");
            let owed = queue.protocol.is_owed() && !self.has(Fault::HastenedPassForgotten);
            drop(queue);
            self.kick.raise(SIGNAL);
            if owed && self.owe() {
                self.go_on(self.visit());
            }
        }
        self.finish(1);
    }

    /// The CPU that writes another plan.
    pub fn switch(&self) {
        self.switched.store(true, Relaxed);
    }

    /// The CPU that looks for a request that has timed out.
    pub fn rescue(&self) {
        let pass = self.rearm();
        assert_eq!(pass.end, End::Quiescent, "a rescue has no budget here");
    }
}
