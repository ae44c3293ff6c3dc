// SPDX-License-Identifier: GPL-2.0

//! Abstractions for multi-queue block drivers.
//!
//! The `kernel` crate's `block::mq` has no data of its own for requests and hardware queues, no
//! limits, no lists and no batches; this crate is built beside it on the same C interface.
//!
//! # The states of a request
//!
//! A [`Request`] is a unique handle: whoever has it owns the request, and nobody else can reach it.
//!
//! ```text
//!  block layer --> Idle --start()--> Started --the device returns it--> Done --> ended
//!                   |                  |  ^
//!                   +-- refuse()       |  +-- on a virtqueue nobody has a handle
//!                                      +-- requeue(), refuse()
//! ```
//!
//! - [`Idle`]: handed over by the block layer, not started.
//! - [`Started`]: header written, data mapped, the block layer's timer runs: fit for the device.
//! - [`Done`]: the device has returned it, its [`Frame`] holds the trailer that the device wrote.
//!
//! Each way out consumes the handle. A handle that is dropped ends its request with an I/O error,
//! so that no request is lost by an error path.
//!
//! # Batches
//!
//! Completed requests are collected in a [`RequestList`] under the queue's lock and ended after it,
//! by [`CompletionBatch`]. A batch does not do what ending one by one does for the block layer's
//! dispatch list: it does not restart a hardware queue. See [`CompletionBatch`] for the rule that
//! keeps requests from being lost there.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod attribute;
mod batch;
mod clock;
mod disk;
mod expired;
mod frame;
mod gen_disk;
mod geometry;
mod hctx;
mod limits;
mod list;
mod major;
mod operations;
mod passthrough;
mod pause;
mod polled;
mod ranges;
mod request;
mod size;
mod tag_set;
mod token;
mod zones;

pub use attribute::{Access, Attribute, Attributes};
pub use batch::CompletionBatch;
pub use clock::{is_cpu_idle, now_ns};
pub use disk::Disk;
pub use expired::Expired;
pub use frame::{Frame, RequestData, RANGE};
pub use gen_disk::{DiskBuilder, GenDisk};
pub use geometry::Geometry;
pub use hctx::Hctx;
pub use limits::Limits;
pub use list::RequestList;
pub use major::Major;
pub use operations::Operations;
pub use pause::without_io;
pub use polled::{Next, PollHandler, Polled};
pub use ranges::Range;
pub use request::{Done, Idle, Op, Refusal, Request, Started, State, Status};
pub use size::Size;
pub use tag_set::{num_possible_queues, Queues, TagSet};
pub use zones::{Zone, ZoneCondition, ZoneReport, ZonedLimits};

/// The C side of a device, for functions that the `kernel` crate does not wrap.
fn raw_device(device: &kernel::device::Device) -> *mut kernel::bindings::device {
    // CAST: `Device` is a transparent wrapper of `struct device`, in an `Opaque`.
    core::ptr::from_ref(device).cast_mut().cast()
}

/// The prefix of what this crate logs, as the `module!` macro makes it for a driver crate.
const __LOG_PREFIX: &[u8] = b"virtio_blk_rs\0";
