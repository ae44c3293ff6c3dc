// SPDX-License-Identifier: GPL-2.0

//! The geometry of a disk, for partitioning tools of the old days.
//!
//! C header: [`include/linux/hdreg.h`](srctree/include/linux/hdreg.h) (`struct hd_geometry`)

use crate::{disk::Disk, operations::Operations};
use bindings_ext as ext;
use kernel::{bindings, ffi::c_int};

/// Cylinders, heads and sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Cylinders of the disk, modulo 65536 as all over the kernel.
    pub cylinders: u16,
    /// Heads, that is tracks of a cylinder.
    pub heads: u8,
    /// Sectors of a track.
    pub sectors: u8,
}

impl Geometry {
    /// The usual one of a disk that has none: 64 heads, 32 sectors, and as many cylinders as that
    /// makes of `sectors` sectors of 512 bytes.
    pub const fn usual(sectors: u64) -> Self {
        Self {
            cylinders: (sectors / (64 * 32)) as u16,
            heads: 64,
            sectors: 32,
        }
    }
}

/// Answers `HDIO_GETGEO`. The block layer has filled in where a partition starts.
///
/// # Safety
///
/// For the block layer: `disk` is that of a `T`, and `geometry` valid for writes.
pub(crate) unsafe extern "C" fn getgeo<T: Operations>(
    disk: *mut bindings::gendisk,
    geometry: *mut bindings::hd_geometry,
) -> c_int {
    // SAFETY: By the requirement of this function.
    let found = T::geometry(unsafe { Disk::from_raw(disk) });
    // SAFETY: As above. The kernel crate knows the type by name only.
    let geometry = unsafe { &mut *geometry.cast::<ext::hd_geometry>() };
    geometry.cylinders = found.cylinders;
    geometry.heads = found.heads;
    geometry.sectors = found.sectors;
    0
}
