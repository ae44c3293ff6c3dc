// SPDX-License-Identifier: GPL-2.0

//! The clock of statistics.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

/// Nanoseconds since the machine was started, without those that it slept (`CLOCK_MONOTONIC`). Any
/// context. C function: `ktime_get_mono_fast_ns()`.
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: The function has no requirements.
    unsafe { kernel::bindings::ktime_get_mono_fast_ns() }
}
