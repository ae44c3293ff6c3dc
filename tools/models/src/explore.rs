// SPDX-License-Identifier: GPL-2.0

//! Runs one small scenario of guest and host in every interleaving that loom tells apart.

use crate::driver::completion::Plan;
use crate::driver::suppress::Suppress;
use crate::fault::Fault;
use crate::guest::Guest;
use crate::host;
use crate::memory::Explored;
use crate::mutants::Protocol;
use crate::virtqueue::{self, Layout, Request};
use loom::thread;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Which CPU of the guest does what the one with the interrupt need not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// The one that takes the queue's interrupts.
    Same,
    /// Another one, at the same time.
    Other,
}

/// What becomes of the timer that a pass may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Once it is armed, it runs out at some time.
    RunsOut,
    /// It does not run out, as if its time were very long.
    Never,
}

/// What guest and host do.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The queue.
    pub layout: Layout,
    /// How many requests there are in all.
    pub requests: Request,
    /// How many of them are there from the start.
    pub upfront: Request,
    /// Who submits the rest: the same CPU after each pass, or another one at any time.
    pub submitter: Cpu,
    /// Who runs the pass that is owed after a budget was used up: the same CPU when no interrupt
    /// is pending, or a poller on another one, as the kernel's `irq_poll` does.
    pub continuation: Cpu,
    /// The requests from this one on are urgent.
    pub urgent: Request,
    /// The plans of the visits, in turn.
    pub plans: Vec<Plan>,
    /// The plan that another CPU switches to, at any time.
    pub switch_to: Option<Plan>,
    /// Whether a timer that is armed runs out, on a CPU of its own, or later than everything else:
    /// so late that nobody may count on it.
    pub timer: Timer,
    /// Another CPU runs a pass at any time, without an interrupt: a request has timed out.
    pub rescue: bool,
    /// The budget of each pass.
    pub budget: u32,
    /// How many requests the device completes before it decides about a signal.
    pub batch: usize,
    /// The device completes the requests of a batch in reverse.
    pub reverse: bool,
    /// What is broken.
    pub fault: Option<Fault>,
    /// The bound on preemptions, if every interleaving is too many.
    pub preemptions: Option<usize>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            requests: 2,
            upfront: 2,
            submitter: Cpu::Same,
            continuation: Cpu::Same,
            urgent: Request::MAX,
            plans: vec![Suppress::Loop.plan()],
            switch_to: None,
            timer: Timer::Never,
            rescue: false,
            budget: u32::MAX,
            batch: 1,
            reverse: false,
            fault: None,
            preemptions: None,
        }
    }
}

/// How often the interesting things happened, over all interleavings.
#[derive(Debug, Default)]
pub struct Coverage {
    /// Interleavings.
    pub executions: AtomicU64,
    /// Passes of the protocol.
    pub passes: AtomicU64,
    /// Drains after the first of a pass: callbacks were enabled too late for a buffer.
    pub repeats: AtomicU64,
    /// Passes that left it to their caller to go idle, or to go on.
    pub again_ends: AtomicU64,
    /// Visits that went idle after such a pass.
    pub rests: AtomicU64,
    /// Passes that ended because their budget was used up.
    pub budget_ends: AtomicU64,
    /// Passes that ended with a timer armed.
    pub late_ends: AtomicU64,
    /// Timers that ran out.
    pub timer_fires: AtomicU64,
    /// Requests that a timer's pass has collected.
    pub timer_completions: AtomicU64,
    /// Urgent requests that had the next signal come earlier.
    pub hastened: AtomicU64,
    /// Interrupts that found the ring empty.
    pub empty_interrupts: AtomicU64,
    /// Signals of the device.
    pub signals: AtomicU64,
}

impl Coverage {
    /// Counts one of `what`.
    pub fn count(what: &AtomicU64) {
        Self::add(what, 1);
    }

    /// Counts some of `what`.
    pub fn add(what: &AtomicU64, count: u32) {
        what.fetch_add(count.into(), Relaxed);
    }
}

/// What the observers share, outside of the explored memory.
#[derive(Clone)]
pub struct Observer {
    /// The requests in the order in which the device completed them.
    pub completed: Arc<Mutex<Vec<Request>>>,
    /// What happened in all interleavings.
    pub coverage: Arc<Coverage>,
}

/// Explores `scenario` with the protocol that `make` makes: what was covered, or how the first
/// interleaving that violates a property ended.
pub fn explore<P: Protocol>(
    scenario: &Scenario,
    make: impl Fn() -> P + Send + Sync + 'static,
) -> Result<Arc<Coverage>, String> {
    let coverage = Arc::new(Coverage::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = scenario.preemptions;
    let run = {
        let (scenario, coverage) = (Arc::new(scenario.clone()), coverage.clone());
        move || execute(&scenario, make(), &coverage)
    };
    match catch_unwind(AssertUnwindSafe(|| builder.check(run))) {
        Ok(()) => Ok(coverage),
        Err(panic) => Err(panic
            .downcast::<String>()
            .map(|text| *text)
            .or_else(|panic| panic.downcast::<&str>().map(|text| text.to_string()))
            .unwrap_or_default()),
    }
}

/// One interleaving: the calling thread is the CPU that takes the interrupts.
fn execute<P: Protocol>(scenario: &Arc<Scenario>, protocol: P, coverage: &Arc<Coverage>) {
    Coverage::count(&coverage.executions);
    let observer = Observer {
        completed: Arc::default(),
        coverage: coverage.clone(),
    };
    let (driver, device) = virtqueue::new::<Explored>(scenario.layout, scenario.fault);
    let guest = Rc::new(Guest::new(
        scenario.clone(),
        driver,
        protocol,
        observer.clone(),
    ));
    guest.irq.belongs_to(&thread::current());
    guest.start();

    let (irq, kick, work) = (guest.irq.clone(), guest.kick.clone(), guest.work.clone());
    let host = thread::spawn({
        let scenario = scenario.clone();
        move || host::run(&scenario, device, &irq, &kick, &work, &observer)
    });
    guest.kick.belongs_to(host.thread());
    if scenario.continuation == Cpu::Other {
        let poller = guest.clone();
        let thread = thread::spawn(move || poller.take_polls());
        guest.poll.belongs_to(thread.thread());
    }
    if scenario.timer == Timer::RunsOut {
        let timer = guest.clone();
        let thread = thread::spawn(move || timer.take_timers());
        guest.timer.belongs_to(thread.thread());
    }
    if scenario.submitter == Cpu::Other {
        let submitter = guest.clone();
        thread::spawn(move || submitter.submit_rest());
    }
    if scenario.switch_to.is_some() {
        let sysfs = guest.clone();
        thread::spawn(move || sysfs.switch());
    }
    if scenario.rescue {
        let rescuer = guest.clone();
        thread::spawn(move || rescuer.rescue());
    }
    guest.take_interrupts();
}
