// SPDX-License-Identifier: GPL-2.0

//! What a driver does for the block layer.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h) (`struct blk_mq_ops`)

use crate::{
    batch::CompletionBatch,
    disk::Disk,
    expired::Expired,
    frame::{data_ptr, RequestData},
    geometry::Geometry,
    hctx::Hctx,
    list::RequestList,
    raw_device,
    request::{Done, Idle, Refusal, Request, Status},
    tag_set::TagSet,
    zones::ZoneReport,
};
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    bindings, device,
    error::from_result,
    ffi::{c_int, c_uint, c_void},
    prelude::*,
    sync::Arc,
};

/// A multi-queue block driver.
pub trait Operations: Sized + 'static {
    /// What the tag set, and each disk on it, belongs to: the driver's device.
    type Device: Send + Sync;

    /// The driver's data of one hardware queue.
    type Queue: Send + Sync;

    /// The private data of each request, built once per tag.
    type RequestData: RequestData;

    /// The data of the hardware queue `index`. Called when the queue is initialised.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is no such queue.
    fn queue(device: &Self::Device, index: u32) -> Result<Arc<Self::Queue>>;

    /// The device whose interrupts decide which CPU uses which queue.
    fn irq_device(device: &Self::Device) -> &device::Device;

    /// Builds the private data of a request.
    fn new_request_data(device: &Self::Device) -> impl PinInit<Self::RequestData, Error>;

    /// Submits a request. If `last` is not set, more follow at once, or
    /// [`Operations::commit_rqs`] does: the device need not be notified yet. Process context, or
    /// softirq; must not sleep. C callback: `queue_rq`.
    ///
    /// # Errors
    ///
    /// The request was given back with a status.
    fn queue_rq(
        hctx: Hctx<'_, Self>,
        request: Request<Self, Idle>,
        last: bool,
    ) -> Result<(), Refusal>;

    /// Notifies the device of what was submitted without `last`. C callback: `commit_rqs`.
    fn commit_rqs(hctx: Hctx<'_, Self>);

    /// Submits several requests of one hardware queue, in their order, and notifies the device.
    /// What is left in `requests` is submitted by the block layer one by one, in order. Process
    /// context; must not sleep. C callback: `queue_rqs`.
    fn queue_rqs(hctx: Hctx<'_, Self>, requests: &mut RequestList<Self, Idle>);

    /// Collects what the device has returned on a poll queue, and ends it with `batch`. Returns how
    /// many requests that were. Process context; must not sleep. C callback: `poll`.
    fn poll(hctx: Hctx<'_, Self>, batch: &mut CompletionBatch<Self>) -> u32;

    /// A request has taken longer than its queue's timeout (`queue/io_timeout`). The driver may
    /// look whether it has completed meanwhile, and complete it; a request that is in flight still
    /// when this returns is waited for, as the device owns it. Process context; may sleep, but not
    /// wait for requests. C callback: `timeout`.
    fn expired(hctx: Hctx<'_, Self>, request: &Expired<'_>);

    /// The geometry of a disk. Process context. C callback: `getgeo`.
    fn geometry(disk: &Disk<Self>) -> Geometry;

    /// The result of a request that the device has returned.
    fn status(request: &Request<Self, Done>) -> Status;

    /// Takes what the device has answered beside the status of a request, which may be none, and
    /// returns how the request ends. Context as for [`CompletionBatch::end_all`].
    fn answered(request: &mut Request<Self, Done>, status: Status) -> Status;

    /// Tells of up to `count` zones of a zoned disk, from that of `sector` on. Process context; may
    /// sleep. C callback: `report_zones`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the disk is not zoned; what [`ZoneReport::tell`] has returned.
    fn report_zones(
        disk: &Disk<Self>,
        sector: u64,
        count: u32,
        report: &mut ZoneReport<'_>,
    ) -> Result;
}

/// The C side of a driver `T`.
pub(crate) struct Vtable<T: Operations>(PhantomData<T>);

impl<T: Operations> Vtable<T> {
    pub(crate) const OPS: bindings::blk_mq_ops = bindings::blk_mq_ops {
        queue_rq: Some(Self::queue_rq),
        queue_rqs: Some(Self::queue_rqs),
        commit_rqs: Some(Self::commit_rqs),
        poll: Some(Self::poll),
        timeout: Some(Self::timeout),
        complete: Some(Self::complete),
        init_hctx: Some(Self::init_hctx),
        exit_hctx: Some(Self::exit_hctx),
        init_request: Some(Self::init_request),
        exit_request: Some(Self::exit_request),
        map_queues: Some(Self::map_queues),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// For blk-mq: `hctx` is initialised; `bd` holds a request of `T` that is not started, which is
    /// handed over.
    unsafe extern "C" fn queue_rq(
        hctx: *mut bindings::blk_mq_hw_ctx,
        bd: *const bindings::blk_mq_queue_data,
    ) -> bindings::blk_status_t {
        // SAFETY: By the requirement of this function.
        let (hctx, rq, last) = unsafe { (Hctx::<T>::from_raw(hctx), (*bd).rq, (*bd).last) };
        // SAFETY: As above; the pointer is not null.
        let request = unsafe { Request::from_raw(NonNull::new_unchecked(rq)) };
        match T::queue_rq(hctx, request, last) {
            Ok(()) => Status::Ok.as_raw(),
            Err(Refusal(status)) => status.as_raw(),
        }
    }

    /// # Safety
    ///
    /// For blk-mq: `list` holds requests of `T` that are not started, which are handed over. What
    /// is in it on return is handed back.
    unsafe extern "C" fn queue_rqs(list: *mut bindings::rq_list) {
        // SAFETY: By the requirement of this function.
        let mut requests = unsafe { RequestList::<T, Idle>::from_raw(core::ptr::read(list)) };
        let mut left = RequestList::new();
        while let Some(hctx) = requests.hctx().map(Hctx::as_raw) {
            let mut run = requests.pop_run();
            // SAFETY: Hardware queues are torn down only after the request queue was quiesced,
            // which waits for this call.
            T::queue_rqs(unsafe { Hctx::from_raw(hctx) }, &mut run);
            left.append(run);
        }
        // SAFETY: By the requirement of this function.
        unsafe { list.write(left.into_raw()) };
    }

    /// # Safety
    ///
    /// For blk-mq: `hctx` is initialised.
    unsafe extern "C" fn commit_rqs(hctx: *mut bindings::blk_mq_hw_ctx) {
        // SAFETY: By the requirement of this function.
        T::commit_rqs(unsafe { Hctx::from_raw(hctx) });
    }

    /// # Safety
    ///
    /// For blk-mq: `hctx` is initialised, `iob` valid.
    unsafe extern "C" fn poll(
        hctx: *mut bindings::blk_mq_hw_ctx,
        iob: *mut bindings::io_comp_batch,
    ) -> c_int {
        // SAFETY: By the requirement of this function.
        let (hctx, batch) = unsafe { (Hctx::from_raw(hctx), CompletionBatch::from_raw(iob)) };
        c_int::try_from(T::poll(hctx, batch)).unwrap_or(c_int::MAX)
    }

    /// # Safety
    ///
    /// For blk-mq: `rq` was handed over by `blk_mq_complete_request_remote()`, that is by
    /// [`CompletionBatch`].
    unsafe extern "C" fn complete(rq: *mut bindings::request) {
        // SAFETY: By the requirement of this function; the pointer is not null.
        let request = unsafe { Request::<T, Done>::from_raw(NonNull::new_unchecked(rq)) };
        let status = T::status(&request);
        request.end(status);
    }

    /// # Safety
    ///
    /// For blk-mq: `rq` is a started request of `T`, to which the caller holds a reference.
    unsafe extern "C" fn timeout(rq: *mut bindings::request) -> bindings::blk_eh_timer_return {
        // SAFETY: By the requirement of this function; the hardware queue lives as long as the
        // request queue, on which a timeout is being handled.
        let (hctx, request) = unsafe { (Hctx::from_raw((*rq).mq_hctx), Expired::from_raw(rq)) };
        T::expired(hctx, &request);
        if request.is_in_flight() {
            bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER
        } else {
            bindings::blk_eh_timer_return_BLK_EH_DONE
        }
    }

    /// # Safety
    ///
    /// For blk-mq: `data` is the tag set's `driver_data`, `hctx` a new hardware queue.
    unsafe extern "C" fn init_hctx(
        hctx: *mut bindings::blk_mq_hw_ctx,
        data: *mut c_void,
        index: c_uint,
    ) -> c_int {
        // SAFETY: `driver_data` points to the `TagSet<T>` around the C one.
        let set = unsafe { &*data.cast::<TagSet<T>>() };
        from_result(|| {
            let queue = T::queue(set.device(), index)?;
            // SAFETY: `hctx` is valid, and `exit_hctx()` follows.
            unsafe { Hctx::<T>::put(hctx, queue) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// For blk-mq: `init_hctx` succeeded for `hctx`, once for each call of this.
    unsafe extern "C" fn exit_hctx(hctx: *mut bindings::blk_mq_hw_ctx, _index: c_uint) {
        // SAFETY: By the requirement of this function.
        drop(unsafe { Hctx::<T>::take(hctx) });
    }

    /// # Safety
    ///
    /// For blk-mq: `set` is the C tag set in a `TagSet<T>`, `rq` a request with room for its
    /// private data.
    unsafe extern "C" fn init_request(
        set: *mut bindings::blk_mq_tag_set,
        rq: *mut bindings::request,
        _index: c_uint,
        _numa_node: c_int,
    ) -> c_int {
        // SAFETY: `driver_data` points to the `TagSet<T>` around the C one.
        let set = unsafe { &*(*set).driver_data.cast::<TagSet<T>>() };
        // SAFETY: blk-mq passes a valid request.
        let data = unsafe { data_ptr::<T::RequestData>(NonNull::new_unchecked(rq)) };
        from_result(|| {
            // SAFETY: The private data is valid for writes and stays where it is until
            // `exit_request()`.
            unsafe { pin_init::raw_try_init(data.as_ptr(), T::new_request_data(set.device())) }?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// For blk-mq: `init_request` succeeded for `rq`, once for each call of this.
    unsafe extern "C" fn exit_request(
        _set: *mut bindings::blk_mq_tag_set,
        rq: *mut bindings::request,
        _index: c_uint,
    ) {
        // SAFETY: blk-mq passes a valid request.
        let data = unsafe { data_ptr::<T::RequestData>(NonNull::new_unchecked(rq)) };
        // SAFETY: By the requirement of this function; the request is not in use.
        unsafe { data.drop_in_place() };
    }

    /// # Safety
    ///
    /// For blk-mq: `set` is the C tag set in a `TagSet<T>`.
    unsafe extern "C" fn map_queues(set: *mut bindings::blk_mq_tag_set) {
        // SAFETY: `driver_data` points to the `TagSet<T>` around the C one; the device is valid
        // while the tag set is.
        let (device, queues) = unsafe {
            let tag_set = &*(*set).driver_data.cast::<TagSet<T>>();
            (T::irq_device(tag_set.device()), tag_set.queues())
        };
        let map = |kind: bindings::hctx_type, count, offset| {
            // SAFETY: blk-mq passes a valid set; `kind` is one of its maps.
            unsafe {
                let map = &raw mut (*set).map[kind as usize];
                (*map).nr_queues = count;
                (*map).queue_offset = offset;
                map
            }
        };
        let with_irq = map(bindings::hctx_type_HCTX_TYPE_DEFAULT, queues.with_irq, 0);
        // SAFETY: The map was filled just now; the device is valid.
        unsafe { bindings::blk_mq_map_hw_queues(with_irq, raw_device(device), 0) };
        if queues.polled > 0 {
            map(bindings::hctx_type_HCTX_TYPE_READ, 0, 0);
            let polled = map(
                bindings::hctx_type_HCTX_TYPE_POLL,
                queues.polled,
                queues.with_irq,
            );
            // SAFETY: The map was filled just now.
            unsafe { bindings::blk_mq_map_queues(polled) };
        }
    }
}
