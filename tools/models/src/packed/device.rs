// SPDX-License-Identifier: GPL-2.0

//! The device's half of a packed virtqueue, by the rules of the virtio specification, 2.8.7 and
//! 2.8.10: it signals if the driver's wish, read after a descriptor was marked used, asks for it.

use super::position::Position;
use super::{Vring, AVAIL, DESC, DISABLE, USED};
use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{self, need_event, Taken};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// The device's half.
pub(super) struct Half<M: Memory> {
    vring: Rc<Vring<M>>,
    next_avail: Position,
    next_used: Position,
    /// Completions since the last decision about a signal.
    undecided: u16,
    fault: Option<Fault>,
}

impl<M: Memory> Half<M> {
    pub(super) fn new(vring: Rc<Vring<M>>, fault: Option<Fault>) -> Self {
        Self {
            vring,
            next_avail: Position::START,
            next_used: Position::START,
            undecided: 0,
            fault,
        }
    }

    fn put(&mut self, taken: Taken) {
        let at = self.next_used;
        let desc = &self.vring.desc[usize::from(at.offset)];
        desc.id.write(taken.id);
        if self.fault != Some(Fault::DeviceWithoutWriteBarrier) {
            M::fence(Release);
        }
        desc.flags.store(if at.wrap { AVAIL | USED } else { 0 });
        self.next_used = at.plus(1, self.vring.layout.size);
        self.undecided += 1;
    }

    /// Whether one of the last `count` completions is the one that `off_wrap` names. The other wrap
    /// counter stands for the round before this one. It may also stand for the round to come; but
    /// what lies there is taken to lie further back than anything that is being decided about.
    fn passed(&self, off_wrap: u16, count: u16) -> bool {
        let event = Position::from_raw(off_wrap);
        let around = if event.wrap == self.next_used.wrap {
            0
        } else {
            self.vring.layout.size
        };
        let new = self.next_used.offset;
        need_event(
            event.offset.wrapping_sub(around),
            new,
            new.wrapping_sub(count),
        )
    }
}

impl<M: Memory> virtqueue::Device for Half<M> {
    fn take(&mut self) -> Option<Taken> {
        let at = self.next_avail;
        let desc = &self.vring.desc[usize::from(at.offset)];
        let flags = desc.flags.load();
        let (avail, used) = (flags & AVAIL != 0, flags & USED != 0);
        if avail != at.wrap || used == at.wrap {
            return None;
        }
        M::fence(Acquire);
        self.next_avail = at.plus(1, self.vring.layout.size);
        Some(Taken {
            id: desc.id.read(),
            request: desc.request.read(),
        })
    }

    fn complete(&mut self, taken: Taken) {
        self.put(taken);
        if self.fault == Some(Fault::DeviceRepeats) {
            self.put(taken);
        }
    }

    fn must_signal(&mut self) -> bool {
        let count = std::mem::take(&mut self.undecided);
        if count == 0 {
            return false;
        }
        if self.fault != Some(Fault::DeviceWithoutFence) {
            M::fence(SeqCst);
        }
        match self.vring.event_flags.load() {
            DISABLE => false,
            DESC => {
                M::fence(Acquire);
                self.passed(self.vring.off_wrap.load(), count)
            }
            _ => true,
        }
    }
}
