// SPDX-License-Identifier: GPL-2.0

//! Raw bindings that the `kernel` crate lacks: the virtio core, `irq_poll`, and shims for inline
//! functions of the block layer.
//!
//! The types that both sets would hold come from [`kernel::bindings`]. Drivers
//! see the safe crates beside this one; of these names they use constants and offsets only.
//!
//! C headers: [`include/linux/virtio.h`](srctree/include/linux/virtio.h),
//! [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h),
//! [`include/linux/irq_poll.h`](srctree/include/linux/irq_poll.h)

#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    improper_ctypes,
    improper_ctypes_definitions,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

use ::kernel::bindings::*;
use ::kernel::ffi;

include!(env!("BINDINGS_EXT_GENERATED"));
