// SPDX-License-Identifier: GPL-2.0

//! The zones of a disk that is written sequentially, zone by zone.
//!
//! The block layer asks for zones when the disk is added, when user space does, and when it has
//! lost track of a write pointer. It keeps writes to a zone in order, one at a time.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)
//! (`disk_report_zone()`, `blk_revalidate_disk_zones()`)

use crate::{disk::Disk, operations::Operations};
use core::marker::PhantomData;
use kernel::{bindings, prelude::*};
#[cfg(CONFIG_BLK_DEV_ZONED)]
use kernel::{
    error::{from_result, to_result},
    ffi::{c_int, c_uint},
};

/// What a zoned disk can do.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZonedLimits {
    /// The size of a zone in sectors of 512 bytes, a power of two. The last one may be smaller.
    pub zone_sectors: u32,
    /// How many zones may be open at a time; 0: any number.
    pub max_open_zones: u32,
    /// How many zones may be open or closed at a time; 0: any number, else no less than may be
    /// open.
    pub max_active_zones: u32,
    /// The longest append in sectors; 0: the block layer makes do with writes.
    pub max_append_sectors: u32,
    /// What writes are a multiple of, in bytes: a power of two, at least the logical block.
    pub write_granularity: u32,
}

/// The state of a zone (`enum blk_zone_cond`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneCondition {
    /// It has no write pointer: it is a conventional zone (`BLK_ZONE_COND_NOT_WP`).
    NotWritePointer = bindings::blk_zone_cond_BLK_ZONE_COND_NOT_WP as u8,
    /// Nothing was written (`BLK_ZONE_COND_EMPTY`).
    Empty = bindings::blk_zone_cond_BLK_ZONE_COND_EMPTY as u8,
    /// A write has opened it (`BLK_ZONE_COND_IMP_OPEN`).
    ImplicitlyOpen = bindings::blk_zone_cond_BLK_ZONE_COND_IMP_OPEN as u8,
    /// It was opened (`BLK_ZONE_COND_EXP_OPEN`).
    ExplicitlyOpen = bindings::blk_zone_cond_BLK_ZONE_COND_EXP_OPEN as u8,
    /// Something was written, and it is not open (`BLK_ZONE_COND_CLOSED`).
    Closed = bindings::blk_zone_cond_BLK_ZONE_COND_CLOSED as u8,
    /// It can be read only (`BLK_ZONE_COND_READONLY`).
    ReadOnly = bindings::blk_zone_cond_BLK_ZONE_COND_READONLY as u8,
    /// No more can be written (`BLK_ZONE_COND_FULL`).
    Full = bindings::blk_zone_cond_BLK_ZONE_COND_FULL as u8,
    /// It cannot be used (`BLK_ZONE_COND_OFFLINE`).
    Offline = bindings::blk_zone_cond_BLK_ZONE_COND_OFFLINE as u8,
}

/// A zone (`struct blk_zone`). All numbers are sectors of 512 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    /// Its first sector.
    pub start: u64,
    /// How many sectors it has.
    pub len: u64,
    /// How many of them can be written.
    pub capacity: u64,
    /// Where the next write begins, in the conditions in which there can be one.
    pub write_pointer: u64,
    /// Its condition. A zone without a write pointer is conventional, any other one has to be
    /// written sequentially.
    pub condition: ZoneCondition,
}

impl Zone {
    fn to_raw(self) -> bindings::blk_zone {
        let kind = match self.condition {
            ZoneCondition::NotWritePointer => bindings::blk_zone_type_BLK_ZONE_TYPE_CONVENTIONAL,
            _ => bindings::blk_zone_type_BLK_ZONE_TYPE_SEQWRITE_REQ,
        };
        bindings::blk_zone {
            start: self.start,
            len: self.len,
            wp: self.write_pointer,
            type_: kind as u8,
            cond: self.condition as u8,
            capacity: self.capacity,
            ..pin_init::zeroed()
        }
    }
}

/// Takes the zones that the block layer has asked for.
///
/// # Invariants
///
/// `disk` is valid, and `args` is what came with the question.
#[cfg_attr(not(CONFIG_BLK_DEV_ZONED), allow(dead_code))]
pub struct ZoneReport<'a> {
    disk: *mut bindings::gendisk,
    args: *mut bindings::blk_report_zones_args,
    told: u32,
    _question: PhantomData<&'a mut bindings::blk_report_zones_args>,
}

impl ZoneReport<'_> {
    /// Tells of one more zone. They must come in order, without gaps. Process context. C function:
    /// `disk_report_zone()`.
    ///
    /// # Errors
    ///
    /// What whoever asks thinks of the zone; no more are wanted then. `EOPNOTSUPP` in a kernel
    /// without zones.
    pub fn tell(&mut self, zone: Zone) -> Result {
        self.hand_over(&mut zone.to_raw())?;
        self.told = self.told.saturating_add(1);
        Ok(())
    }

    #[cfg(CONFIG_BLK_DEV_ZONED)]
    fn hand_over(&mut self, zone: &mut bindings::blk_zone) -> Result {
        // SAFETY: Disk and arguments are valid by the type invariant.
        to_result(unsafe { bindings::disk_report_zone(self.disk, zone, self.told, self.args) })
    }

    #[cfg(not(CONFIG_BLK_DEV_ZONED))]
    fn hand_over(&mut self, _zone: &mut bindings::blk_zone) -> Result {
        Err(EOPNOTSUPP)
    }
}

/// Answers the question for zones with their number.
///
/// # Safety
///
/// For the block layer: `disk` is that of a `T`, and `args` for `disk_report_zone()`.
#[cfg(CONFIG_BLK_DEV_ZONED)]
pub(crate) unsafe extern "C" fn report_zones<T: Operations>(
    disk: *mut bindings::gendisk,
    sector: bindings::sector_t,
    count: c_uint,
    args: *mut bindings::blk_report_zones_args,
) -> c_int {
    // INVARIANT: By the requirement of this function.
    let mut report = ZoneReport {
        disk,
        args,
        told: 0,
        _question: PhantomData,
    };
    // SAFETY: As above.
    let disk = unsafe { Disk::<T>::from_raw(disk) };
    from_result(|| {
        T::report_zones(disk, sector, count, &mut report)?;
        Ok(c_int::try_from(report.told).unwrap_or(c_int::MAX))
    })
}

impl<T: Operations> Disk<T> {
    /// Has the block layer ask for all zones, and prepare for them. Process context. C function:
    /// `blk_revalidate_disk_zones()`.
    ///
    /// # Errors
    ///
    /// `ENODEV` for zones that it cannot serve; `ENOMEM`; what [`Operations::report_zones`] has
    /// returned; `EOPNOTSUPP` in a kernel without zones.
    #[cfg(CONFIG_BLK_DEV_ZONED)]
    pub(crate) fn revalidate_zones(&self) -> Result {
        // SAFETY: The disk is valid by the type invariant.
        to_result(unsafe { bindings::blk_revalidate_disk_zones(self.as_raw()) })
    }

    #[cfg(not(CONFIG_BLK_DEV_ZONED))]
    pub(crate) fn revalidate_zones(&self) -> Result {
        Err(EOPNOTSUPP)
    }

    /// The most bytes that a request can have whatever pages they lie in.
    pub fn max_bytes(&self) -> usize {
        // SAFETY: The disk is valid by the type invariant, and so is its queue. These limits do not
        // change.
        let limits = unsafe { &(*self.queue()).limits };
        usize::from(limits.max_segments).saturating_mul(bindings::PAGE_SIZE)
    }
}
