// SPDX-License-Identifier: GPL-2.0

//! The header and the status of a request on the ring (virtio 1.2, section 5.2.6 "Device
//! Operation").
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// The length of the header, `struct virtio_blk_outhdr`.
pub const HEADER: usize = 16;

/// The length of the trailer: the status byte.
pub const TRAILER: usize = 1;

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
/// it must be 0 for a flush.
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

/// What the status byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `VIRTIO_BLK_S_OK`.
    Ok,
    /// `VIRTIO_BLK_S_UNSUPP`.
    Unsupported,
    /// `VIRTIO_BLK_S_IOERR`, or anything that no device may write: the byte is preset to such a
    /// value, so a device that returns a request without a status fails it.
    Failed,
}

/// Decodes the status byte.
#[inline]
pub const fn decode(trailer: [u8; TRAILER]) -> Outcome {
    match trailer {
        [0] => Outcome::Ok,
        [2] => Outcome::Unsupported,
        [_] => Outcome::Failed,
    }
}
