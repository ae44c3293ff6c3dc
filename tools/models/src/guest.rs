// SPDX-License-Identifier: GPL-2.0

//! The guest of a loom model: the queue's lock, and the properties that each pass and the end must
//! have. What its CPUs do: see [`cpus`].

use crate::driver::completion::{End, Pass, Plan, Rearm};
use crate::explore::{Coverage, Cpu, Observer, Scenario, Timer};
use crate::fault::Fault;
use crate::line::{Line, Work, ARMED, SIGNAL, STOP};
use crate::mutants::Protocol;
use crate::virtqueue::{Driver, Interrupt, Request, Wish};
use loom::sync::atomic::AtomicBool;
use loom::sync::Mutex;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

mod cpus;

/// What the queue's lock guards.
struct Queue<P> {
    virtqueue: Box<dyn Driver>,
    protocol: P,
    /// The next request to submit.
    next: Request,
    visits: usize,
    seen: Vec<Request>,
}

/// The guest's memory and lines.
pub struct Guest<P> {
    scenario: Arc<Scenario>,
    queue: Mutex<Queue<P>>,
    interrupt: Box<dyn Interrupt>,
    switched: AtomicBool,
    observer: Observer,
    /// What is left to do.
    pub work: Rc<Work>,
    /// From the device to the CPU that takes the interrupts.
    pub irq: Rc<Line>,
    /// From the guest to the device.
    pub kick: Rc<Line>,
    /// From an interrupt to the CPU that runs the poller.
    pub poll: Rc<Line>,
    /// From a pass to the CPU on which the timer runs out.
    pub timer: Rc<Line>,
    /// `IRQ_POLL_F_SCHED`.
    scheduled: AtomicBool,
}

