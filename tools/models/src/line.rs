// SPDX-License-Identifier: GPL-2.0

//! An edge-triggered line that wakes a thread of a loom model: an interrupt, a kick, a work item.
//!
//! What is raised while the thread runs stays pending, once; raising it orders nothing of what the
//! running thread does, just as an interrupt that waits for the handler's end does not.

use loom::sync::atomic::AtomicU8;
use loom::thread::{park, Thread};
use std::sync::atomic::Ordering::AcqRel;
use std::sync::OnceLock;

/// An interrupt of the device, or a kick of the driver.
pub const SIGNAL: u8 = 1;
/// A pass used up its budget: another one is owed.
pub const OWED: u8 = 2;
/// Nothing will be raised any more.
pub const DONE: u8 = 4;
const PARKED: u8 = 128;

/// The line of one thread.
pub struct Line {
    pending: AtomicU8,
    owner: OnceLock<Thread>,
}

impl Line {
    /// A quiet line without an owner.
    #[allow(
        clippy::new_without_default,
        reason = "has to happen inside of a loom model"
    )]
    pub fn new() -> Self {
        Self {
            pending: AtomicU8::new(0),
            owner: OnceLock::new(),
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
        if self.pending.fetch_or(bits, AcqRel) & PARKED != 0 {
            self.owner.get().expect("a parked owner").unpark();
        }
    }

    /// Takes what is pending.
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
