// SPDX-License-Identifier: GPL-2.0

//! The driver's half of a packed virtqueue.
//!
//! Store for store and barrier for barrier the code of drivers/virtio/virtio_ring.c, whose function
//! is named at each method. Left out: descriptor chains, mapping, and the decision whether to kick.

use super::position::Position;
use super::{Vring, AVAIL, DESC, DISABLE, ENABLE, USED};
use crate::driver::completion::Ring;
use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{self, Request, Wish};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// What `vring_interrupt()` touches without the queue's lock.
struct Unlocked<M: Memory> {
    /// A [`Position`].
    last_used_idx: M::Word,
    event_triggered: M::Word,
}

/// The driver's half.
pub(super) struct Half<M: Memory> {
    vring: Rc<Vring<M>>,
    unlocked: Rc<Unlocked<M>>,
    next_avail: Position,
    event_flags: u16,
    in_flight: Vec<Option<Request>>,
    fault: Option<Fault>,
}

impl<M: Memory> Vring<M> {
    /// C function: `is_used_desc_packed()`.
    fn is_used(&self, at: Position) -> bool {
        let flags = self.desc[usize::from(at.offset)].flags.load();
        let (avail, used) = (flags & AVAIL != 0, flags & USED != 0);
        avail == used && used == at.wrap
    }
}

impl<M: Memory> Half<M> {
    pub(super) fn new(vring: Rc<Vring<M>>, fault: Option<Fault>) -> Self {
        Self {
            unlocked: Rc::new(Unlocked {
                last_used_idx: M::Word::new(Position::START.to_raw()),
                event_triggered: M::Word::new(0),
            }),
            next_avail: Position::START,
            event_flags: ENABLE,
            in_flight: vec![None; usize::from(vring.layout.size)],
            vring,
            fault,
        }
    }

    fn size(&self) -> u16 {
        self.vring.layout.size
    }

    fn last_used(&self) -> Position {
        Position::from_raw(self.unlocked.last_used_idx.load())
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Asks for a signal at `wish`, or with every buffer without EVENT_IDX.
    fn enable(&mut self, wish: Position) {
        if self.unlocked.event_triggered.load() != 0 {
            self.unlocked.event_triggered.store(0);
        }
        let event_idx = self.vring.layout.event_idx;
        if event_idx {
            self.vring.off_wrap.store(wish.to_raw());
            M::fence(Release);
        }
        if self.event_flags == DISABLE {
            self.event_flags = if event_idx { DESC } else { ENABLE };
            self.vring.event_flags.store(self.event_flags);
        }
    }
}

impl<M: Memory> virtqueue::Driver for Half<M> {
    /// C function: `virtqueue_add_packed()`.
    fn add(&mut self, request: Request) -> bool {
        let Some(free) = self.in_flight.iter().position(Option::is_none) else {
            return false;
        };
        self.in_flight[free] = Some(request);
        let at = self.next_avail;
        let desc = &self.vring.desc[usize::from(at.offset)];
        desc.request.write(request);
        desc.id.write(free as u16);
        M::fence(Release);
        desc.flags.store(if at.wrap { AVAIL } else { USED });
        self.next_avail = at.plus(1, self.size());
        true
    }

    fn outstanding(&self) -> u16 {
        self.in_flight.iter().flatten().count() as u16
    }

    fn wish(&self) -> Wish {
        match self.event_flags {
            DISABLE => Wish::None,
            DESC => {
                let at = Position::from_raw(self.vring.off_wrap.load());
                Wish::At(self.last_used().distance_to(at, self.size()))
            }
            _ => Wish::Every,
        }
    }

    fn can_count(&self) -> bool {
        false
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

    /// C function: `virtqueue_disable_cb_packed()`.
    fn disable_cb(&mut self) {
        if self.event_flags == DISABLE {
            return;
        }
        self.event_flags = DISABLE;
        if self.unlocked.event_triggered.load() == 0 {
            self.vring.event_flags.store(DISABLE);
        }
    }

    /// C functions: `virtqueue_enable_cb_prepare_packed()`, `virtqueue_poll()`.
    fn enable_cb(&mut self) -> bool {
        let last_used = self.last_used();
        let early = self
            .has(Fault::LookBeforeEnable)
            .then(|| self.vring.is_used(last_used));
        self.enable(last_used);
        if !self.has(Fault::EnableWithoutFence) {
            M::fence(SeqCst);
        }
        !early.unwrap_or_else(|| self.vring.is_used(last_used))
    }

    /// C function: `virtqueue_enable_cb_delayed_packed()`.
    fn enable_cb_delayed(&mut self) -> bool {
        let last_used = self.last_used();
        let in_use = virtqueue::Driver::outstanding(self);
        let bufs = if self.has(Fault::DelayedTooFar) {
            in_use
        } else {
            (u32::from(in_use) * 3 / 4) as u16
        };
        self.enable(last_used.plus(bufs, self.size()));
        if !self.has(Fault::DelayedWithoutFence) {
            M::fence(SeqCst);
        }
        !self.vring.is_used(last_used)
    }

    /// As in rust/virtio/virtqueue.rs: no signal is asked for.
    fn enable_cb_ahead(&mut self, _count: u16) -> bool {
        self.disable_cb();
        true
    }

    /// C functions: `virtqueue_get_buf_ctx_packed()`, `update_last_used_idx_packed()`.
    fn get_buf(&mut self) -> Option<Request> {
        let last_used = self.last_used();
        if !self.vring.is_used(last_used) {
            return None;
        }
        if !self.has(Fault::GetBufWithoutReadBarrier) {
            M::fence(Acquire);
        }
        let id = self.vring.desc[usize::from(last_used.offset)].id.read();
        let request = self
            .in_flight
            .get_mut(usize::from(id))
            .and_then(Option::take);
        let request = request.expect("double completion: the buffer was not in flight");
        let next = last_used.plus(1, self.size());
        self.unlocked.last_used_idx.store(next.to_raw());
        if self.event_flags == DESC && !self.has(Fault::GetBufDoesNotRearm) {
            self.vring.off_wrap.store(next.to_raw());
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
        let last_used = Position::from_raw(self.unlocked.last_used_idx.load());
        if !self.vring.is_used(last_used) {
            return false;
        }
        if self.vring.layout.event_idx {
            self.unlocked.event_triggered.store(1);
        }
        true
    }
}
