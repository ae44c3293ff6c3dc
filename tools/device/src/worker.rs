// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! One queue at work.
//!
//! A worker runs as long as there is something to do and then leaves the thread to the library,
//! which waits for the next kick. So between two runs no request is on its way, and whoever wants
//! to stop a queue asks the worker to stop and waits until the run is over.

use crate::device::{Device, Queue};
use crate::execute::execute;
use crate::policy::{Policy, Wait};
use crate::request::{Malformed, Request};
use crate::ring;
use crate::schedule::Schedule;
use crate::signal::Signaller;
use crate::wait::sleep;
use std::hint;
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use vhost_user_backend::{VringMutex, VringState, VringT};
use virtio_queue::{Error, QueueOwnedT, QueueT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

/// The guest's memory, which may be replaced at any time.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A request on its way.
#[derive(Debug)]
struct Pending {
    head: u16,
    request: Result<Request, Malformed>,
}

/// What a queue's thread works with.
#[derive(Debug)]
pub struct Worker {
    device: Arc<Device>,
    index: usize,
    memory: Memory,
    schedule: Schedule<Pending>,
    signaller: Signaller,
    is_started: bool,
}

impl Worker {
    /// The worker of the queue number `index`.
    pub fn new(device: Arc<Device>, index: usize, memory: Memory) -> Self {
        let seed = device.seed().wrapping_add(index as u64);
        Self {
            device,
            index,
            memory,
            schedule: Schedule::new(seed),
            signaller: Signaller::default(),
            is_started: false,
        }
    }

    /// Does what there is to do after a kick.
    pub fn run(&mut self, vring: &VringMutex) {
        let device = Arc::clone(&self.device);
        let queue = &device.queues()[self.index];
        // The library looks at a queue once when it is started, without a kick.
        if std::mem::replace(&mut self.is_started, true) {
            queue.counters.kicks.increment();
        } else {
            queue.serves(Some(vring));
        }
        if let Err(error) = self.work(queue, vring) {
            // There is nowhere to put them.
            self.schedule.clear();
            self.complain(queue, &error);
        }
    }

    fn complain(&self, queue: &Queue, error: &Error) {
        queue.counters.bad_rings.increment();
        eprintln!("queue {}: {error}", self.index);
    }

    /// Forgets what belongs to a queue that was stopped.
    pub fn reset(&mut self) {
        self.signaller = Signaller::default();
        self.is_started = false;
        self.device.queues()[self.index].serves(None);
    }

    fn work(&mut self, queue: &Queue, vring: &VringMutex) -> Result<(), Error> {
        loop {
            queue.bell.silence();
            let is_stopping = queue.is_stopping();
            let mut policy = self.device.policy();
            let mut is_open = !is_stopping;
            if is_stopping {
                policy = policy.at_once();
            } else if let Err(error) = self.fetch(queue, vring) {
                // What was fetched before still has its end.
                self.complain(queue, &error);
                is_open = false;
            }
            self.end_due(queue, vring, &policy)?;
            let next = [
                self.schedule.next_due(&policy),
                self.signaller.deadline(&policy),
            ];
            match next.into_iter().flatten().min() {
                Some(time) => {
                    // At a pace, those that come now have their turn behind the one that is
                    // waited for.
                    is_open &= policy.pace_us == 0 || self.schedule.is_empty();
                    self.wait_until(time, policy.wait, is_open, queue, vring)?;
                }
                None if is_open && self.listen(vring)? => {}
                None => return Ok(()),
            }
        }
    }

    /// Takes all requests out of the available ring.
    fn fetch(&mut self, queue: &Queue, vring: &VringMutex) -> Result<(), Error> {
        let memory = self.memory.memory();
        let memory = &*memory;
        let mut state = vring.get_mut();
        if !is_live(&state) {
            return Ok(());
        }
        let ring = state.get_queue_mut();
        ring.disable_notification(memory)?;
        let before = self.schedule.len();
        let limits = self.device.limits();
        let size = self.device.storage().size();
        for chain in ring.iter(memory)? {
            let head = chain.head_index();
            let request = Request::parse(memory, chain);
            let request = request.and_then(|request| limits.check(request, size));
            let now = self.device.clock().now();
            self.schedule.push(now, Pending { head, request });
        }
        if self.schedule.len() > before {
            queue.counters.fetches.increment();
            let backlog = self.schedule.len() as u64;
            queue.counters.largest_backlog.raise(backlog);
        }
        Ok(())
    }

    /// Ends all requests that are due, and signals.
    fn end_due(&mut self, queue: &Queue, vring: &VringMutex, policy: &Policy) -> Result<(), Error> {
        let memory = self.memory.memory();
        let clock = self.device.clock();
        while let Some(pending) = self.schedule.pop_due(clock.now(), policy) {
            let length = execute(&self.device, &queue.counters, &memory, &pending.request);
            let mut state = vring.get_mut();
            ring::publish(&memory, state.get_queue_mut(), pending.head, length)?;
            if self.signaller.published(policy) {
                self.signal(queue, &memory, &state)?;
            }
        }
        if self.signaller.is_due(clock.now(), policy) {
            self.signal(queue, &memory, &vring.get_mut())?;
        }
        Ok(())
    }

    /// Signals, if the guest wants it.
    fn signal(
        &mut self,
        queue: &Queue,
        memory: &GuestMemoryMmap,
        state: &VringState,
    ) -> Result<(), Error> {
        let ring = state.get_queue();
        let wanted = ring::wants_signal(memory, ring, self.signaller.since())?;
        self.signaller.asked(ring.next_used());
        if !wanted {
            queue.counters.suppressed.increment();
        } else if state.get_call().is_some() {
            match state.signal_used_queue() {
                Ok(()) => {
                    queue.counters.signals.increment();
                    self.signaller.sent(self.device.clock().now());
                }
                Err(error) => eprintln!("queue {}: cannot signal: {error}", self.index),
            }
        }
        Ok(())
    }

    /// Waits until `time`, until the bell is rung or, if the queue `is_open`, until there is more.
    fn wait_until(
        &self,
        time: u64,
        wait: Wait,
        is_open: bool,
        queue: &Queue,
        vring: &VringMutex,
    ) -> Result<(), Error> {
        let clock = self.device.clock();
        if wait == Wait::Spin {
            while clock.now() < time && !queue.bell.is_rung() {
                if is_open && self.has_more(vring)? {
                    break;
                }
                hint::spin_loop();
            }
            return Ok(());
        }
        if is_open && self.listen(vring)? {
            return Ok(());
        }
        let kick = if is_open {
            kick(&vring.get_mut())
        } else {
            None
        };
        let left = time.saturating_sub(clock.now());
        if left == 0 {
            return Ok(());
        }
        match sleep(left, &queue.bell, kick.as_ref().map(AsFd::as_fd)) {
            Ok(true) => {
                queue.counters.kicks.increment();
                if let Err(error) = vring.read_kick() {
                    eprintln!("queue {}: cannot read a kick: {error}", self.index);
                }
            }
            Ok(false) => {}
            Err(error) => eprintln!("queue {}: cannot sleep: {error}", self.index),
        }
        Ok(())
    }

    /// Asks the guest for kicks. Returns whether there is more already.
    fn listen(&self, vring: &VringMutex) -> Result<bool, Error> {
        let memory = self.memory.memory();
        let mut state = vring.get_mut();
        if !is_live(&state) {
            return Ok(false);
        }
        state.get_queue_mut().enable_notification(&*memory)
    }

    /// Whether there is more in the available ring.
    fn has_more(&self, vring: &VringMutex) -> Result<bool, Error> {
        let memory = self.memory.memory();
        let state = vring.get_mut();
        let ring = state.get_queue();
        let index = ring.avail_idx(&*memory, Ordering::Acquire)?;
        Ok(is_live(&state) && index.0 != ring.next_avail())
    }
}

/// Whether the queue may be used.
fn is_live(state: &VringState) -> bool {
    state.get_queue().ready() && state.is_enabled()
}

/// The event of the queue's kicks.
fn kick(state: &VringState) -> Option<OwnedFd> {
    let copy = state.get_kick().as_ref()?.try_clone().ok()?;
    // SAFETY: The descriptor was just duplicated and is given up by its only owner.
    Some(unsafe { OwnedFd::from_raw_fd(copy.into_raw_fd()) })
}
