// SPDX-License-Identifier: GPL-2.0

//! Asks a zoned device about its zones.

use crate::{
    device::BlockDriver,
    request::{self, Kind, Order},
    zone_report::{self, Source, State, Stop},
    zones::{self, Limits},
};
use blk_mq::{Disk, Zone, ZoneCondition, ZoneReport};
use kernel::prelude::*;

/// The longest report that is asked for, in bytes: 2,047 zones.
const MAX_REPORT: usize = 128 << 10;

/// What the zones of a device can do, if it has any.
///
/// # Errors
///
/// What the device said that is unusable.
pub(crate) fn limits(
    config: Option<zones::Config>,
    block_size: u32,
) -> Result<Option<Limits>, zones::Error> {
    let limits = match config {
        Some(config) => Limits::new(&config, block_size)?,
        None => None,
    };
    if limits.is_some() && !cfg!(CONFIG_BLK_DEV_ZONED) {
        return Err(zones::Error::NotConfigured);
    }
    Ok(limits)
}

/// Reports of a disk's device.
struct Reports<'a> {
    disk: &'a Disk<BlockDriver>,
    report: KVVec<u8>,
}

impl Source for Reports<'_> {
    type Error = Error;

    fn report(&mut self, sector: u64) -> Result<&[u8]> {
        // What the device leaves out is not what it said before.
        self.report.fill(0);
        let header = request::encode(Order::Little, Kind::ZoneReport, 0, sector);
        self.disk.execute(header, &mut self.report)?;
        Ok(&self.report)
    }
}

/// Tells the block layer of up to `count` zones, from that of `sector` on. Process context; waits
/// for the device.
///
/// # Errors
///
/// `EOPNOTSUPP` if the disk has no zones; `EIO` for a report that makes no sense, which is logged;
/// `ENOMEM`; what the device or the block layer thinks of it.
pub(crate) fn report(
    disk: &Disk<BlockDriver>,
    sector: u64,
    count: u32,
    told: &mut ZoneReport<'_>,
) -> Result {
    let device = disk.device();
    let limits = device.zones().ok_or(EOPNOTSUPP)?;
    let capacity = disk.capacity();
    let most = MAX_REPORT.min(disk.max_bytes());
    let length = zone_report::length(limits, capacity, sector, count, most);
    let mut reports = Reports {
        disk,
        report: KVVec::from_elem(0, length, GFP_KERNEL)?,
    };
    let walked = zone_report::walk(limits, capacity, sector, count, &mut reports, |zone| {
        told.tell(Zone {
            start: zone.start,
            len: zone.len,
            capacity: zone.capacity,
            write_pointer: zone.write_pointer,
            condition: condition(zone.state),
        })
    });
    match walked {
        Ok(_) => Ok(()),
        Err(Stop::Other(err)) => Err(err),
        Err(Stop::Report(err)) => {
            dev_err!(device.as_ref(), "{err}\n");
            Err(EIO)
        }
    }
}

fn condition(state: State) -> ZoneCondition {
    match state {
        State::Conventional => ZoneCondition::NotWritePointer,
        State::Empty => ZoneCondition::Empty,
        State::ImplicitlyOpen => ZoneCondition::ImplicitlyOpen,
        State::ExplicitlyOpen => ZoneCondition::ExplicitlyOpen,
        State::Closed => ZoneCondition::Closed,
        State::ReadOnly => ZoneCondition::ReadOnly,
        State::Full => ZoneCondition::Full,
        State::Offline => ZoneCondition::Offline,
    }
}
