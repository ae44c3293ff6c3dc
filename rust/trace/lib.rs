// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of the driver: `virtio_blk_rs:*` for perf, ftrace and bpftrace.
//!
//! A tracepoint that nobody watches is a no-op that is patched when somebody does (a static key).
//! All may be called in any context. C header: `events.h` beside this file,
//! [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

use bindings_ext as ext;
use kernel::{bindings, jump_label::static_branch_unlikely};

/// A queue, as tracepoints name it.
#[derive(Clone, Copy, Debug)]
pub struct QueueId {
    /// The number of its device on the virtio bus.
    pub device: u32,
    /// Its own number.
    pub queue: u32,
}

/// Declares a safe function for each tracepoint, whose arguments are numbers.
macro_rules! tracepoints {
    ($(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $type:ty),*), $key:ident, $emit:ident;
    )*) => {$(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(id: QueueId, $($arg: $type),*) {
            // SAFETY: The key is that of a tracepoint, defined by C.
            if unsafe { static_branch_unlikely!(ext::$key, bindings::tracepoint, key) } {
                // SAFETY: The tracepoint only copies its arguments.
                unsafe { ext::$emit(id.device, id.queue, $($arg),*) };
            }
        }
    )*};
}

/// Whether somebody watches [`kick`], so that it is worth the time that it tells.
#[inline(always)]
pub fn is_kick_watched() -> bool {
    // SAFETY: The key is that of a tracepoint, defined by C.
    unsafe { static_branch_unlikely!(ext::__tracepoint_kick, bindings::tracepoint, key) }
}

tracepoints! {
    /// An interrupt of the queue reached the driver, with so many requests in flight.
    queue_interrupt(in_flight: u32), __tracepoint_queue_interrupt, rust_do_trace_queue_interrupt;

    /// A pass drained the used ring so often, collected so many requests, and left so many.
    drain(drains: u32, completions: u32, left: u32), __tracepoint_drain, rust_do_trace_drain;

    /// A pass asked the device for a signal, or set the timer: 0 requests stand for the next one, 0
    /// microseconds for no timer.
    rearm(reqs: u32, usecs: u32), __tracepoint_rearm, rust_do_trace_rearm;

    /// Coalescing chose another wait.
    coalesce_change(depth: u32, reqs: u32, usecs: u32),
        __tracepoint_coalesce_change, rust_do_trace_coalesce_change;

    /// The device was notified, which took so many nanoseconds.
    kick(ns: u64), __tracepoint_kick, rust_do_trace_kick;
}
