// SPDX-License-Identifier: GPL-2.0

//! The driver's half of a split virtqueue.
//!
//! Store for store and barrier for barrier the code of drivers/virtio/virtio_ring.c, whose function
//! is named at each method. Left out: descriptor chains, mapping, and the decision whether to kick.

use super::{Vring, NO_INTERRUPT};
use crate::driver::completion::Ring;
use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{self, Hint, Layout, Request, Wish};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// What `vring_interrupt()` touches without the queue's lock.
struct Unlocked<M: Memory> {
    last_used_idx: M::Word,
    event_triggered: M::Word,
}

/// The driver's half.
pub(super) struct Half<M: Memory> {
    vring: Rc<Vring<M>>,
    unlocked: Rc<Unlocked<M>>,
    avail_idx: u16,
    no_interrupt: bool,
    /// used_event was written without telling the ring.
    ahead: bool,
    in_flight: Vec<Option<Request>>,
    fault: Option<Fault>,
}

impl<M: Memory> Half<M> {
    pub(super) fn new(vring: Rc<Vring<M>>, fault: Option<Fault>) -> Self {
        let layout = vring.layout();
        Self {
            unlocked: Rc::new(Unlocked {
                last_used_idx: M::Word::new(layout.start),
                event_triggered: M::Word::new(0),
            }),
            avail_idx: layout.start,
            no_interrupt: false,
            ahead: false,
            in_flight: vec![None; usize::from(layout.size)],
            vring,
            fault,
        }
    }

    fn last_used(&self) -> u16 {
        self.unlocked.last_used_idx.load()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// C function: `virtqueue_disable_cb_split()`.
    fn disable(&mut self) {
        self.ahead = false;
        if self.no_interrupt {
            return;
        }
        self.no_interrupt = true;
        if self.unlocked.event_triggered.load() != 0 {
            return;
        }
        if self.vring.layout().event_idx {
            self.vring.used_event.store(0);
        } else {
            self.vring.avail_flags.store(NO_INTERRUPT);
        }
    }

    fn clear_no_interrupt(&mut self) {
        if self.unlocked.event_triggered.load() != 0 {
            self.unlocked.event_triggered.store(0);
        }
        self.ahead = false;
        if self.no_interrupt {
            self.no_interrupt = false;
            if !self.vring.layout().event_idx {
                self.vring.avail_flags.store(0);
            }
        }
    }
}

impl<M: Memory> virtqueue::Driver for Half<M> {
    /// C function: `virtqueue_add_split()`.
    fn add(&mut self, request: Request) -> bool {
        let Some(free) = self.in_flight.iter().position(Option::is_none) else {
            return false;
        };
        self.in_flight[free] = Some(request);
        let head = free as u16;
        self.vring.desc(head).write(request);
        self.vring.avail(self.avail_idx).write(head);
        M::fence(Release);
        self.avail_idx = self.avail_idx.wrapping_add(1);
        self.vring.avail_idx.store(self.avail_idx);
        true
    }

    fn outstanding(&self) -> u16 {
        self.avail_idx.wrapping_sub(self.last_used())
    }

    fn wish(&self) -> Wish {
        let event = || {
            let event = self.vring.used_event.load();
            event.wrapping_sub(self.last_used())
        };
        if self.ahead {
            Wish::Ahead(event())
        } else if self.no_interrupt {
            Wish::None
        } else if self.vring.layout().event_idx {
            Wish::At(event())
        } else {
            Wish::Every
        }
    }

    fn can_count(&self) -> bool {
        self.vring.layout().event_idx
    }

    fn interrupt(&self) -> Box<dyn virtqueue::Interrupt> {
        Box::new(Interrupt {
            vring: self.vring.clone(),
            unlocked: self.unlocked.clone(),
        })
    }
}

impl<M: Memory> Ring for Half<M> {
    type Buf = Request;

