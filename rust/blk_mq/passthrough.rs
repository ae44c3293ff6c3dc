// SPDX-License-Identifier: GPL-2.0

//! Requests of the driver's own: questions to the device that are no I/O.
//!
//! The request goes the same way as all others, through the hardware queues of the block layer and
//! [`Operations::queue_rq`], where it is an [`Op::DriverIn`](crate::Op::DriverIn) whose header is
//! written already ([`Request::header`](crate::Request::header)). So it waits its turn on a full
//! ring, and whatever ends the requests of a device that is reset or removed ends it, too.
//!
//! C headers: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//! (`blk_mq_alloc_request()`, `blk_rq_map_kern()`, `blk_execute_rq()`)

use crate::{
    disk::Disk,
    frame::{data_ptr, Frame},
    operations::Operations,
};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    bindings,
    error::{from_err_ptr, to_result},
    prelude::*,
};

impl<const HEADER: usize, const TRAILER: usize, T> Disk<T>
where
    T: Operations<RequestData = Frame<HEADER, TRAILER>>,
{
    /// Sends the device a request with `header`, for which it fills `buffer`, and waits for that,
    /// however long it takes. Process context.
    ///
    /// The buffer is borrowed until the request has ended, and a request ends only when the device
    /// has returned it or was reset: no device writes to memory that is used otherwise.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the disk is being removed; `EINVAL` for a buffer that is empty or longer than a
    /// request can be; `EREMOTEIO` if it has more pages than a request has segments; `ENOMEM`; what
    /// [`Operations::status`] makes of the device's answer: `EOPNOTSUPP`, `EIO`. What is in the
    /// buffer is not to be relied on then.
    pub fn execute(&self, header: [u8; HEADER], buffer: &mut KVVec<u8>) -> Result {
        let mut request = Own::new(self)?;
        request.frame().put_header(header);
        request.execute(buffer)
    }
}

/// A request that this crate has allocated.
///
/// # Invariants
///
/// `ptr` is a request of a tag set of `T` that is not on its way, and is freed with this.
struct Own<T: Operations> {
    ptr: NonNull<bindings::request>,
    _driver: PhantomData<T>,
}

impl<T: Operations> Own<T> {
    /// Waits for a free tag, or until the disk is removed.
    fn new(disk: &Disk<T>) -> Result<Self> {
        // SAFETY: The disk is valid by its invariants, and so is its queue.
        let rq = from_err_ptr(unsafe {
            bindings::blk_mq_alloc_request(disk.queue(), bindings::req_op_REQ_OP_DRV_IN, 0)
        })?;
        // INVARIANT: The request was allocated just now.
        Ok(Self {
            ptr: NonNull::new(rq).ok_or(ENOMEM)?,
            _driver: PhantomData,
        })
    }

    fn frame(&mut self) -> &mut T::RequestData {
        // SAFETY: The tag set built the private data with the tag. The request is not on its way by
        // the type invariant, so nobody else uses it.
        unsafe { data_ptr::<T::RequestData>(self.ptr).as_mut() }
    }

    /// Maps the buffer, and waits for the end of the request.
    fn execute(self, buffer: &mut KVVec<u8>) -> Result {
        let rq = self.ptr.as_ptr();
        let len = u32::try_from(buffer.len()).map_err(|_| EINVAL)?;
        // SAFETY: The request has no data yet. The buffer's memory is from `kmalloc()` or
        // `vmalloc()`, whose pages can be found, and is borrowed until the request has ended.
        to_result(unsafe {
            bindings::blk_rq_map_kern(rq, buffer.as_mut_ptr().cast(), len, bindings::GFP_KERNEL)
        })?;
        // SAFETY: The request is valid and not on its way, by the type invariant. It is not on its
        // way either when this returns, which is what the invariant demands.
        let status = unsafe { bindings::blk_execute_rq(rq, false) };
        // SAFETY: The function has no requirements.
        to_result(unsafe { bindings::blk_status_to_errno(status) })
    }
}

impl<T: Operations> Drop for Own<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the handle is gone.
        unsafe { bindings::blk_mq_free_request(self.ptr.as_ptr()) };
    }
}
