// SPDX-License-Identifier: GPL-2.0

//! The device's half of a split virtqueue, by the rules of the virtio specification, 2.7.7 and
//! 2.7.10: it signals if the driver's wish, read after used.idx was moved, asks for it.

use super::{Vring, NO_INTERRUPT};
use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{self, need_event, Taken};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// The device's half.
pub(super) struct Half<M: Memory> {
    vring: Rc<Vring<M>>,
    last_avail: u16,
    used: u16,
    /// used.idx at the last decision about a signal.
    decided: u16,
    fault: Option<Fault>,
}

impl<M: Memory> Half<M> {
    pub(super) fn new(vring: Rc<Vring<M>>, fault: Option<Fault>) -> Self {
        let start = vring.layout().start;
        Self {
            vring,
            last_avail: start,
            used: start,
            decided: start,
            fault,
        }
    }

    fn put(&mut self, taken: Taken) {
        self.vring.used(self.used).write(taken.id);
        if self.fault != Some(Fault::DeviceWithoutWriteBarrier) {
            M::fence(Release);
        }
        self.used = self.used.wrapping_add(1);
        self.vring.used_idx.store(self.used);
    }
}

impl<M: Memory> virtqueue::Device for Half<M> {
    fn take(&mut self) -> Option<Taken> {
        if self.vring.avail_idx.load() == self.last_avail {
            return None;
        }
        M::fence(Acquire);
        let head = self.vring.avail(self.last_avail).read();
        self.last_avail = self.last_avail.wrapping_add(1);
        let request = self.vring.desc(head).read();
        Some(Taken { id: head, request })
    }

    fn complete(&mut self, taken: Taken) {
        self.put(taken);
        if self.fault == Some(Fault::DeviceRepeats) {
            self.put(taken);
        }
    }

    fn must_signal(&mut self) -> bool {
        let (new, old) = (self.used, self.decided);
        self.decided = new;
        if new == old {
            return false;
        }
        if self.fault != Some(Fault::DeviceWithoutFence) {
            M::fence(SeqCst);
        }
        if self.vring.layout().event_idx {
            need_event(self.vring.used_event.load(), new, old)
        } else {
            self.vring.avail_flags.load() & NO_INTERRUPT == 0
        }
    }
}