    /// As in drivers/block/ring.rs: the hint, behind `virtqueue_disable_cb()`.
    fn disable_cb(&mut self) {
        self.disable();
        let Layout {
            event_idx, hint, ..
        } = self.vring.layout();
        match hint {
            Hint::Avail if event_idx => self.vring.used_event.store(self.avail_idx),
            Hint::Behind if event_idx => {
                let last = self.last_used().wrapping_sub(1);
                self.vring.used_event.store(last);
            }
            _ => {}
        }
    }

    /// C functions: `virtqueue_enable_cb_prepare_split()`, `virtqueue_poll()`.
    fn enable_cb(&mut self) -> bool {
        let last_used = self.last_used();
        let early = self
            .has(Fault::LookBeforeEnable)
            .then(|| self.vring.used_idx.load());
        self.clear_no_interrupt();
        self.vring.used_event.store(last_used);
        if !self.has(Fault::EnableWithoutFence) {
            M::fence(SeqCst);
        }
        last_used == early.unwrap_or_else(|| self.vring.used_idx.load())
    }

    /// C function: `virtqueue_enable_cb_delayed_split()`.
    fn enable_cb_delayed(&mut self) -> bool {
        let last_used = self.last_used();
        self.clear_no_interrupt();
        let bufs = if self.has(Fault::DelayedTooFar) {
            virtqueue::Driver::outstanding(self)
        } else {
            (u32::from(virtqueue::Driver::outstanding(self)) * 3 / 4) as u16
        };
        self.vring.used_event.store(last_used.wrapping_add(bufs));
        if !self.has(Fault::DelayedWithoutFence) {
            M::fence(SeqCst);
        }
        self.vring.used_idx.load().wrapping_sub(last_used) <= bufs
    }

    /// Not in virtio_ring.c: rust/virtio/used_event.rs, behind `virtqueue_disable_cb()`.
    fn enable_cb_ahead(&mut self, count: u16) -> bool {
        self.disable();
        if !self.vring.layout().event_idx {
            return true;
        }
        let last_used = self.last_used();
        let ahead = if self.has(Fault::AheadTooFar) {
            count.max(1)
        } else {
            count.max(1).wrapping_sub(1)
        };
        self.vring.used_event.store(last_used.wrapping_add(ahead));
        self.ahead = true;
        if !self.has(Fault::AheadWithoutFence) {
            M::fence(SeqCst);
        }
        let there = self.vring.used_idx.load().wrapping_sub(last_used);
        there <= ahead || self.has(Fault::AheadLooksOneTooFar) && there == ahead.wrapping_add(1)
    }

    /// C function: `virtqueue_get_buf_ctx_split()`.
    fn get_buf(&mut self) -> Option<Request> {
        let last_used = self.last_used();
        if last_used == self.vring.used_idx.load() {
            return None;
        }
        if !self.has(Fault::GetBufWithoutReadBarrier) {
            M::fence(Acquire);
        }
        let head = self.vring.used(last_used).read();
        let request = self
            .in_flight
            .get_mut(usize::from(head))
            .and_then(Option::take);
        let request = request.expect("double completion: the buffer was not in flight");
        let next = last_used.wrapping_add(1);
        self.unlocked.last_used_idx.store(next);
        if !self.no_interrupt && !self.has(Fault::GetBufDoesNotRearm) {
            self.vring.used_event.store(next);
            if !self.has(Fault::RearmWithoutFence) {
                M::fence(SeqCst);
            }
        }
        Some(request)
    }
}

/// What an interrupt sees of the queue.
struct Interrupt<M: Memory> {
    vring: Rc<Vring<M>>,
    unlocked: Rc<Unlocked<M>>,
}

impl<M: Memory> virtqueue::Interrupt for Interrupt<M> {
    fn arrives(&self) -> bool {
        if self.unlocked.last_used_idx.load() == self.vring.used_idx.load() {
            return false;
        }
        if self.vring.layout().event_idx {
            self.unlocked.event_triggered.store(1);
        }
        true
    }
}
