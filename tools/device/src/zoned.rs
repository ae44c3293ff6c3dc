// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Carries out requests on a disk with zones.

use crate::counters::Counters;
use crate::device::Device;
use crate::execute::{tell, transfer, Fault};
use crate::request::{Operation, Request, SECTOR};
use crate::zones::{Action, Lie, Refusal, State, Zones};
use serde_json::{json, Value};
use std::sync::{Mutex, MutexGuard, PoisonError};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_S_ZONE_ACTIVE_RESOURCE, VIRTIO_BLK_S_ZONE_INVALID_CMD,
    VIRTIO_BLK_S_ZONE_OPEN_RESOURCE, VIRTIO_BLK_S_ZONE_UNALIGNED_WP,
};
use vm_memory::{Bytes, GuestMemoryMmap, VolatileSlice};

/// The zones of a disk, and how reports of them are false. All queues share them: a request has
/// them for itself while it is carried out, so that a write is recorded as it was checked.
#[derive(Debug)]
pub struct Zoned {
    state: Mutex<(Zones, Lie)>,
}

/// A request for zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneRequest {
    /// Write at a zone's write pointer, and tell where that was.
    Append,
    /// Tell what zones there are.
    Report,
    /// Do something with one zone.
    Act(Action),
    /// Make all zones empty.
    ResetAll,
}

impl ZoneRequest {
    /// Counts what is asked for.
    pub(crate) fn count(self, counters: &Counters) {
        let counter = match self {
            Self::Append => &counters.zone_appends,
            Self::Report => &counters.zone_reports,
            Self::Act(Action::Open) => &counters.zone_opens,
            Self::Act(Action::Close) => &counters.zone_closes,
            Self::Act(Action::Finish) => &counters.zone_finishes,
            Self::Act(Action::Reset) | Self::ResetAll => &counters.zone_resets,
        };
        counter.increment();
    }
}

impl Zoned {
    /// A disk with these zones.
    pub fn new(zones: Zones, lie: Lie) -> Self {
        let state = Mutex::new((zones, lie));
        Self { state }
    }

    fn lock(&self) -> MutexGuard<'_, (Zones, Lie)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All zones, for the control socket.
    pub fn describe(&self) -> Value {
        json!(self.lock().0.all())
    }

    /// Makes what is said about zones false from now on, or true.
    pub fn lie(&self, lie: Lie) {
        self.lock().1 = lie;
    }

    /// Breaks the zone number `index`, if there is one.
    pub fn break_down(&self, index: usize, state: State) -> Option<()> {
        self.lock().0.break_down(index, state)
    }

    /// Carries out a request that has to do with zones; [`None`] if it has not. Returns how many
    /// bytes of data were written to the guest's memory.
    pub(crate) fn perform(
        &self,
        device: &Device,
        counters: &Counters,
        memory: &GuestMemoryMmap,
        request: &Request,
    ) -> Option<Result<u64, Fault>> {
        let (zones, lie) = &mut *self.lock();
        let count = request.length() / SECTOR;
        let answer = match request.operation {
            Operation::Zone(_) if !device.is_asked_for_zones() => return None,
            Operation::Read => read(zones, device, counters, memory, request),
            Operation::Write => {
                let pass = zones.check_write(request.sector, count);
                pass.map_err(Fault::from).and_then(|()| {
                    write(device, counters, memory, request, request.sector)?;
                    zones.record(request.sector, count);
                    Ok(0)
                })
            }
            Operation::Zone(ZoneRequest::Append) => {
                let pass = zones.check_append(request.sector, count);
                pass.map_err(Fault::from).and_then(|place| {
                    write(device, counters, memory, request, place)?;
                    zones.record(place, count);
                    let told = if *lie == Lie::Append { u64::MAX } else { place };
                    memory
                        .write_obj(told.to_le(), request.append_sector())
                        .map_err(|_| Fault::Io)?;
                    Ok(size_of::<u64>() as u64)
                })
            }
            Operation::Zone(ZoneRequest::Report) => {
                let room = usize::try_from(request.length()).unwrap_or(usize::MAX);
                let report = zones.report(request.sector, room, *lie);
                let report = report.map_err(Fault::from);
                report.and_then(|report| Ok(tell(memory, &request.data, &report)?))
            }
            Operation::Zone(ZoneRequest::Act(action)) => {
                let done = zones.act(action, request.sector);
                done.map(|()| 0).map_err(Fault::from)
            }
            Operation::Zone(ZoneRequest::ResetAll) => {
                zones.reset_all();
                Ok(0)
            }
            _ => return None,
        };
        Some(answer)
    }
}

/// Reads what was written; where nothing was, there are zeroes.
fn read(
    zones: &Zones,
    device: &Device,
    counters: &Counters,
    memory: &GuestMemoryMmap,
    request: &Request,
) -> Result<u64, Fault> {
    let written = zones.check_read(request.sector, request.length() / SECTOR)?;
    let written = written.saturating_mul(SECTOR);
    transfer(device, memory, request, request.sector, |offset, slice| {
        device.storage().read(offset, slice)?;
        let known = usize::try_from(written.saturating_sub(offset)).unwrap_or(usize::MAX);
        clear_from(slice, known);
        Ok(())
    })?;
    counters.bytes_read.add(request.length());
    Ok(request.length())
}

/// Fills the rest of a piece of memory with zeroes.
fn clear_from(slice: &VolatileSlice<'_>, start: usize) {
    if let Ok(rest) = slice.offset(start.min(slice.len())) {
        rest.copy_from(&vec![0_u8; rest.len()]);
    }
}

/// Writes to `sector`, durably if there is no cache.
fn write(
    device: &Device,
    counters: &Counters,
    memory: &GuestMemoryMmap,
    request: &Request,
    sector: u64,
) -> Result<(), Fault> {
    transfer(device, memory, request, sector, |offset, slice| {
        device.write(offset, slice)
    })?;
    counters.bytes_written.add(request.length());
    if !device.has_write_cache() {
        device.flush()?;
    }
    Ok(())
}

impl Refusal {
    /// The status byte that says so.
    pub fn status(self) -> u32 {
        match self {
            Self::Invalid => VIRTIO_BLK_S_ZONE_INVALID_CMD,
            Self::Unaligned => VIRTIO_BLK_S_ZONE_UNALIGNED_WP,
            Self::OpenResource => VIRTIO_BLK_S_ZONE_OPEN_RESOURCE,
            Self::ActiveResource => VIRTIO_BLK_S_ZONE_ACTIVE_RESOURCE,
            Self::Unsupported => VIRTIO_BLK_S_UNSUPP,
        }
    }
}
