// SPDX-License-Identifier: GPL-2.0

//! A request whose time is up.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//! (`blk_mq_ops.timeout`)

use core::marker::PhantomData;
use kernel::bindings;

/// A look at a request that has taken longer than its queue's timeout. It is not a handle: the
/// request belongs to the device, or to whoever completes it.
///
/// # Invariants
///
/// `ptr` is valid for `'a`: the block layer holds a reference, so it is not used for another I/O.
pub struct Expired<'a> {
    ptr: *mut bindings::request,
    _request: PhantomData<&'a bindings::request>,
}

impl Expired<'_> {
    /// # Safety
    ///
    /// `ptr` must be valid for the lifetime, and not be used for another I/O meanwhile.
    pub(crate) unsafe fn from_raw(ptr: *mut bindings::request) -> Self {
        // INVARIANT: By the requirement of this function.
        Self {
            ptr,
            _request: PhantomData,
        }
    }

    /// The request's tag.
    pub fn tag(&self) -> i32 {
        // SAFETY: `ptr` is valid by the type invariant; the tag does not change in flight.
        unsafe { (*self.ptr).tag }
    }

    /// Whether nobody has completed the request yet.
    pub fn is_in_flight(&self) -> bool {
        // SAFETY: `ptr` is valid by the type invariant. The state is read as the block layer does
        // (`blk_mq_rq_state()`): others change it.
        let state = unsafe { (&raw const (*self.ptr).state).read_volatile() };
        state == bindings::mq_rq_state_MQ_RQ_IN_FLIGHT
    }
}
