// SPDX-License-Identifier: GPL-2.0

//! Completions that go on in softirq context, bounded, until there are none.
//!
//! An interrupt handler that has used up its budget hands the rest over: the kernel's `irq_poll`
//! runs it from a softirq, fairly with other devices, and leaves it to `ksoftirqd` when there is
//! too much.
//!
//! C header: [`include/linux/irq_poll.h`](srctree/include/linux/irq_poll.h)

use bindings_ext as ext;
use core::ops::Deref;
use kernel::{container_of, ffi::c_int, prelude::*, types::Opaque};

/// How many completions one poll may process.
const WEIGHT: u32 = 64;

/// What is polled.
pub trait PollHandler: Send + Sync {
    /// Processes up to `budget` completions; `true` if there may be more. Softirq context.
    fn poll(&self, budget: u32) -> bool;

    /// Whether a poll is owed: somebody has used up a budget since, and interrupts are off. Any
    /// context.
    fn is_owed(&self) -> bool;
}

/// A value with its poller. Dropping it waits for a poll that runs.
#[pin_data(PinnedDrop)]
pub struct Polled<Q: PollHandler> {
    #[pin]
    iop: Opaque<ext::irq_poll>,
    #[pin]
    inner: Q,
}

// SAFETY: The C side of the poller may be used from any CPU; the value is `Send`.
unsafe impl<Q: PollHandler> Send for Polled<Q> {}

// SAFETY: As above; the value is `Sync`.
unsafe impl<Q: PollHandler> Sync for Polled<Q> {}

impl<Q: PollHandler> Polled<Q> {
    /// A value that can be polled.
    pub fn new(inner: impl PinInit<Q, Error>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            iop <- Opaque::ffi_init(|iop| {
                // SAFETY: `iop` is valid for writes; the poller is disabled before it goes.
                unsafe { ext::irq_poll_init(iop, WEIGHT as c_int, Some(Self::poll)) };
            }),
            inner <- inner,
        }? Error)
    }

    /// Has the value polled soon, on this CPU. Any context. C function: `irq_poll_sched()`.
    pub fn schedule(&self) {
        // SAFETY: The poller is initialised and pinned.
        unsafe { ext::irq_poll_sched(self.iop.get()) };
    }

    /// # Safety
    ///
    /// For `irq_poll`: `iop` is the poller of a `Polled<Q>`, and scheduled.
    unsafe extern "C" fn poll(iop: *mut ext::irq_poll, weight: c_int) -> c_int {
        // SAFETY: The poller is the one in a `Polled<Q>`, which is not dropped before it is
        // disabled.
        let this = unsafe { &*container_of!(Opaque::cast_from(iop), Self, iop) };
        if this.inner.poll(weight as u32) {
            return weight;
        }
        // SAFETY: The poller is scheduled, as it runs.
        unsafe { ext::irq_poll_complete(iop) };
        // An interrupt that used up its budget between the two calls found the poller scheduled
        // still, so its wish was not heard.
        if this.inner.is_owed() {
            this.schedule();
        }
        weight - 1
    }
}

impl<Q: PollHandler> Deref for Polled<Q> {
    type Target = Q;

    #[inline]
    fn deref(&self) -> &Q {
        &self.inner
    }
}

#[pinned_drop]
impl<Q: PollHandler> PinnedDrop for Polled<Q> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The poller is initialised; nobody can schedule it any more.
        unsafe { ext::irq_poll_disable(self.iop.get()) };
    }
}
