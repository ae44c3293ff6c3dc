// SPDX-License-Identifier: GPL-2.0

//! The tags of a device, and the requests behind them.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h) (`struct blk_mq_tag_set`)

use crate::operations::{Operations, Vtable};
use kernel::{bindings, error::to_result, prelude::*, sync::Arc, types::Opaque};

/// How many hardware queues of at most `max` (0: no limit) the block layer can use on this machine.
/// C function: `blk_mq_num_possible_queues()`.
pub fn num_possible_queues(max: u32) -> u32 {
    // SAFETY: The function has no requirements.
    unsafe { bindings::blk_mq_num_possible_queues(max) }
}

/// The hardware queues of a tag set; those with interrupts come first.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    /// Queues whose completions are signalled.
    pub with_irq: u32,
    /// Queues whose completions are polled for (`HCTX_TYPE_POLL`).
    pub polled: u32,
}

impl Queues {
    /// How many there are.
    pub fn count(self) -> u32 {
        self.with_irq.saturating_add(self.polled)
    }
}

/// A set of tags, shared by the hardware queues of a device.
///
/// # Invariants
///
/// `inner` was allocated, and its `driver_data` points to `self`.
#[pin_data(PinnedDrop)]
pub struct TagSet<T: Operations> {
    #[pin]
    inner: Opaque<bindings::blk_mq_tag_set>,
    device: Arc<T::Device>,
    queues: Queues,
}

// SAFETY: blk-mq synchronises what it does with a tag set; the rest is an `Arc` of what is `Sync`.
unsafe impl<T: Operations> Send for TagSet<T> {}

// SAFETY: As above.
unsafe impl<T: Operations> Sync for TagSet<T> {}

impl<T: Operations> TagSet<T> {
    /// Allocates `depth` tags for each of the hardware queues. Process context.
    /// C function: `blk_mq_alloc_tag_set()`.
    ///
    /// blk-mq lowers a depth that it cannot serve.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` (a depth of 0), or what [`Operations::new_request_data`] returns.
    pub fn new(device: Arc<T::Device>, queues: Queues, depth: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            device,
            queues,
            inner <- Opaque::ffi_init(|set: *mut bindings::blk_mq_tag_set| {
                // SAFETY: `set` is valid for writes, and all-zero is a valid value.
                unsafe {
                    set.write_bytes(0, 1);
                    (*set).ops = &Vtable::<T>::OPS;
                    (*set).nr_hw_queues = queues.count();
                    (*set).nr_maps = if queues.polled > 0 {
                        bindings::hctx_type_HCTX_MAX_TYPES
                    } else {
                        1
                    };
                    (*set).queue_depth = depth;
                    (*set).cmd_size = size_of::<T::RequestData>() as u32;
                    (*set).numa_node = bindings::NUMA_NO_NODE;
                    (*set).driver_data = this.as_ptr().cast();
                }
            }),
            _: {
                // SAFETY: All fields are initialised, and `self` is pinned. blk-mq calls back into
                // `Vtable`, which needs `device` and `queues` only.
                to_result(unsafe {
                    bindings::blk_mq_alloc_tag_set(Opaque::cast_into(
                        &raw const (*this.as_ptr()).inner,
                    ))
                })?;
            },
        })
    }

    /// The driver's device.
    pub(crate) fn device(&self) -> &Arc<T::Device> {
        &self.device
    }

    /// The hardware queues.
    pub(crate) fn queues(&self) -> Queues {
        self.queues
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::blk_mq_tag_set {
        self.inner.get()
    }

    /// How many tags each hardware queue has.
    pub fn depth(&self) -> u32 {
        // SAFETY: The tag set is valid by the type invariant, and the depth does not change.
        unsafe { (*self.as_raw()).queue_depth }
    }
}

#[pinned_drop]
impl<T: Operations> PinnedDrop for TagSet<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The tag set was allocated, by the type invariant. The disks on it hold references
        // to it, so they are gone.
        unsafe { bindings::blk_mq_free_tag_set(self.inner.get()) };
    }
}
