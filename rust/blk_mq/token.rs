// SPDX-License-Identifier: GPL-2.0

//! Requests as tokens of a virtqueue: a started request owns the memory of header, data and
//! trailer.

use crate::{
    frame::Frame,
    operations::Operations,
    request::{Request, Started},
};
use core::ptr::NonNull;
use kernel::ffi::c_void;
use virtio::{Chain, Token};

// SAFETY: A started request owns its data's pages until it is ended, and its frame until its tag is
// freed; both need the handle, which the queue has. The frame's lists are built for the data when
// the request is started and are not touched before it is released. Each request has an address of
// its own.
unsafe impl<const HEADER: usize, const TRAILER: usize, T> Token for Request<T, Started>
where
    T: Operations<RequestData = Frame<HEADER, TRAILER>>,
{
    #[inline]
    fn describe(&mut self) -> Chain {
        self.data_mut().describe()
    }

    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        Request::into_raw(self).cast()
    }

    #[inline]
    unsafe fn from_raw(ptr: NonNull<c_void>) -> Self {
        // SAFETY: By the requirement of this function, `ptr` was made from a started request, and
        // nobody has it.
        unsafe { Request::from_raw(ptr.cast()) }
    }
}
