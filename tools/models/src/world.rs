// SPDX-License-Identifier: GPL-2.0

//! Driver and device in a single thread, for long schedules: the device acts between the steps of
//! the protocol, as a script tells it.

use crate::driver::completion::{End, Handler, Pass, Plan, Rearm, Ring};
use crate::driver::suppress::Suppress;
use crate::fault::Fault;
use crate::memory::Plain;
use crate::virtqueue::{self, Device, Driver, Interrupt, Layout, Request, Taken, Wish};
use std::collections::VecDeque;

/// At which steps of a pass the device acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Before every operation on the ring.
    EveryStep,
    /// After each buffer that was taken.
    AfterBuffer,
    /// Before callbacks are enabled: after the ring was seen empty.
    BeforeEnable,
}

/// The device and the interrupt that it raised.
pub struct Host {
    device: Box<dyn Device>,
    held: VecDeque<Taken>,
    /// The requests in the order of their completion.
    pub completed: Vec<Request>,
    /// An interrupt waits to be handled.
    pub pending: bool,
    /// The signals sent so far.
    pub signals: u32,
    /// The device completes the newest request first.
    pub newest_first: bool,
    pace: Pace,
    script: VecDeque<u8>,
}

impl Host {
    /// Completes up to `count` requests, and decides about a signal after each.
    pub fn complete(&mut self, count: usize) {
        for _ in 0..count {
            while let Some(taken) = self.device.take() {
                self.held.push_back(taken);
            }
            let next = if self.newest_first {
                self.held.pop_back()
            } else {
                self.held.pop_front()
            };
            let Some(taken) = next else {
                return;
            };
            self.device.complete(taken);
            self.completed.push(taken.request);
            if self.device.must_signal() {
                self.signals += 1;
                self.pending = true;
            }
        }
    }

    fn act(&mut self, now: Pace) {
        if self.pace == now {
            let count = self.script.pop_front().unwrap_or(0);
            self.complete(count.into());
        }
    }
}

/// A virtqueue before whose operations the device acts.
struct Interposed<'a> {
    virtqueue: &'a mut Box<dyn Driver>,
    host: &'a mut Host,
}

impl Ring for Interposed<'_> {
    type Buf = Request;

    fn disable_cb(&mut self) {
        self.host.act(Pace::EveryStep);
        self.virtqueue.disable_cb();
    }

    fn enable_cb(&mut self) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb()
    }

    fn enable_cb_delayed(&mut self) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb_delayed()
    }

    fn enable_cb_ahead(&mut self, count: u16) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb_ahead(count)
    }

    fn get_buf(&mut self) -> Option<Request> {
        self.host.act(Pace::EveryStep);
        let buf = self.virtqueue.get_buf()?;
        self.host.act(Pace::AfterBuffer);
        Some(buf)
    }
}

/// A guest and a host.
pub struct World {
    virtqueue: Box<dyn Driver>,
    interrupt: Box<dyn Interrupt>,
    handler: Handler,
    next: Request,
    urgent: Vec<Request>,
    /// The host.
    pub host: Host,
    /// The requests in the order in which the driver saw them completed.
    pub seen: Vec<Request>,
    /// The plan of the next pass, but nothing waits while an urgent request is in flight.
    pub plan: Plan,
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
    pub fn new(layout: Layout, plan: Plan, pace: Pace, script: Vec<u8>) -> Self {
        Self::with_fault(layout, plan, pace, script, None)
    }

    /// The same, with a ring or device that is broken.
    pub fn with_fault(
        layout: Layout,
        plan: Plan,
        pace: Pace,
        script: Vec<u8>,
        fault: Option<Fault>,
    ) -> Self {
        let (virtqueue, device) = virtqueue::new::<Plain>(layout, fault);
        Self {
            interrupt: virtqueue.interrupt(),
            virtqueue,
            handler: Handler::new(),
            next: 0,
            urgent: Vec::new(),
            host: Host {
                device,
                held: VecDeque::new(),
                completed: Vec::new(),
                pending: false,
                signals: 0,
                newest_first: false,
                pace,
                script: script.into(),
            },
            seen: Vec::new(),
            plan,
            budget: u32::MAX,
            owed: false,
            timer: false,
            last: (Suppress::Loop.plan(), End::Quiescent),
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
            self.last = (Suppress::Loop.plan(), End::Quiescent);
        }
        self.owed |= self.handler.is_owed();
    }

    /// Handles the pending interrupt, if there is one: what the pass did, if the ring was not
    /// empty.
    pub fn interrupt(&mut self) -> Option<Pass> {
        let arrives = std::mem::take(&mut self.host.pending) && self.interrupt.arrives();
        arrives.then(|| self.pass())
    }

    /// Runs the pass that is owed, if one is.
    pub fn proceed(&mut self) -> Option<Pass> {
        std::mem::take(&mut self.owed).then(|| self.pass())
    }

    /// Has the timer run out, if it is armed.
    pub fn expire(&mut self) -> Option<Pass> {
        std::mem::take(&mut self.timer).then(|| self.pass())
    }

    /// Runs a pass that no interrupt asked for, after which the next buffer is signalled.
    pub fn rescue(&mut self) -> Pass {
        self.pass_by(Suppress::Loop.plan())
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

    fn pass(&mut self) -> Pass {
        let lazy = matches!(self.plan.rearm, Rearm::Ahead(_) | Rearm::Timer);
        let rearm = if lazy && self.is_urgent() {
            Rearm::Next
        } else {
            self.plan.rearm
        };
        self.pass_by(Plan { rearm, ..self.plan })
    }

    fn pass_by(&mut self, plan: Plan) -> Pass {
        let mut ring = Interposed {
            virtqueue: &mut self.virtqueue,
            host: &mut self.host,
        };
        let (seen, urgent) = (&mut self.seen, &mut self.urgent);
        let pass = self.handler.run(&mut ring, plan, self.budget, |request| {
            urgent.retain(|urgent| *urgent != request);
            seen.push(request);
        });
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
        pass
    }
}
