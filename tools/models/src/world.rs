// SPDX-License-Identifier: GPL-2.0

//! Driver and device in a single thread, for long schedules: the device acts between the steps of
//! the protocol, as a script tells it.

use crate::driver::coalesce::{Coalesce, Found, Load, Policy};
use crate::driver::completion::{End, Handler, Pass, Plan, Rearm};
use crate::driver::suppress::Suppress;
use crate::fault::Fault;
use crate::memory::Plain;
use crate::virtqueue::{self, Driver, Interrupt, Layout, Request, Wish};
use host::Interposed;

mod host;

pub use host::{Host, Pace};

/// What the driver makes plans of.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// This plan, but nothing waits while an urgent request is in flight.
    Plan(Plan),
    /// These settings, and what is in flight.
    Settings(Suppress, Coalesce),
}

impl From<Plan> for Choice {
    fn from(plan: Plan) -> Self {
        Self::Plan(plan)
    }
}

/// A guest and a host.
pub struct World {
    virtqueue: Box<dyn Driver>,
    interrupt: Box<dyn Interrupt>,
    handler: Handler,
    policy: Policy,
    next: Request,
    urgent: Vec<Request>,
    /// The host.
    pub host: Host,
    /// The requests in the order in which the driver saw them completed.
    pub seen: Vec<Request>,
    /// What the next pass goes by.
    pub choice: Choice,
    /// The budget of the next pass.
    pub budget: u32,
    /// A pass used up its budget, or an urgent request found completions.
    pub owed: bool,
    /// The timer is armed.
    pub timer: bool,
    /// The plan of the last pass that asked for anything, and how it ended; or what an urgent
    /// request has asked for since.
    pub last: (Plan, End),
}

impl World {
    /// A fresh queue, on which the device acts during passes as `script` says: so many completions
    /// at each step of `pace`.
    pub fn new(layout: Layout, choice: impl Into<Choice>, pace: Pace, script: Vec<u8>) -> Self {
        Self::with_fault(layout, choice, pace, script, None)
    }

    /// The same, with a ring or device that is broken.
    pub fn with_fault(
        layout: Layout,
        choice: impl Into<Choice>,
        pace: Pace,
        script: Vec<u8>,
        fault: Option<Fault>,
    ) -> Self {
        let (virtqueue, device) = virtqueue::new::<Plain>(layout, fault);
        Self {
            interrupt: virtqueue.interrupt(),
            virtqueue,
            handler: Handler::new(),
            policy: Policy::new(),
            next: 0,
            urgent: Vec::new(),
            host: Host::new(device, pace, script),
            seen: Vec::new(),
            choice: choice.into(),
            budget: u32::MAX,
            owed: false,
            timer: false,
            last: (Plan::REARM, End::Quiescent),
        }
    }

