// SPDX-License-Identifier: GPL-2.0

//! What the block layer asks for, as the device is told.
//!
//! Reads, writes and flushes are a header, data and a status. What discards, zeroes or erases has
//! ranges of the disk for data, which the device reads. What is about zones has neither, but for
//! appends, which are writes that the device answers with a place. The driver's own requests have a
//! header already.

use crate::{
    device::BlockDriver,
    request::{self, Kind, Order, UNMAP},
    ring::Token,
};
use blk_mq::{Idle, Op, Request, Status};

/// A request that could not be started, and what is wrong with it.
pub(crate) type Unfit = (Request<BlockDriver, Idle>, Status);

/// Encodes and maps a request for a device whose fields are in that `order`.
///
/// # Errors
///
/// The request, with [`Status::NotSupported`] if there is no such command, or [`Status::Resource`]
/// if memory ran out.
#[inline]
pub(crate) fn start(order: Order, request: Request<BlockDriver, Idle>) -> Result<Token, Unfit> {
    let (kind, sector) = match request.op() {
        Op::Read => (Kind::In, request.sector()),
        Op::Write => (Kind::Out, request.sector()),
        Op::Flush => (Kind::Flush, 0),
        op => return start_uncommon(order, request, op),
    };
    let header = request::encode(order, kind, request.ioprio(), sector);
    request
        .start(header)
        .map_err(|request| (request, Status::Resource))
}

#[cold]
fn start_uncommon(
    order: Order,
    request: Request<BlockDriver, Idle>,
    op: Op,
) -> Result<Token, Unfit> {
    if let Some(kind) = about_zones(op) {
        return start_about_zones(order, request, kind);
    }
    let (kind, flags) = match op {
        Op::Discard => (Kind::Discard, 0),
        Op::WriteZeroes { unmap: true } => (Kind::WriteZeroes, UNMAP),
        Op::WriteZeroes { unmap: false } => (Kind::WriteZeroes, 0),
        Op::SecureErase => (Kind::SecureErase, 0),
        Op::DriverIn => {
            let header = request.header();
            return request
                .start(header)
                .map_err(|request| (request, Status::Resource));
        }
        _ => return Err((request, Status::NotSupported)),
    };
    let header = request::encode(order, kind, request.ioprio(), 0);
    request
        .start_with_ranges(header, |range| {
            request::encode_range(range.sector, range.sectors, flags)
        })
        .map_err(|request| (request, Status::Resource))
}

/// What the device is asked about zones.
fn about_zones(op: Op) -> Option<Kind> {
    Some(match op {
        Op::ZoneAppend => Kind::ZoneAppend,
        Op::ZoneOpen => Kind::ZoneOpen,
        Op::ZoneClose => Kind::ZoneClose,
        Op::ZoneFinish => Kind::ZoneFinish,
        Op::ZoneReset => Kind::ZoneReset,
        Op::ZoneResetAll => Kind::ZoneResetAll,
        _ => return None,
    })
}

fn start_about_zones(
    order: Order,
    request: Request<BlockDriver, Idle>,
    kind: Kind,
) -> Result<Token, Unfit> {
    let sector = match kind {
        Kind::ZoneResetAll => 0,
        _ => request.sector(),
    };
    let header = request::encode(order, kind, request.ioprio(), sector);
    let started = match kind {
        Kind::ZoneAppend => request.start_with_trailer(header),
        _ => request.start(header),
    };
    started.map_err(|request| (request, Status::Resource))
}
