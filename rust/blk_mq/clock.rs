// SPDX-License-Identifier: GPL-2.0

//! The clock of statistics, and what it interrupts.
//!
//! C headers: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h),
//! [`include/linux/sched.h`](srctree/include/linux/sched.h)

/// Nanoseconds since the machine was started, without those that it slept (`CLOCK_MONOTONIC`). Any
/// context. C function: `ktime_get_mono_fast_ns()`.
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: The function has no requirements.
    unsafe { kernel::bindings::ktime_get_mono_fast_ns() }
}

/// Whether this CPU has no task to run, or, in an interrupt, had none when that came. Any context.
/// C function: `is_idle_task()`.
#[inline]
pub fn is_cpu_idle() -> bool {
    // SAFETY: The function has no requirements.
    unsafe { bindings_ext::ext_is_idle_task() }
}
