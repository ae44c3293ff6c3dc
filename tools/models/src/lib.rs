// SPDX-License-Identifier: GPL-2.0

//! The driver's pure files on the host: the very files of the module, included by path, under loom
//! (every interleaving of a small model), proptest (random, larger schedules) and plain tests.
//!
//! The completion protocol needs a virtqueue to run on. This crate models one ([`virtqueue`]) in
//! either format ([`split`], [`packed`]): the driver's half has the stores, loads and barriers of
//! the kernel's virtio_ring.c, the device's half follows the virtio specification. The memory
//! between them ([`memory`]) is loom's, which explores what threads may see of each other
//! ([`explore`]), or a plain one for long runs in a single thread ([`world`]).
//!
//! A model that cannot fail proves nothing: [`fault`] and [`mutants`] break it on purpose, and the
//! tests demand ([`verdict`]) that each break is found.

pub mod driver;
pub mod explore;
pub mod fault;
pub mod guest;
pub mod host;
pub mod line;
pub mod memory;
pub mod mutants;
pub mod packed;
pub mod split;
pub mod verdict;
pub mod virtqueue;
pub mod world;
