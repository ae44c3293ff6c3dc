// SPDX-License-Identifier: GPL-2.0

//! A hardware queue of the block layer.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

use crate::{disk::Disk, operations::Operations};
use core::marker::PhantomData;
use kernel::{bindings, sync::Arc};

/// A reference to a hardware queue (`struct blk_mq_hw_ctx`) of driver `T`.
///
/// # Invariants
///
/// `ptr` is valid for `'a`, and was initialised with a reference to a `T::Queue`.
pub struct Hctx<'a, T: Operations> {
    ptr: *mut bindings::blk_mq_hw_ctx,
    _queue: PhantomData<&'a T::Queue>,
}

impl<T: Operations> Clone for Hctx<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Operations> Copy for Hctx<'_, T> {}

impl<'a, T: Operations> Hctx<'a, T> {
    /// # Safety
    ///
    /// `ptr` must be a hardware queue of a tag set of `T`, between its initialisation and its exit,
    /// for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: *mut bindings::blk_mq_hw_ctx) -> Self {
        // INVARIANT: By the requirement of this function.
        Self {
            ptr,
            _queue: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn as_raw(self) -> *mut bindings::blk_mq_hw_ctx {
        self.ptr
    }

    /// The driver's data of the queue.
    #[inline]
    pub fn queue(self) -> &'a T::Queue {
        // SAFETY: By the type invariant, `driver_data` comes from `Arc::into_raw()` and holds its
        // reference for `'a`.
        unsafe { &*(*self.ptr).driver_data.cast::<T::Queue>() }
    }

    /// The disk that the queue is of.
    pub fn disk(self) -> &'a Disk<T> {
        // SAFETY: `ptr` is valid by the type invariant, and so are the request queue that it is of
        // and the disk of that: the queue goes first.
        unsafe { Disk::from_raw((*(*self.ptr).queue).disk) }
    }

    /// Stops dispatching requests to this queue, until it is started. Any context.
    /// C function: `blk_mq_stop_hw_queue()`.
    #[inline]
    pub fn stop(self) {
        // SAFETY: `ptr` is valid by the type invariant.
        unsafe { bindings::blk_mq_stop_hw_queue(self.ptr) };
    }

    /// Starts the queue if it is stopped, and has what waits for it dispatched from a worker. Any
    /// context. C function: `blk_mq_start_stopped_hw_queue()`.
    #[inline]
    pub fn start_stopped(self) {
        // SAFETY: `ptr` is valid by the type invariant.
        unsafe { bindings::blk_mq_start_stopped_hw_queue(self.ptr, true) };
    }

    /// Has the requests that were put back ([`Request::requeue`](crate::Request::requeue))
    /// dispatched again. Any context. C function: `blk_mq_kick_requeue_list()`.
    pub fn kick_requeue_list(self) {
        // SAFETY: `ptr` is valid by the type invariant, and so is the request queue that it is of.
        unsafe { bindings::blk_mq_kick_requeue_list((*self.ptr).queue) };
    }

    /// Stores the driver's data in a hardware queue that is being initialised.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid, and [`Hctx::take`] must be called when it is torn down.
    pub(crate) unsafe fn put(ptr: *mut bindings::blk_mq_hw_ctx, queue: Arc<T::Queue>) {
        // SAFETY: By the requirement of this function.
        unsafe { (*ptr).driver_data = Arc::into_raw(queue).cast_mut().cast() };
    }

    /// Takes the driver's data out of a hardware queue that is torn down.
    ///
    /// # Safety
    ///
    /// [`Hctx::put`] must have been called for `ptr`, and this not yet.
    pub(crate) unsafe fn take(ptr: *mut bindings::blk_mq_hw_ctx) -> Arc<T::Queue> {
        // SAFETY: By the requirement of this function, the pointer comes from `Arc::into_raw()`.
        unsafe { Arc::from_raw((*ptr).driver_data.cast::<T::Queue>()) }
    }
}
