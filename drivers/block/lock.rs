// SPDX-License-Identifier: GPL-2.0

//! The lock of a queue, and the one lock of a device that can be put around it, for comparison.
//!
//! A queue's ring has a lock of its own, always. With the scope [`Scope::Device`] a lock that all
//! queues of the device share is taken before it: then queues wait for each other as if there were
//! no other lock. The scope may change at any time; who holds a ring's lock is alone in either.

use crate::{ring::Ring, values::Scope};
use core::ops::{Deref, DerefMut};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        lock::spinlock::SpinLockIrqGuard,
        new_spinlock_irq, Arc, SpinLockIrq,
    },
};

/// The lock that the queues of a device share.
#[pin_data]
pub(crate) struct DeviceLock {
    #[pin]
    inner: SpinLockIrq<()>,
    scope: Atomic<u32>,
}

impl DeviceLock {
    pub(crate) fn new(scope: Scope) -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- new_spinlock_irq!((), "virtio_blk_rs::device"),
            scope: Atomic::new(scope as u32),
        })
    }

    /// Sets what the locks of the device's queues are for, from the next time on that they are
    /// taken.
    pub(crate) fn set_scope(&self, scope: Scope) {
        self.scope.store(scope as u32, Relaxed);
    }
}

/// A ring in its lock.
#[pin_data]
pub(crate) struct Locked {
    #[pin]
    ring: SpinLockIrq<Ring>,
    device: Arc<DeviceLock>,
}

/// The proof that a ring's lock is held. What is first goes first.
pub(crate) struct Guard<'a> {
    ring: SpinLockIrqGuard<'a, Ring>,
    _device: Option<SpinLockIrqGuard<'a, ()>>,
}

impl Locked {
    pub(crate) fn new(ring: Ring, device: Arc<DeviceLock>) -> impl PinInit<Self> {
        pin_init!(Self {
            ring <- new_spinlock_irq!(ring, "virtio_blk_rs::queue"),
            device,
        })
    }

    /// Takes the lock, and counts that. Any context.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        let (device, waited) = if self.device.scope.load(Relaxed) == Scope::Device as u32 {
            let (device, waited) = take(&self.device.inner);
            (Some(device), waited)
        } else {
            (None, false)
        };
        let (mut ring, contended) = take(&self.ring);
        ring.stats.lock_acquisitions.add(1u32);
        ring.stats.lock_contended.add(contended || waited);
        Guard {
            ring,
            _device: device,
        }
    }
}

/// Takes a lock, and tells whether somebody else had it.
#[inline]
fn take<T>(lock: &SpinLockIrq<T>) -> (SpinLockIrqGuard<'_, T>, bool) {
    match lock.try_lock() {
        Some(guard) => (guard, false),
        None => (lock.lock(), true),
    }
}

impl Deref for Guard<'_> {
    type Target = Ring;

    #[inline]
    fn deref(&self) -> &Ring {
        &self.ring
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }
}