    /// Submits up to `count` requests, as many as the ring has room for.
    pub fn submit(&mut self, count: u16) {
        for _ in 0..count {
            if !self.virtqueue.add(self.next) {
                return;
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Submits a request that must not wait, if the ring has room for it.
    pub fn submit_urgent(&mut self) {
        if !self.virtqueue.add(self.next) {
            return;
        }
        self.urgent.push(self.next);
        self.next = self.next.wrapping_add(1);
        let hastened = self.handler.hasten(&mut self.virtqueue);
        assert_eq!(hastened, self.last.1 == End::Late);
        if hastened {
            self.last = (Plan::REARM, End::Quiescent);
        }
        self.owed |= self.handler.is_owed();
    }

    /// Handles the pending interrupt, if there is one: what the pass did, if the ring was not
    /// empty.
    pub fn interrupt(&mut self) -> Option<Pass> {
        let arrives = std::mem::take(&mut self.host.pending) && self.interrupt.arrives();
        arrives.then(|| self.visit(true))
    }

    /// Runs the pass that is owed, if one is.
    pub fn proceed(&mut self) -> Option<Pass> {
        std::mem::take(&mut self.owed).then(|| self.visit(false))
    }

    /// Has the timer run out, if it is armed.
    pub fn expire(&mut self) -> Option<Pass> {
        std::mem::take(&mut self.timer).then(|| self.visit(false))
    }

    /// Runs a pass that no interrupt asked for, after which the next buffer is signalled.
    pub fn rescue(&mut self) -> Pass {
        self.visit_by(Plan::REARM)
    }

    /// Lets everything come to its end: the device completes all, and all that is due is done.
    /// Returns how many timers ran out for nothing.
    pub fn settle(&mut self) -> u32 {
        let mut in_vain = 0;
        self.host.complete(usize::MAX);
        while self.host.pending || self.owed || self.timer {
            self.interrupt();
            self.proceed();
            let fired = self.expire();
            in_vain += u32::from(fired.is_some_and(|pass| pass.completions == 0));
            self.host.complete(usize::MAX);
        }
        in_vain
    }

    /// Whether a request that must not wait is in flight.
    pub fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// What the driver has asked for.
    pub fn wish(&self) -> Wish {
        self.virtqueue.wish()
    }

    /// How many requests the device has.
    pub fn in_device(&self) -> u16 {
        self.virtqueue.outstanding() - self.unseen()
    }

    /// How many completions the driver has not seen yet.
    pub fn unseen(&self) -> u16 {
        (self.host.completed.len() - self.seen.len()) as u16
    }

    /// Whether the device will signal if it completes all that it has.
    pub fn signal_is_coming(&self) -> bool {
        let (unseen, in_device) = (self.unseen(), self.in_device());
        match self.virtqueue.wish() {
            Wish::None => false,
            Wish::Every => in_device > 0,
            Wish::At(distance) | Wish::Ahead(distance) => {
                (unseen..unseen + in_device).contains(&distance)
            }
        }
    }

    fn visit(&mut self, signalled: bool) -> Pass {
        let urgent = self.is_urgent();
        let plan = match self.choice {
            Choice::Plan(plan @ Plan { rearm, .. }) => {
                let lazy = matches!(rearm, Rearm::Ahead(_) | Rearm::Timer);
                let rearm = if lazy && urgent {
                    Rearm::Quiescent
                } else {
                    rearm
                };
                Plan { rearm, ..plan }
            }
            Choice::Settings(suppress, coalesce) => {
                let load = Load {
                    in_flight: self.virtqueue.outstanding().into(),
                    urgent,
                    signalled,
                };
                let can_count = self.virtqueue.can_count();
                self.policy.plan(suppress, &coalesce, load, can_count).0
            }
        };
        let visit = self.visit_by(plan);
        self.policy.learn(Found {
            left: self.virtqueue.outstanding().into(),
            idle: visit.drains > 1,
        });
        visit
    }

    /// Passes by `plan` until none is to follow at once: what they did together.
    fn visit_by(&mut self, plan: Plan) -> Pass {
        let mut visit = self.pass(plan, self.budget);
        while visit.end == End::Again {
            assert!(!self.handler.is_owed() && plan.rearm == Rearm::Quiescent);
            self.host.between_passes();
            if self.rest() {
                visit.end = End::Quiescent;
                break;
            }
            let pass = self.pass(plan, self.budget - visit.completions);
            visit.drains += pass.drains;
            visit.completions += pass.completions;
            visit.end = pass.end;
        }
        self.note(plan, visit);
        visit
    }

    fn rest(&mut self) -> bool {
        let mut ring = Interposed {
            virtqueue: &mut self.virtqueue,
            host: &mut self.host,
        };
        self.handler.rest(&mut ring)
    }

    fn pass(&mut self, plan: Plan, budget: u32) -> Pass {
        let plan = plan.at(self.virtqueue.outstanding().into());
        let mut ring = Interposed {
            virtqueue: &mut self.virtqueue,
            host: &mut self.host,
        };
        let (seen, urgent) = (&mut self.seen, &mut self.urgent);
        self.handler.run(&mut ring, plan, budget, |request| {
            urgent.retain(|urgent| *urgent != request);
            seen.push(request);
        })
    }

    /// Notes what a visit has left behind, and checks it.
    fn note(&mut self, plan: Plan, pass: Pass) {
        self.owed = pass.end == End::Budget;
        self.timer |= pass.end == End::Late;
        // A pass that finds nothing with callbacks on asks for nothing: the last wish still stands.
        let asks = plan.disable || plan.rearm == Rearm::Delayed || pass.completions > 0;
        if asks || self.last.1 != End::Quiescent {
            self.last = (plan, pass.end);
        }
        assert_eq!(self.owed, self.handler.is_owed());
        assert_eq!(self.virtqueue.callbacks_on(), pass.end == End::Quiescent);
        if let (End::Late, Rearm::Ahead(count), true) =
            (pass.end, plan.rearm, self.virtqueue.can_count())
        {
            assert_eq!(self.virtqueue.wish(), Wish::Ahead(count.max(1) - 1));
        }
    }
}