/// Whether a plan may have the next signal come late.
fn is_lazy(plan: Plan) -> bool {
    matches!(plan.rearm, Rearm::Ahead(_) | Rearm::Timer)
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
        let work = Rc::new(Work::default());
        let line = || Rc::new(Line::new(work.clone()));
        Self {
            interrupt: virtqueue.interrupt(),
            queue: Mutex::new(Queue {
                virtqueue,
                protocol,
                next: scenario.upfront,
                visits: 0,
                seen: Vec::new(),
            }),
            switched: AtomicBool::new(false),
            observer,
            irq: line(),
            // The device does not end by itself before it has done all that it is kicked for.
            kick: Rc::new(Line::new(Rc::default())),
            poll: line(),
            timer: line(),
            scheduled: AtomicBool::new(false),
            scenario,
            work,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.scenario.fault == Some(fault)
    }

    /// Submits the next request, if there is one and room for it. C function: `virtio_queue_rq()`.
    fn submit(&self, queue: &mut Queue<P>) -> bool {
        let added = queue.next < self.scenario.requests && queue.virtqueue.add(queue.next);
        if added {
            if queue.next >= self.scenario.urgent {
                let hastened = queue.protocol.hasten(&mut queue.virtqueue);
                Coverage::add(&self.observer.coverage.hastened, hastened.into());
            }
            queue.next += 1;
        }
        added
    }

    /// A visit to the queue by the plan of the day: passes until none is to follow at once, each
    /// under the queue's lock. What they did together.
    fn visit(&self) -> Pass {
        let mut queue = self.queue.lock().unwrap();
        let mut plan = match self.scenario.switch_to {
            Some(plan) if self.switched.load(Relaxed) => plan,
            _ => self.scenario.plans[queue.visits % self.scenario.plans.len()],
        };
        queue.visits += 1;
        if is_lazy(plan) && self.is_urgent(&queue) && !self.has(Fault::UrgentWaits) {
            plan.rearm = Rearm::Quiescent;
        }
        let mut visit = self.pass(&mut queue, plan, self.scenario.budget);
        while visit.end == End::Again && !self.has(Fault::VisitEndsEarly) {
            drop(queue);
            queue = self.queue.lock().unwrap();
            if self.rest(&mut queue) {
                visit.end = End::Quiescent;
                break;
            }
            let left = self.scenario.budget - visit.completions;
            let pass = self.pass(&mut queue, plan, left);
            visit.drains += pass.drains;
            visit.completions += pass.completions;
            visit.end = pass.end;
        }
        visit
    }

    /// Goes idle between passes, and what that must be like.
    fn rest(&self, queue: &mut Queue<P>) -> bool {
        let rests = queue.protocol.rest(&mut queue.virtqueue);
        if rests {
            assert!(
                queue.virtqueue.callbacks_on(),
                "at rest, but callbacks on: false"
            );
            Coverage::count(&self.observer.coverage.rests);
        }
        rests
    }

    /// A pass that has the next buffer signalled, whatever the plan of the day.
    fn rearm(&self) -> Pass {
        let queue = &mut *self.queue.lock().unwrap();
        queue.visits += 1;
        self.pass(queue, Plan::REARM, self.scenario.budget)
    }

    /// Whether an urgent request is in flight.
    fn is_urgent(&self, queue: &Queue<P>) -> bool {
        let mut urgent = self.scenario.urgent..queue.next;
        urgent.any(|request| !queue.seen.contains(&request))
    }

    /// One pass, and what it must be like.
    fn pass(&self, queue: &mut Queue<P>, plan: Plan, budget: u32) -> Pass {
        let seen = &mut queue.seen;
        let before = seen.len();
        let in_flight = usize::from(queue.next) - before;
        let plan = plan.at(u32::try_from(in_flight).unwrap());
        let pass = queue
            .protocol
            .pass(&mut queue.virtqueue, plan, budget, &mut |request| {
                seen.push(request)
            });
        let taken = seen.len() - before;
        assert_eq!(taken, pass.completions as usize, "miscounted: {pass:?}");
        self.check(plan, budget, pass, &*queue.virtqueue);
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
        pass
    }

    /// What a pass must be like.
    fn check(&self, plan: Plan, budget: u32, pass: Pass, virtqueue: &dyn Driver) {
        assert!(pass.completions <= budget.max(1), "over budget: {pass:?}");
        assert!(
            pass.drains <= pass.completions + 1,
            "a drain in vain: {pass:?}"
        );
        let on = virtqueue.callbacks_on();
        match pass.end {
            End::Again => {
                assert_eq!(
                    plan.rearm,
                    Rearm::Quiescent,
                    "again without a reason: {pass:?}"
                );
                assert!(pass.completions > 0, "again for nothing: {pass:?}");
                assert!(!(on && plan.disable), "callbacks on: {on}, but {pass:?}");
            }
            end => assert_eq!(
                on,
                end == End::Quiescent,
                "callbacks on: {on}, but {pass:?}"
            ),
        }
        if pass.end == End::Late {
            assert!(is_lazy(plan), "late without a reason: {pass:?}");
            assert!(pass.completions > 0, "late for nothing: {pass:?}");
            let wish = match plan.rearm {
                Rearm::Ahead(count) if virtqueue.can_count() => Wish::Ahead(count.max(1) - 1),
                _ => Wish::None,
            };
            assert_eq!(virtqueue.wish(), wish, "another wish than {plan:?}");
        }
    }

    fn cover(&self, pass: Pass) {
        let coverage = &self.observer.coverage;
        Coverage::count(&coverage.passes);
        Coverage::add(&coverage.repeats, pass.drains - 1);
        match pass.end {
            End::Quiescent => {}
            End::Again => Coverage::count(&coverage.again_ends),
            End::Late => Coverage::count(&coverage.late_ends),
            End::Budget => Coverage::count(&coverage.budget_ends),
        }
    }

    /// What follows on a pass that ended late, after the lock.
    fn arm(&self, pass: Pass) {
        let armed = pass.end == End::Late && self.scenario.timer == Timer::RunsOut;
        if armed && !self.has(Fault::TimerForgotten) {
            self.timer.raise(ARMED);
        }
    }

    /// So much was done. If nothing is left, this is the end.
    fn finish(&self, count: u32) {
        if self.work.end(count) {
            self.check_all_seen();
            for line in [&self.irq, &self.poll, &self.timer] {
                line.raise(STOP);
            }
        }
    }

    /// The device has completed everything, and every interrupt, timer and work item has run.
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
