// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A virtio block device whose pace, order and signals are programmable.
//!
//! QEMU puts it on the guest's bus and leaves the rings to it (vhost-user). One thread a
//! queue takes requests from the available ring ([`worker`]), checks their shape
//! ([`request`], [`ranges`], [`limits`]), holds them back as long as the [`policy`] says
//! ([`schedule`]), carries them out on the [`storage`] ([`execute`]) unless they are to fail
//! ([`failures`]), puts them into the used ring ([`ring`]) and decides whether to signal
//! ([`signal`]). The disk may have [`zones`] ([`zoned`]). What the policy is can be changed, and
//! what was counted can be read, over a [`control`] socket while the guest is at work.

pub mod backend;
pub mod cache;
pub mod config;
pub mod control;
pub mod counters;
pub mod device;
pub mod execute;
pub mod failures;
pub mod lifetime;
pub mod limits;
pub mod options;
pub mod policy;
pub mod ranges;
pub mod request;
pub mod ring;
pub mod schedule;
pub mod server;
pub mod signal;
pub mod storage;
pub mod wait;
pub mod worker;
pub mod zone_options;
pub mod zoned;
pub mod zones;

pub use counters::Snapshot;
pub use failures::Failures;
pub use policy::{Order, Policy, Signal, Wait};
