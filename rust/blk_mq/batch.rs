// SPDX-License-Identifier: GPL-2.0

//! Ending completed requests, in a batch where that is safe.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//! (`blk_mq_add_to_batch()`, `blk_mq_end_request_batch()`)

use crate::{
    list::RequestList,
    operations::Operations,
    request::{Done, Request, Status},
};
use bindings_ext as ext;
use core::marker::PhantomData;
use kernel::bindings;

/// Requests that are ended together: one look at the clock, and their tags freed in one go.
///
/// # What goes into a batch
///
/// Successful requests that may be completed on this CPU. One by one are ended: failed requests,
/// flushes and what else has an `end_io` of its own, and requests of an I/O scheduler. A request
/// that belongs to another CPU goes there (`blk_mq_complete_request_remote()`), and comes back
/// through the block layer's own way.
///
/// The block layer would take a failed request of the driver's own, too, and then tell whoever
/// waits for it that it succeeded. So no failed request is offered to it.
///
/// # Why no request is lost
///
/// When a request is ended by itself, the block layer restarts the hardware queue if requests wait
/// in its dispatch list. After a batch it does not. A driver that refuses a request with
/// `BLK_STS_DEV_RESOURCE` relies on that restart: between its answer and the moment at which the
/// block layer has put the request on the list, another CPU may end all that is in flight, as a
/// batch, and start the queue in vain; then nothing ever looks at the list again. Drivers lost
/// requests that way in the field. So there is no such [`Status`]: a full ring is
/// [`Status::Resource`], with which the block layer looks again by itself, and stopping the queue
/// ([`Hctx::stop`](crate::Hctx::stop)) until completions made room spares it looking in vain.
#[repr(transparent)]
pub struct CompletionBatch<T: Operations> {
    iob: bindings::io_comp_batch,
    _requests: PhantomData<Request<T, Done>>,
}

impl<T: Operations> CompletionBatch<T> {
    /// The batch of somebody who polls, and ends it.
    ///
    /// # Safety
    ///
    /// `iob` must be valid and not used by others for `'a`.
    pub(crate) unsafe fn from_raw<'a>(iob: *mut bindings::io_comp_batch) -> &'a mut Self {
        // SAFETY: By the requirement of this function; the type is transparent. Requests of other
        // drivers may be in the batch: `end()` does not look at them, and the block layer ends them
        // by the function of their driver.
        unsafe { &mut *iob.cast() }
    }

    /// Ends all requests of `list` one by one, as if there were no batches. Context as for
    /// [`CompletionBatch::end_all`].
    pub fn end_each(mut list: RequestList<T, Done>) {
        while let Some(request) = list.pop() {
            Self::end_single(request);
        }
    }

    /// Ends a request by itself.
    #[inline]
    fn end_single(request: Request<T, Done>) {
        let status = T::status(&request);
        if let Some(request) = Self::keep(request) {
            request.end(status);
        }
    }

    /// The request, unless it belongs to another CPU, where it goes.
    #[inline]
    fn keep(request: Request<T, Done>) -> Option<Request<T, Done>> {
        let rq = request.into_raw();
        // SAFETY: The handle owned the request, which is started. If this returns `true`, the block
        // layer has it and calls `Operations::status()` again on the right CPU.
        let gone = unsafe { bindings::blk_mq_complete_request_remote(rq.as_ptr()) };
        // SAFETY: The request is still ours if it is not gone.
        (!gone).then(|| unsafe { Request::from_raw(rq) })
    }

    /// Ends all requests of `list`; a single one by itself, as a batch of one costs more. Any
    /// context in which their completion may run: hard interrupt, softirq or process, without the
    /// queue's lock.
    #[inline]
    pub fn end_all(mut list: RequestList<T, Done>) {
        let Some(first) = list.pop() else {
            return;
        };
        if list.is_empty() {
            return Self::end_single(first);
        }
        let mut batch = Self {
            iob: bindings::io_comp_batch::default(),
            _requests: PhantomData,
        };
        batch.end(first);
        while let Some(request) = list.pop() {
            batch.end(request);
        }
        if !batch.iob.req_list.head.is_null() {
            // SAFETY: All requests in the batch were added by `end()`: they are complete, hold
            // nothing any more, and nothing refers to them.
            unsafe { bindings::blk_mq_end_request_batch(&mut batch.iob) };
        }
    }

    /// Ends a request with the others of the batch, where that is safe, or by itself.
    #[inline]
    pub fn end(&mut self, request: Request<T, Done>) {
        let status = T::status(&request);
        let Some(mut request) = Self::keep(request) else {
            return;
        };
        let status = request.conclude(status);
        if status != Status::Ok {
            return request.end(status);
        }
        let rq = request.into_raw();
        // SAFETY: The handle owned the request. If this returns `true`, it is in the batch.
        let added = unsafe {
            ext::ext_blk_mq_add_to_batch(
                rq.as_ptr(),
                &mut self.iob,
                false,
                Some(bindings::blk_mq_end_request_batch),
            )
        };
        if !added {
            // SAFETY: The request was not taken.
            unsafe { Request::<T, Done>::from_raw(rq) }.end(status);
        }
    }
}
