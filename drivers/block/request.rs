// SPDX-License-Identifier: GPL-2.0

//! The header, the ranges and the status of a request on the ring (virtio 1.2, section 5.2.6
//! "Device Operation").
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// The length of the header, `struct virtio_blk_outhdr`.
pub const HEADER: usize = 16;

/// The length of the longest trailer: that of an append, the sector at which its data went, and the
/// status byte. All others have the status alone.
pub const TRAILER: usize = 9;

/// The length of a range, `struct virtio_blk_discard_write_zeroes`.
pub const RANGE: usize = 16;

/// The flag of a range that is zeroed: the device may free what holds it
/// (`VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP`).
pub const UNMAP: u32 = 1;

/// What the device is asked to do (`VIRTIO_BLK_T_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Read.
    In = 0,
    /// Write.
    Out = 1,
    /// Make what was written durable.
    Flush = 4,
    /// Tell the serial number.
    GetId = 8,
    /// Tell how worn the device is.
    GetLifetime = 10,
    /// Forget ranges.
    Discard = 11,
    /// Write zeroes to ranges.
    WriteZeroes = 13,
    /// Forget ranges for good.
    SecureErase = 14,
    /// Write to a zone where its write pointer is, and tell where that was.
    ZoneAppend = 15,
    /// Tell what zones there are.
    ZoneReport = 16,
    /// Open a zone.
    ZoneOpen = 18,
    /// Close a zone.
    ZoneClose = 20,
    /// Make a zone full.
    ZoneFinish = 22,
    /// Make a zone empty.
    ZoneReset = 24,
    /// Make all zones empty.
    ZoneResetAll = 26,
}

/// The byte order of the device's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Little-endian: all modern devices.
    Little,
    /// The guest's own: legacy devices.
    Native,
}

/// Encodes the header of a request. `sector` counts sectors of 512 bytes whatever the block size;
/// it must be 0 for what is not about a place on the disk, or tells ranges.
#[inline]
pub fn encode(order: Order, kind: Kind, ioprio: u16, sector: u64) -> [u8; HEADER] {
    let (kind, ioprio) = (kind as u32, u32::from(ioprio));
    let (kind, ioprio, sector) = match order {
        Order::Little => (kind.to_le(), ioprio.to_le(), sector.to_le()),
        Order::Native => (kind, ioprio, sector),
    };
    let mut header = [0; HEADER];
    let (head, tail) = header.split_at_mut(8);
    let (first, second) = head.split_at_mut(4);
    first.copy_from_slice(&kind.to_ne_bytes());
    second.copy_from_slice(&ioprio.to_ne_bytes());
    tail.copy_from_slice(&sector.to_ne_bytes());
    header
}

/// Encodes a range of sectors of 512 bytes, whatever the block size. Every device takes ranges in
/// little-endian order. `flags` must be 0 but for what is zeroed, which may have [`UNMAP`].
pub fn encode_range(sector: u64, sectors: u32, flags: u32) -> [u8; RANGE] {
    let mut range = [0; RANGE];
    let (head, tail) = range.split_at_mut(8);
    let (first, second) = tail.split_at_mut(4);
    head.copy_from_slice(&sector.to_le_bytes());
    first.copy_from_slice(&sectors.to_le_bytes());
    second.copy_from_slice(&flags.to_le_bytes());
    range
}

/// What the status byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `VIRTIO_BLK_S_OK`.
    Ok,
    /// `VIRTIO_BLK_S_UNSUPP`.
    Unsupported,
    /// `VIRTIO_BLK_S_ZONE_OPEN_RESOURCE`.
    ZoneOpenResource,
    /// `VIRTIO_BLK_S_ZONE_ACTIVE_RESOURCE`.
    ZoneActiveResource,
    /// `VIRTIO_BLK_S_IOERR`, `VIRTIO_BLK_S_ZONE_INVALID_CMD` or `VIRTIO_BLK_S_ZONE_UNALIGNED_WP`,
    /// or anything that no device may write: the byte is preset to such a
    /// value, so a device that returns a request without a status fails it.
    Failed,
}

/// Decodes the status byte.
#[inline]
pub const fn decode(status: u8) -> Outcome {
    match status {
        0 => Outcome::Ok,
        2 => Outcome::Unsupported,
        5 => Outcome::ZoneOpenResource,
        6 => Outcome::ZoneActiveResource,
        _ => Outcome::Failed,
    }
}

/// Where the data of an append went, as a sector, out of its trailer. Only modern devices have
/// zones, so it is in little-endian order.
pub fn decode_appended(trailer: [u8; TRAILER]) -> u64 {
    let [sector @ .., _status] = trailer;
    u64::from_le_bytes(sector)
}
