// SPDX-License-Identifier: GPL-2.0

//! The memory that a model lives in: explored by loom, or plain.
//!
//! Either way all threads are the host's one: loom switches between them by itself. So what they
//! share is kept by [`std::rc::Rc`], and is not part of what is explored.

use std::cell::Cell;
use std::sync::atomic::Ordering;

/// A kind of memory that driver and device can share.
pub trait Memory: 'static {
    /// A word that one side stores while the other loads, as READ_ONCE() and WRITE_ONCE() do.
    type Word: Word;
    /// A ring entry: never touched by both sides at once, if the barriers around it are right.
    type Slot: Slot;

    /// A memory barrier.
    fn fence(order: Ordering);
}

/// A 16-bit word with relaxed accesses: all order comes from [`Memory::fence`], as in the kernel.
pub trait Word: 'static {
    /// A word with a first value.
    fn new(value: u16) -> Self;
    /// Loads what some store left there, not necessarily the newest one.
    fn load(&self) -> u16;
    /// Stores `value`.
    fn store(&self, value: u16);
}

/// An entry of a ring.
pub trait Slot: 'static {
    /// An entry nobody has written yet.
    fn new() -> Self;
    /// Reads the entry; under loom it is an error if a write is not ordered before.
    fn read(&self) -> u16;
    /// Writes the entry; under loom it is an error if another access is not ordered before.
    fn write(&self, value: u16);
}

/// Memory under loom: exists only inside of a loom model.
pub struct Explored;

impl Memory for Explored {
    type Word = loom::sync::atomic::AtomicU16;
    type Slot = loom::cell::Cell<u16>;

    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}

impl Word for loom::sync::atomic::AtomicU16 {
    fn new(value: u16) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u16 {
        self.load(Ordering::Relaxed)
    }

    fn store(&self, value: u16) {
        self.store(value, Ordering::Relaxed);
    }
}

impl Slot for loom::cell::Cell<u16> {
    fn new() -> Self {
        Self::new(u16::MAX)
    }

    fn read(&self) -> u16 {
        self.get()
    }

    fn write(&self, value: u16) {
        self.set(value);
    }
}

/// Memory of a single thread: what was stored last is what is loaded.
pub struct Plain;

impl Memory for Plain {
    type Word = Cell<u16>;
    type Slot = Cell<u16>;

    fn fence(_order: Ordering) {}
}

impl Word for Cell<u16> {
    fn new(value: u16) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u16 {
        self.get()
    }

    fn store(&self, value: u16) {
        self.set(value);
    }
}

impl Slot for Cell<u16> {
    fn new() -> Self {
        Self::new(u16::MAX)
    }

    fn read(&self) -> u16 {
        self.get()
    }

    fn write(&self, value: u16) {
        self.set(value);
    }
}
