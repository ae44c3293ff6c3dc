// SPDX-License-Identifier: GPL-2.0

//! An edge-triggered line that wakes a thread of a loom model: an interrupt, a kick, a work item, a
//! timer.
//!
//! What is raised while the thread runs stays pending, once; raising it orders nothing of what the
//! running thread does, just as an interrupt that waits for the handler's end does not.

use loom::sync::atomic::AtomicU8;
use loom::thread::{park, Thread};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::OnceLock;

/// An interrupt of the device, or a kick of the driver.
pub const SIGNAL: u8 = 1;
/// A pass used up its budget: another one is owed.
pub const OWED: u8 = 2;
/// A timer is armed. It runs out when the thread takes this.
pub const ARMED: u8 = 4;
/// The device has completed everything.
pub const DONE: u8 = 8;
/// Nothing is left to do anywhere.
pub const STOP: u8 = 16;
const PARKED: u8 = 128;

/// What is left to do in a model: what is pending on lines, what threads are at, and what is to
/// come of those that act by themselves. It is not part of what is explored.
#[derive(Debug, Default)]
pub struct Work {
    left: Cell<u32>,
}

impl Work {
    /// So much more is to be done.
    pub fn begin(&self, count: u32) {
        self.left.set(self.left.get() + count);
    }

    /// So much is done. `true` if that was all.
    pub fn end(&self, count: u32) -> bool {
        self.left.set(self.left.get() - count);
        count > 0 && self.left.get() == 0
    }
}

/// The line of one thread.
pub struct Line {
    pending: AtomicU8,
    owner: OnceLock<Thread>,
    work: Rc<Work>,
}

impl Line {
    /// A quiet line without an owner. What is raised on it is work.
    pub fn new(work: Rc<Work>) -> Self {
        Self {
            pending: AtomicU8::new(0),
            owner: OnceLock::new(),
            work,
        }
    }

    /// Names the thread to wake. To be called before anything is raised.
    pub fn belongs_to(&self, thread: &Thread) {
        assert!(
            self.owner.set(thread.clone()).is_ok(),
            "a line has one owner"
        );
    }

    /// Raises `bits`.
    pub fn raise(&self, bits: u8) {
        let before = self.pending.fetch_or(bits, AcqRel);
        self.work.begin((bits & !before).count_ones());
        if before & PARKED != 0 {
            self.owner.get().expect("a parked owner").unpark();
        }
    }

    /// Takes what is pending. For each of it, the thread owes [`Work::end`].
    pub fn take(&self) -> u8 {
        self.pending.swap(0, AcqRel) & !PARKED
    }

    /// Waits until something is pending and takes it.
    pub fn wait(&self) -> u8 {
        loop {
            let bits = self.take();
            if bits != 0 {
                return bits;
            }
            if self
                .pending
                .compare_exchange(0, PARKED, AcqRel, AcqRel)
                .is_ok()
            {
                park();
            }
        }
    }
}
