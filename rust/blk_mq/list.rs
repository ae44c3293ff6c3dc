// SPDX-License-Identifier: GPL-2.0

//! A list of requests, threaded through the requests themselves.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h) (`struct rq_list`)

use crate::{
    hctx::Hctx,
    operations::Operations,
    request::{Request, State},
};
use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use kernel::bindings;

/// A list of requests in the same state, first in, first out. Needs no memory of its own.
///
/// Requests that are in the list when it is dropped are dropped with it, that is ended with an
/// error.
///
/// # Invariants
///
/// The list holds valid requests of `T` in state `S` that it owns; `tail` is the last one of them
/// if there is one.
pub struct RequestList<T: Operations, S: State> {
    raw: bindings::rq_list,
    _requests: PhantomData<Request<T, S>>,
}

impl<T: Operations, S: State> RequestList<T, S> {
    /// An empty list.
    #[inline]
    pub fn new() -> Self {
        // INVARIANT: It holds nothing.
        Self {
            raw: bindings::rq_list {
                head: core::ptr::null_mut(),
                tail: core::ptr::null_mut(),
            },
            _requests: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `raw` must hold valid requests of `T` in state `S`, and the caller must own them and give
    /// them up.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: bindings::rq_list) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            raw,
            _requests: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn into_raw(self) -> bindings::rq_list {
        ManuallyDrop::new(self).raw
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.head.is_null()
    }

    /// The hardware queue of the first request.
    #[inline]
    pub fn hctx(&self) -> Option<Hctx<'_, T>> {
        let first = NonNull::new(self.raw.head)?;
        // SAFETY: The request is valid by the type invariant, and its hardware queue lives as long
        // as it is in the list.
        Some(unsafe { Hctx::from_raw((*first.as_ptr()).mq_hctx) })
    }

    /// Appends a request (`rq_list_add_tail()`).
    #[inline]
    pub fn push(&mut self, request: Request<T, S>) {
        let rq = request.into_raw().as_ptr();
        // SAFETY: `rq` was owned by the handle. The tail is valid if the list is not empty, by the
        // type invariant.
        unsafe {
            (*rq).__bindgen_anon_1.rq_next = core::ptr::null_mut();
            if self.raw.head.is_null() {
                self.raw.head = rq;
            } else {
                (*self.raw.tail).__bindgen_anon_1.rq_next = rq;
            }
        }
        // INVARIANT: `rq` is the last one now.
        self.raw.tail = rq;
    }

    /// Takes the first request (`rq_list_pop()`).
    #[inline]
    pub fn pop(&mut self) -> Option<Request<T, S>> {
        let rq = NonNull::new(self.raw.head)?;
        // SAFETY: The request is valid by the type invariant.
        self.raw.head = unsafe { (*rq.as_ptr()).__bindgen_anon_1.rq_next };
        // SAFETY: The list owned the request in state `S`, and has given it up.
        Some(unsafe { Request::from_raw(rq) })
    }

    /// Moves all of `other` behind what is in this list.
    pub fn append(&mut self, mut other: Self) {
        while let Some(request) = other.pop() {
            self.push(request);
        }
    }

    /// Takes the requests at the front that are on the same hardware queue.
    #[inline]
    pub(crate) fn pop_run(&mut self) -> Self {
        let mut run = Self::new();
        let Some(first) = NonNull::new(self.raw.head) else {
            return run;
        };
        // SAFETY: All requests in the list are valid by the type invariant.
        let hctx = unsafe { (*first.as_ptr()).mq_hctx };
        let mut last = first.as_ptr();
        loop {
            // SAFETY: As above.
            let next = unsafe { (*last).__bindgen_anon_1.rq_next };
            // SAFETY: As above.
            if next.is_null() || unsafe { (*next).mq_hctx } != hctx {
                // INVARIANT: The list is cut behind `last`: what is before is in `run`, the rest
                // stays here with its tail.
                // SAFETY: As above.
                unsafe { (*last).__bindgen_anon_1.rq_next = core::ptr::null_mut() };
                run.raw.head = first.as_ptr();
                run.raw.tail = last;
                self.raw.head = next;
                return run;
            }
            last = next;
        }
    }
}

impl<T: Operations, S: State> Default for RequestList<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Operations, S: State> Drop for RequestList<T, S> {
    #[inline]
    fn drop(&mut self) {
        while let Some(request) = self.pop() {
            drop(request);
        }
    }
}
