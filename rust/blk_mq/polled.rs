// SPDX-License-Identifier: GPL-2.0

//! Completions that are collected later: soon, until there are none, or after a while.
//!
//! An interrupt handler that has used up its budget hands the rest over: the kernel's `irq_poll`
//! runs it from a softirq, fairly with other devices, and leaves it to `ksoftirqd` when there is
//! too much. A handler that asked the device to signal late, or not at all, has a timer look.
//!
//! C headers: [`include/linux/irq_poll.h`](srctree/include/linux/irq_poll.h),
//! [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use bindings_ext as ext;
use core::ops::Deref;
use kernel::{bindings, container_of, ffi::c_int, prelude::*, types::Opaque};

/// How many completions one poll may process.
const WEIGHT: u32 = 64;

/// The timer runs out on the CPU on which it was started, where the queue's interrupts go, and in
/// hard interrupt context, as the interrupt that it stands for: in a softirq, bios that end could
/// not go back to their CPU's cache, which costs a fifth of a driver's instructions.
const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_REL_PINNED_HARD;

/// What follows on a look for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the device will signal.
    Nothing,
    /// A poll, soon: there may be more, and interrupts are off.
    Poll,
    /// A look after so many microseconds, if the device does not signal before.
    After(u32),
}

/// What is polled.
pub trait PollHandler: Send + Sync {
    /// Processes up to `budget` completions. Softirq context.
    fn poll(&self, budget: u32) -> Next;

    /// Looks for completions because the time of [`Next::After`] is over. Hard interrupt context.
    fn expired(&self) -> Next;

    /// Whether a poll is owed: somebody has used up a budget since, and interrupts are off. Any
    /// context.
    fn is_owed(&self) -> bool;
}

/// A value with its poller and its timer. Dropping it waits for those that run.
#[pin_data(PinnedDrop)]
pub struct Polled<Q: PollHandler> {
    #[pin]
    iop: Opaque<ext::irq_poll>,
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    #[pin]
    inner: Q,
}

// SAFETY: The C side of poller and timer may be used from any CPU; the value is `Send`.
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
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is valid for writes; the timer is cancelled before it goes.
                unsafe {
                    bindings::hrtimer_setup(
                        timer,
                        Some(Self::expired),
                        bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                        MODE,
                    );
                };
            }),
            inner <- inner,
        }? Error)
    }

    /// Does what follows on a look for completions. A timer that runs is set anew by
    /// [`Next::After`], and left to run out by the others. Any context.
    /// C functions: `irq_poll_sched()`, `hrtimer_start()`.
    #[inline]
    pub fn follow(&self, next: Next) {
        match next {
            Next::Nothing => {}
            // SAFETY: The poller is initialised and pinned.
            Next::Poll => unsafe { ext::irq_poll_sched(self.iop.get()) },
            Next::After(usecs) => {
                let nsecs = i64::from(usecs).saturating_mul(1000);
                // SAFETY: The timer is initialised and pinned. It may be started while it runs.
                unsafe { bindings::hrtimer_start_range_ns(self.timer.get(), nsecs, 0, MODE) };
            }
        }
    }

    /// Cancels the timer, and waits for it if it runs. Process context.
    /// C function: `hrtimer_cancel()`.
    pub fn cancel_timer(&self) {
        // SAFETY: The timer is initialised.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }

    /// # Safety
    ///
    /// For `irq_poll`: `iop` is the poller of a `Polled<Q>`, and scheduled.
    unsafe extern "C" fn poll(iop: *mut ext::irq_poll, weight: c_int) -> c_int {
        // SAFETY: The poller is the one in a `Polled<Q>`, which is not dropped before it is
        // disabled.
        let this = unsafe { &*container_of!(Opaque::cast_from(iop), Self, iop) };
        let next = this.inner.poll(weight as u32);
        if next == Next::Poll {
            return weight;
        }
        // SAFETY: The poller is scheduled, as it runs.
        unsafe { ext::irq_poll_complete(iop) };
        this.follow(next);
        // Whoever used up a budget between the two calls found the poller scheduled still, so the
        // wish was not heard.
        if this.inner.is_owed() {
            this.follow(Next::Poll);
        }
        weight - 1
    }

    /// # Safety
    ///
    /// For the timers: `timer` is the one of a `Polled<Q>`.
    unsafe extern "C" fn expired(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: The timer is the one in a `Polled<Q>`, which is not dropped before it is
        // cancelled.
        let this = unsafe { &*container_of!(Opaque::cast_from(timer), Self, timer) };
        this.follow(this.inner.expired());
        // An interrupt on another CPU may have started the timer meanwhile, so it is not forwarded
        // from here but started as by everybody.
        bindings::hrtimer_restart::HRTIMER_NORESTART
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
        // The poller goes first: once it is disabled, a timer that runs schedules it in vain.
        // SAFETY: The poller is initialised.
        unsafe { ext::irq_poll_disable(self.iop.get()) };
        self.cancel_timer();
    }
}
