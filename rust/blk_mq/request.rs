// SPDX-License-Identifier: GPL-2.0

//! A request, as an owning handle with its state in the type.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

use crate::{
    disk::Disk,
    frame::{data_ptr, Frame, RequestData},
    hctx::Hctx,
    operations::Operations,
};
use bindings_ext as ext;
use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};
use kernel::bindings;

mod private {
    pub trait Sealed {}
}

/// The state of a [`Request`].
pub trait State: private::Sealed {
    #[doc(hidden)]
    const STARTED: bool;
}

macro_rules! states {
    ($($(#[$meta:meta])* $name:ident: $started:literal;)*) => {
        $(
            $(#[$meta])*
            pub struct $name;

            impl private::Sealed for $name {}

            impl State for $name {
                const STARTED: bool = $started;
            }
        )*
    };
}

states! {
    /// Handed over by the block layer, not started.
    Idle: false;
    /// Started, and described for the device.
    Started: true;
    /// Returned by the device.
    Done: true;
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read from the device (`REQ_OP_READ`).
    Read,
    /// Write to the device (`REQ_OP_WRITE`).
    Write,
    /// Make what was written durable (`REQ_OP_FLUSH`).
    Flush,
    /// Forget ranges of the disk, which may read as anything after that (`REQ_OP_DISCARD`).
    Discard,
    /// Write zeroes to a range of the disk (`REQ_OP_WRITE_ZEROES`).
    WriteZeroes {
        /// The device may free what holds the range: there is no `REQ_NOUNMAP`.
        unmap: bool,
    },
    /// Forget a range of the disk for good (`REQ_OP_SECURE_ERASE`).
    SecureErase,
    /// Write to a zone where its write pointer is (`REQ_OP_ZONE_APPEND`).
    ZoneAppend,
    /// Open a zone (`REQ_OP_ZONE_OPEN`).
    ZoneOpen,
    /// Close a zone (`REQ_OP_ZONE_CLOSE`).
    ZoneClose,
    /// Make a zone full (`REQ_OP_ZONE_FINISH`).
    ZoneFinish,
    /// Make a zone empty (`REQ_OP_ZONE_RESET`).
    ZoneReset,
    /// Make all zones empty (`REQ_OP_ZONE_RESET_ALL`).
    ZoneResetAll,
    /// A request of the driver's own (`REQ_OP_DRV_IN`), made by [`Disk::execute`](crate::Disk).
    DriverIn,
    /// Another operation (`enum req_op`).
    Other(u8),
}

impl Op {
    /// The operation of a request with these `cmd_flags`, which is neither read, write nor flush.
    #[cold]
    fn uncommon(flags: bindings::blk_opf_t) -> Self {
        match flags & ext::REQ_OP_MASK {
            bindings::req_op_REQ_OP_DISCARD => Self::Discard,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Self::WriteZeroes {
                unmap: flags & ext::REQ_NOUNMAP == 0,
            },
            bindings::req_op_REQ_OP_SECURE_ERASE => Self::SecureErase,
            bindings::req_op_REQ_OP_ZONE_APPEND => Self::ZoneAppend,
            bindings::req_op_REQ_OP_ZONE_OPEN => Self::ZoneOpen,
            bindings::req_op_REQ_OP_ZONE_CLOSE => Self::ZoneClose,
            bindings::req_op_REQ_OP_ZONE_FINISH => Self::ZoneFinish,
            bindings::req_op_REQ_OP_ZONE_RESET => Self::ZoneReset,
            bindings::req_op_REQ_OP_ZONE_RESET_ALL => Self::ZoneResetAll,
            bindings::req_op_REQ_OP_DRV_IN => Self::DriverIn,
            op => Self::Other(op as u8),
        }
    }
}

/// The result of a request, for the block layer (`blk_status_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done (`BLK_STS_OK`).
    Ok = ext::BLK_STS_OK,
    /// The device cannot do it (`BLK_STS_NOTSUPP`).
    NotSupported = ext::BLK_STS_NOTSUPP,
    /// It failed (`BLK_STS_IOERR`).
    IoError = ext::BLK_STS_IOERR,
    /// A resource ran out, of the system or the ring: the block layer tries again when the queue is
    /// started, or after a while (`BLK_STS_RESOURCE`).
    Resource = ext::BLK_STS_RESOURCE,
    /// More zones would be open than the device can have (`BLK_STS_ZONE_OPEN_RESOURCE`).
    ZoneOpenResource = ext::BLK_STS_ZONE_OPEN_RESOURCE,
    /// More zones would be active than the device can have (`BLK_STS_ZONE_ACTIVE_RESOURCE`).
    ZoneActiveResource = ext::BLK_STS_ZONE_ACTIVE_RESOURCE,
}

impl Status {
    #[inline]
    pub(crate) fn as_raw(self) -> bindings::blk_status_t {
        self as u8
    }
}

/// Proof that a request went back to the block layer from [`Operations::queue_rq`].
#[must_use]
pub struct Refusal(pub(crate) Status);

/// A request of driver `T` in state `S`. See the [crate's documentation](crate) for the states.
///
/// # Invariants
///
/// - `ptr` is a valid request of a tag set of `T`, owned by this handle alone.
/// - The request is started if and only if `S::STARTED`. Its frame is mapped in `Started` and
///   `Done`.
pub struct Request<T: Operations, S: State> {
    ptr: NonNull<bindings::request>,
    _state: PhantomData<(fn() -> T, S)>,
}

// SAFETY: The handle owns its request, which may be ended on any CPU.
unsafe impl<T: Operations, S: State> Send for Request<T, S> {}

impl<T: Operations, S: State> Request<T, S> {
    /// # Safety
    ///
    /// `ptr` must be a valid request of a tag set of `T` in the state `S`, and the caller must own
    /// it and give it up.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: NonNull<bindings::request>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            ptr,
            _state: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<bindings::request> {
        ManuallyDrop::new(self).ptr
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::request {
        self.ptr.as_ptr()
    }

    #[inline]
    fn into_state<N: State>(self) -> Request<T, N> {
        Request {
            ptr: self.into_raw(),
            _state: PhantomData,
        }
    }

    /// What the request asks for.
    #[inline]
    pub fn op(&self) -> Op {
        // SAFETY: `ptr` is valid by the type invariant.
        let flags = unsafe { (*self.as_raw()).cmd_flags };
        match flags & ext::REQ_OP_MASK {
            bindings::req_op_REQ_OP_READ => Op::Read,
            bindings::req_op_REQ_OP_WRITE => Op::Write,
            bindings::req_op_REQ_OP_FLUSH => Op::Flush,
            _ => Op::uncommon(flags),
        }
    }

    /// Where the data starts, in sectors of 512 bytes (`blk_rq_pos()`).
    #[inline]
    pub fn sector(&self) -> u64 {
        // SAFETY: `ptr` is valid by the type invariant.
        unsafe { (*self.as_raw()).__sector }
    }

    /// How long the data is, in bytes (`blk_rq_bytes()`).
    #[inline]
    pub fn bytes(&self) -> u32 {
        // SAFETY: `ptr` is valid by the type invariant.
        unsafe { (*self.as_raw()).__data_len }
    }

    /// The I/O priority (`req_get_ioprio()`).
    #[inline]
    pub fn ioprio(&self) -> u16 {
        // SAFETY: `ptr` is valid by the type invariant, and so is its bio if there is one.
        unsafe { (*self.as_raw()).bio.as_ref() }.map_or(0, |bio| bio.bi_ioprio)
    }

    /// Whether somebody is likely to wait for this very request: a flush, one of the driver's own,
    /// a write that must be durable (`REQ_FUA`, `REQ_PREFLUSH`), metadata (`REQ_META`, `REQ_PRIO`),
    /// or a write for which its author waits with no more to come (`REQ_SYNC` without `REQ_IDLE`:
    /// fsync, not direct I/O).
    #[inline]
    pub fn is_urgent(&self) -> bool {
        const URGENT: u32 = ext::REQ_FUA | ext::REQ_PREFLUSH | ext::REQ_META | ext::REQ_PRIO;
        // SAFETY: `ptr` is valid by the type invariant.
        let flags = unsafe { (*self.as_raw()).cmd_flags };
        if flags & URGENT != 0 {
            return true;
        }
        match flags & ext::REQ_OP_MASK {
            bindings::req_op_REQ_OP_FLUSH | bindings::req_op_REQ_OP_DRV_IN => true,
            bindings::req_op_REQ_OP_WRITE => {
                flags & (ext::REQ_SYNC | ext::REQ_IDLE) == ext::REQ_SYNC
            }
            _ => false,
        }
    }

    /// Whether the device may carry out the request twice, with the same effect as once.
    pub fn is_repeatable(&self) -> bool {
        match self.op() {
            Op::Read | Op::Write | Op::Flush | Op::DriverIn => true,
            Op::Discard | Op::WriteZeroes { .. } | Op::SecureErase => true,
            Op::ZoneOpen | Op::ZoneFinish | Op::ZoneReset | Op::ZoneResetAll => true,
            // Data would be there twice; a zone that was closed may have become empty.
            Op::ZoneAppend | Op::ZoneClose => false,
            Op::Other(_) => false,
        }
    }

    /// The disk that the request is for.
    pub fn disk(&self) -> &Disk<T> {
        // SAFETY: `ptr` is valid by the type invariant, and so are its queue and the disk of that:
        // it is freed when no request is left.
        unsafe { Disk::from_raw((*(*self.as_raw()).q).disk) }
    }

    /// The hardware queue that the request is on.
    #[inline]
    pub fn hctx(&self) -> Hctx<'_, T> {
        // SAFETY: `ptr` is valid by the type invariant; its hardware queue lives as long as the
        // request is not ended, which needs the handle.
        unsafe { Hctx::from_raw((*self.as_raw()).mq_hctx) }
    }

    /// The number of segments of data (`blk_rq_nr_phys_segments()`).
    #[inline]
    fn segments(&self) -> u32 {
        // SAFETY: `ptr` is valid by the type invariant.
        let rq = unsafe { &*self.as_raw() };
        if rq.rq_flags & ext::RQF_SPECIAL_PAYLOAD != 0 {
            1
        } else {
            rq.nr_phys_segments.into()
        }
    }

    /// The request's private data.
    #[inline]
    pub fn data(&self) -> &T::RequestData {
        // SAFETY: The tag set built the private data with the tag; the handle owns it.
        unsafe { data_ptr::<T::RequestData>(self.ptr).as_ref() }
    }

    /// The request's private data.
    #[inline]
    pub(crate) fn data_mut(&mut self) -> &mut T::RequestData {
        // SAFETY: As in `data()`; `&mut self` makes it exclusive.
        unsafe { data_ptr::<T::RequestData>(self.ptr).as_mut() }
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        self.data_mut().release();
    }

    #[inline]
    fn end_raw(&mut self, status: Status) {
        // SAFETY: `ptr` is valid by the type invariant, and the caller consumes the handle.
        unsafe { bindings::blk_mq_end_request(self.as_raw(), status.as_raw()) };
    }
}

impl<const HEADER: usize, const TRAILER: usize, T> Request<T, Idle>
where
    T: Operations<RequestData = Frame<HEADER, TRAILER>>,
{
    /// The header of a request of the driver's own ([`Op::DriverIn`]), as [`Disk::execute`] was
    /// given it.
    ///
    /// [`Disk::execute`]: crate::Disk::execute
    pub fn header(&self) -> [u8; HEADER] {
        self.data().header()
    }

    /// Writes the header, maps the data, and tells the block layer that the request is on its way.
    /// C functions: `blk_rq_map_sg()`, `blk_mq_start_request()`.
    ///
    /// # Errors
    ///
    /// The request, unchanged, if memory for a long list of segments ran out.
    #[inline]
    pub fn start(mut self, header: [u8; HEADER]) -> Result<Request<T, Started>, Self> {
        let rq = self.as_raw();
        let segments = self.segments();
        // SAFETY: `rq` is valid by the type invariant.
        let to_device = unsafe { (*rq).cmd_flags } & 1 != 0;
        // SAFETY: The frame is that of `rq`, which the handle owns; it is not mapped as the request
        // is idle.
        if unsafe { self.data_mut().map(rq, segments, to_device, header) }.is_err() {
            return Err(self);
        }
        // SAFETY: The frame was mapped.
        Ok(unsafe { self.mark_started() })
    }

    /// As [`Request::start`], for an operation that the device answers with the whole trailer.
    ///
    /// # Errors
    ///
    /// As for [`Request::start`].
    pub fn start_with_trailer(self, header: [u8; HEADER]) -> Result<Request<T, Started>, Self> {
        let mut request = self.start(header)?;
        request.data_mut().use_whole_trailer();
        Ok(request)
    }

    /// Tells the block layer that the request is on its way. C function: `blk_mq_start_request()`.
    ///
    /// # Safety
    ///
    /// The frame must be mapped.
    #[inline]
    pub(crate) unsafe fn mark_started(self) -> Request<T, Started> {
        // SAFETY: `ptr` is valid and not started, by the type invariant.
        unsafe { bindings::blk_mq_start_request(self.as_raw()) };
        // INVARIANT: The request was started, and its frame is mapped.
        self.into_state()
    }
}

impl<T: Operations> Request<T, Idle> {
    /// Gives the request back to the block layer, from [`Operations::queue_rq`].
    #[inline]
    pub fn refuse(self, status: Status) -> Refusal {
        self.into_raw();
        Refusal(status)
    }
}

impl<T: Operations> Request<T, Started> {
    /// Gives the request back to the block layer, from [`Operations::queue_rq`].
    #[inline]
    pub fn refuse(mut self, status: Status) -> Refusal {
        self.release();
        self.into_raw();
        Refusal(status)
    }

    /// Puts the request on the block layer's list of those to be tried again; they are, after
    /// [`Hctx::kick_requeue_list`]. C function: `blk_mq_requeue_request()`.
    #[inline]
    pub fn requeue(mut self) {
        self.release();
        // SAFETY: `ptr` is valid and started by the type invariant; the handle is given up.
        unsafe { bindings::blk_mq_requeue_request(self.into_raw().as_ptr(), false) };
    }

    /// The request, now that the device has returned it.
    #[inline]
    pub fn returned(self) -> Request<T, Done> {
        // INVARIANT: `Started` and `Done` are alike for the block layer.
        self.into_state()
    }
}

impl<const HEADER: usize, const TRAILER: usize, T> Request<T, Done>
where
    T: Operations<RequestData = Frame<HEADER, TRAILER>>,
{
    /// What the device wrote into the last byte of the trailer; all bits are set if it wrote
    /// nothing.
    #[inline]
    pub fn status(&self) -> u8 {
        self.data().status()
    }

    /// What the device wrote into the trailer of a request that was started with
    /// [`Request::start_with_trailer`]; all bits are set where it wrote nothing.
    #[inline]
    pub fn trailer(&self) -> [u8; TRAILER] {
        self.data().trailer()
    }
}

impl<T: Operations> Request<T, Done> {
    /// Ends the request. C function: `blk_mq_end_request()`.
    #[inline]
    pub fn end(mut self, status: Status) {
        let status = self.conclude(status);
        self.end_raw(status);
        self.into_raw();
    }

    /// Takes what the answer has beside its status, releases what the request holds, and returns
    /// how it ends.
    #[inline]
    pub(crate) fn conclude(&mut self, status: Status) -> Status {
        if self.data().is_plain() {
            return status;
        }
        self.conclude_extras(status)
    }

    #[cold]
    fn conclude_extras(&mut self, status: Status) -> Status {
        let status = T::answered(self, status);
        self.release();
        status
    }

    /// Tells where the data of an append went, as a sector of 512 bytes.
    pub fn set_appended(&mut self, sector: u64) {
        // SAFETY: `ptr` is valid by the type invariant. The block layer reads the sector of an
        // append when that ends.
        unsafe { (*self.as_raw()).__sector = sector };
    }
}

impl<T: Operations, S: State> Drop for Request<T, S> {
    fn drop(&mut self) {
        if S::STARTED {
            self.release();
        } else {
            // SAFETY: `ptr` is valid and not started, by the type invariant.
            unsafe { bindings::blk_mq_start_request(self.as_raw()) };
        }
        self.end_raw(Status::IoError);
    }
}
