// SPDX-License-Identifier: GPL-2.0

//! The guest of a loom model: its CPUs, the queue's lock, and the properties that each pass and
//! each end must have.

use crate::driver::completion::{End, Pass};
use crate::driver::suppress::Suppress;
use crate::explore::{Coverage, Cpu, Observer, Scenario};
use crate::fault::Fault;
use crate::line::{Line, DONE, OWED, SIGNAL};
use crate::mutants::Protocol;
use crate::virtqueue::{Driver, Interrupt, Request};
use loom::sync::atomic::AtomicBool;
use loom::sync::Mutex;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::Arc;

/// What the queue's lock guards.
struct Queue<P> {
    virtqueue: Box<dyn Driver>,
    protocol: P,
    /// The next request to submit.
    next: Request,
    passes: usize,
    seen: Vec<Request>,
}

/// The guest's memory and lines.
pub struct Guest<P> {
    scenario: Arc<Scenario>,
    queue: Mutex<Queue<P>>,
    interrupt: Box<dyn Interrupt>,
    switched: AtomicBool,
    observer: Observer,
    /// From the device to the CPU that takes the interrupts.
    pub irq: Rc<Line>,
    /// From the guest to the device.
    pub kick: Rc<Line>,
    /// From an interrupt to the CPU that runs the poller.
    pub poll: Rc<Line>,
    /// `IRQ_POLL_F_SCHED`.
    scheduled: AtomicBool,
}

impl<P: Protocol> Guest<P> {
    /// A guest that has submitted its first requests.
    pub fn new(
        scenario: Arc<Scenario>,
        mut virtqueue: Box<dyn Driver>,
        protocol: P,
        observer: Observer,
    ) -> Self {
        for request in 0..scenario.upfront {
            assert!(
                virtqueue.add(request),
                "the ring has room for what is there at the start"
            );
        }
        Self {
            interrupt: virtqueue.interrupt(),
            queue: Mutex::new(Queue {
                virtqueue,
                protocol,
                next: scenario.upfront,
                passes: 0,
                seen: Vec::new(),
            }),
            switched: AtomicBool::new(false),
            observer,
            irq: Rc::new(Line::new()),
            kick: Rc::new(Line::new()),
            poll: Rc::new(Line::new()),
            scheduled: AtomicBool::new(false),
            scenario,
        }
    }

    /// The CPU that takes the interrupts.
    pub fn take_interrupts(&self) {
        let (mut owed, mut done) = (false, false);
        while owed || !done {
            let bits = if owed {
                self.irq.take()
            } else {
                self.irq.wait()
            };
            done |= bits & DONE != 0;
            if bits & SIGNAL != 0 {
                let ended = self.interrupt();
                if self.scenario.fault == Some(Fault::LateAcknowledge) {
                    done |= self.irq.take() & DONE != 0;
                }
                if ended == Some(End::Budget) {
                    match self.scenario.continuation {
                        Cpu::Same => owed = true,
                        Cpu::Other => self.schedule(),
                    }
                }
            } else if owed {
                owed = self.pass() == End::Budget;
            }
            owed &= self.scenario.fault != Some(Fault::ContinuationForgotten);
        }
        match self.scenario.continuation {
            Cpu::Same => self.check_all_seen(),
            Cpu::Other => self.poll.raise(DONE),
        }
    }

    /// The CPU that runs the poller, if it is another one.
    pub fn take_polls(&self) {
        let (mut scheduled, mut done) = (false, false);
        loop {
            let bits = if scheduled || done {
                self.poll.take()
            } else {
                self.poll.wait()
            };
            scheduled |= bits & OWED != 0;
            done |= bits & DONE != 0;
            if scheduled {
                scheduled = self.poll_once();
            } else if done {
                break;
            }
        }
        self.check_all_seen();
    }

    /// C function: `irq_poll_sched()`.
    fn schedule(&self) {
        if !self.scheduled.swap(true, AcqRel) {
            self.poll.raise(OWED);
        }
    }

