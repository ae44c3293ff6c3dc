// SPDX-License-Identifier: GPL-2.0

//! Abstractions for drivers of virtio devices.
//!
//! # A driver's life
//!
//! 1. The module holds a [`Registration`] of its type that implements [`Driver`]; the bus calls
//!    [`Driver::probe`] for each matching device.
//! 2. Probe reads the configuration space through typed fields ([`config`]) and asks for its
//!    virtqueues with [`Setup::find_vqs`]. It gets [`Virtqueues`], on which nothing can be
//!    submitted yet.
//! 3. [`Virtqueues::ready`] sets `DRIVER_OK` and turns them into [`Virtqueue`]s: no buffer can be
//!    added and no kick can happen before that, by type.
//! 4. [`Probe::attach`] makes the driver's data reachable from the device's callbacks.
//! 5. [`Driver::remove`] stops all use, then drops the virtqueues. A virtqueue that is dropped
//!    resets the device first, so that nothing is freed while the device may still write to it.
//!
//! # Who owns a buffer
//!
//! A buffer is described by a [`Token`] that owns its memory. [`Virtqueue::add`] takes the token;
//! while the device has the buffer, no code can reach it. [`Virtqueue::get_buf`] gives it back.
//!
//! C headers: [`include/linux/virtio.h`](srctree/include/linux/virtio.h),
//! [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h)

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

pub mod config;
mod device;
mod driver;
mod feature;
mod setup;
mod token;
mod used_event;
mod virtqueue;
mod virtqueues;

pub use device::Device;
pub use driver::{Adapter, DeviceId, Driver, IdTable, Probe, Registration};
pub use feature::{transport, Feature, FeatureTable};
pub use setup::{Binding, Setup};
pub use token::{Chain, Token};
pub use virtqueue::{Kick, Reason, Rejected, Used, UsedEventHint, Virtqueue};
pub use virtqueues::Virtqueues;

/// The prefix of what this crate logs, as the `module!` macro makes it for a driver crate.
const __LOG_PREFIX: &[u8] = b"virtio_blk_rs\0";
