// SPDX-License-Identifier: GPL-2.0

//! What the block layer calls.

use crate::{
    answers,
    device::{BlockDevice, BlockDriver},
    queue::{self, Queue},
    request::{self, Kind, Outcome},
    zone_report, zoned,
};
use blk_mq::{
    CompletionBatch, Disk, Done, Expired, Frame, Geometry, Hctx, Idle, Op, Operations, Polled,
    Refusal, Request, RequestList, Status, ZoneReport,
};
use kernel::{device, prelude::*, sync::Arc};

// The pure file spells out what the specification says; so does the C header.
const _: () = {
    assert!(request::HEADER == size_of::<bindings_ext::virtio_blk_outhdr>());
    assert!(Kind::In as u32 == bindings_ext::VIRTIO_BLK_T_IN);
    assert!(Kind::Out as u32 == bindings_ext::VIRTIO_BLK_T_OUT);
    assert!(Kind::Flush as u32 == bindings_ext::VIRTIO_BLK_T_FLUSH);
    assert!(Kind::GetId as u32 == bindings_ext::VIRTIO_BLK_T_GET_ID);
    assert!(answers::SERIAL == bindings_ext::VIRTIO_BLK_ID_BYTES as usize);
    assert!(Kind::Discard as u32 == bindings_ext::VIRTIO_BLK_T_DISCARD);
    assert!(Kind::WriteZeroes as u32 == bindings_ext::VIRTIO_BLK_T_WRITE_ZEROES);
    assert!(Kind::SecureErase as u32 == bindings_ext::VIRTIO_BLK_T_SECURE_ERASE);
    assert!(Kind::ZoneAppend as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_APPEND);
    assert!(Kind::ZoneReport as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_REPORT);
    assert!(Kind::ZoneOpen as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_OPEN);
    assert!(Kind::ZoneClose as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_CLOSE);
    assert!(Kind::ZoneFinish as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_FINISH);
    assert!(Kind::ZoneReset as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_RESET);
    assert!(Kind::ZoneResetAll as u32 == bindings_ext::VIRTIO_BLK_T_ZONE_RESET_ALL);
    assert!(zone_report::HEAD == size_of::<bindings_ext::virtio_blk_zone_report>());
    assert!(zone_report::DESCRIPTOR == size_of::<bindings_ext::virtio_blk_zone_descriptor>());
    assert!(request::RANGE == size_of::<bindings_ext::virtio_blk_discard_write_zeroes>());
    assert!(request::RANGE == blk_mq::RANGE);
    assert!(request::UNMAP == bindings_ext::VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
};

impl Operations for BlockDriver {
    type Device = BlockDevice;
    type Queue = Polled<Queue>;
    type RequestData = Frame<{ request::HEADER }, { request::TRAILER }>;

    fn queue(device: &BlockDevice, index: u32) -> Result<Arc<Polled<Queue>>> {
        device.queue(index).cloned().ok_or(ENODEV)
    }

    fn irq_device(device: &BlockDevice) -> &device::Device {
        device.as_ref()
    }

    fn new_request_data(_device: &BlockDevice) -> impl PinInit<Self::RequestData, Error> {
        Frame::new()
    }

    #[inline]
    fn queue_rq(
        hctx: Hctx<'_, Self>,
        request: Request<Self, Idle>,
        last: bool,
    ) -> Result<(), Refusal> {
        hctx.queue().submit(hctx, request, last)
    }

    fn commit_rqs(hctx: Hctx<'_, Self>) {
        hctx.queue().commit();
    }

    fn queue_rqs(hctx: Hctx<'_, Self>, requests: &mut RequestList<Self, Idle>) {
        hctx.queue().submit_list(hctx, requests);
    }

    fn poll(hctx: Hctx<'_, Self>, batch: &mut CompletionBatch<Self>) -> u32 {
        hctx.queue().poll_into(batch)
    }

    fn expired(hctx: Hctx<'_, Self>, request: &Expired<'_>) {
        queue::rescue(hctx.queue(), request);
        if request.is_in_flight() {
            hctx.disk().device().expired();
        }
    }

    fn geometry(disk: &Disk<Self>) -> Geometry {
        let geometry = disk.device().geometry();
        geometry.unwrap_or_else(|| Geometry::usual(disk.capacity()))
    }

    #[inline]
    fn status(request: &Request<Self, Done>) -> Status {
        match request::decode(request.status()) {
            Outcome::Ok => Status::Ok,
            Outcome::Unsupported => Status::NotSupported,
            Outcome::ZoneOpenResource => Status::ZoneOpenResource,
            Outcome::ZoneActiveResource => Status::ZoneActiveResource,
            Outcome::Failed => Status::IoError,
        }
    }

    fn answered(request: &mut Request<Self, Done>, status: Status) -> Status {
        if status != Status::Ok || request.op() != Op::ZoneAppend {
            return status;
        }
        let appended = request::decode_appended(request.trailer());
        let zones = request.disk().device().zones();
        if !zones.is_some_and(|zones| zones.can_append(request.sector(), appended)) {
            return Status::IoError;
        }
        request.set_appended(appended);
        Status::Ok
    }

    fn report_zones(
        disk: &Disk<Self>,
        sector: u64,
        count: u32,
        report: &mut ZoneReport<'_>,
    ) -> Result {
        zoned::report(disk, sector, count, report)
    }
}