    /// Polls once; `true` if the poller stays scheduled.
    fn poll_once(&self) -> bool {
        if self.pass() == End::Budget {
            return true;
        }
        // C function: irq_poll_complete().
        self.scheduled.swap(false, Release);
        let look = self.scenario.fault != Some(Fault::PollerDoesNotLookAgain);
        if look && self.queue.lock().unwrap().protocol.is_owed() {
            self.schedule();
        }
        false
    }

    /// The CPU that submits, if it is another one.
    pub fn submit_rest(&self) {
        for _ in self.scenario.upfront..self.scenario.requests {
            assert!(
                self.submit(&mut self.queue.lock().unwrap()),
                "the ring has room for all"
            );
            self.kick.raise(SIGNAL);
        }
    }

    /// The CPU that writes another mode.
    pub fn switch(&self) {
        self.switched.store(true, Relaxed);
    }

    /// The CPU that looks for a request that has timed out.
    pub fn rescue(&self) {
        assert_eq!(self.pass(), End::Quiescent, "a rescue has no budget here");
    }

    /// C function: `vring_interrupt()`.
    fn interrupt(&self) -> Option<End> {
        if self.interrupt.arrives() {
            return Some(self.pass());
        }
        Coverage::count(&self.observer.coverage.empty_interrupts);
        None
    }

    fn submit(&self, queue: &mut Queue<P>) -> bool {
        let added = queue.next < self.scenario.requests && queue.virtqueue.add(queue.next);
        queue.next += Request::from(added);
        added
    }

    /// One pass under the queue's lock, and what it must be like.
    fn pass(&self) -> End {
        let queue = &mut *self.queue.lock().unwrap();
        let mode = self.mode(queue.passes);
        queue.passes += 1;
        let seen = &mut queue.seen;
        let before = seen.len();
        let budget = self.scenario.budget;
        let pass = queue
            .protocol
            .pass(&mut queue.virtqueue, mode, budget, &mut |request| {
                seen.push(request)
            });

        let taken = seen.len() - before;
        assert_eq!(taken, pass.completions as usize, "miscounted: {pass:?}");
        assert!(pass.completions <= budget.max(1), "over budget: {pass:?}");
        assert!(
            pass.drains <= pass.completions + 1,
            "a drain in vain: {pass:?}"
        );
        let on = queue.virtqueue.callbacks_on();
        assert_eq!(
            on,
            pass.end == End::Quiescent,
            "callbacks on: {on}, but {pass:?}"
        );
        self.cover(pass);

        if self.scenario.submitter == Cpu::Same {
            let mut submitted = false;
            while self.submit(queue) {
                submitted = true;
            }
            if submitted {
                self.kick.raise(SIGNAL);
            }
        }
        pass.end
    }

    fn mode(&self, passes: usize) -> Suppress {
        match self.scenario.switch_to {
            Some(mode) if self.switched.load(Relaxed) => mode,
            _ => self.scenario.modes[passes % self.scenario.modes.len()],
        }
    }

    fn cover(&self, pass: Pass) {
        let coverage = &self.observer.coverage;
        Coverage::count(&coverage.passes);
        coverage
            .repeats
            .fetch_add(u64::from(pass.drains) - 1, Relaxed);
        if pass.end == End::Budget {
            Coverage::count(&coverage.budget_ends);
        }
    }

    /// The device has completed everything, every interrupt and every work item has run.
    fn check_all_seen(&self) {
        let seen = &self.queue.lock().unwrap().seen;
        let completed = self.observer.completed.lock().unwrap();
        let all = usize::from(self.scenario.requests);
        assert!(
            seen.len() >= all,
            "lost wakeup: {} of {all} completions seen",
            seen.len()
        );
        assert_eq!(*seen, *completed, "seen in another order than completed");
        let mut sorted = seen.clone();
        sorted.sort_unstable();
        let each: Vec<Request> = (0..self.scenario.requests).collect();
        assert_eq!(sorted, each, "not each request exactly once");
    }
}
