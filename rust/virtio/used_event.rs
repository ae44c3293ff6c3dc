// SPDX-License-Identifier: GPL-2.0

//! The field of a split ring by which the driver says at which used buffer it wants a signal.
//!
//! The virtio core only ever asks for the next buffer, or for one at three quarters of what is in
//! flight. This asks for any other.
//!
//! C header: [`include/uapi/linux/virtio_ring.h`](srctree/include/uapi/linux/virtio_ring.h)
//! (`vring_used_event()`; virtio 1.2, section 2.7.7 "Used Buffer Notification Suppression")

use crate::{device::Device, feature::transport, virtqueue::UsedEventHint};
use bindings_ext as bindings;
use core::ptr::NonNull;

/// The field `used_event` of a ring.
///
/// # Invariants
///
/// The pointers are valid, and those of a split ring with `VIRTIO_RING_F_EVENT_IDX`.
pub(crate) struct UsedEvent {
    event: NonNull<u16>,
    avail: NonNull<u16>,
    used: NonNull<u16>,
    little_endian: bool,
    /// The number of buffers that the driver has taken, as the core's `last_used_idx`.
    taken: u16,
}

// SAFETY: The pointers stand for memory that is shared with the device anyway.
unsafe impl Send for UsedEvent {}

impl UsedEvent {
    /// The field of the unused virtqueue `vq` of `device`; [`None`] if it has none.
    ///
    /// # Safety
    ///
    /// `vq` must be valid, and outlive the value.
    pub(crate) unsafe fn new(device: &Device, vq: NonNull<bindings::virtqueue>) -> Option<Self> {
        if !device.has_transport(transport::EVENT_IDX)
            || device.has_transport(transport::RING_PACKED)
        {
            return None;
        }
        // SAFETY: `vq` is valid by the requirement of this function, and its ring is split. The
        // ring's memory lies behind `struct vring`: `num` entries of the available ring, and the
        // field behind them.
        unsafe {
            let vring = &*bindings::virtqueue_get_vring(vq.as_ptr());
            let ring = (&raw mut (*vring.avail).ring).cast::<u16>();
            // INVARIANT: As above.
            Some(Self {
                event: NonNull::new(ring.add(vring.num as usize))?,
                avail: NonNull::new(&raw mut (*vring.avail).idx)?,
                used: NonNull::new(&raw mut (*vring.used).idx)?,
                little_endian: device.is_little_endian(),
                taken: 0,
            })
        }
    }

    /// Counts a buffer that was taken.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// Asks for a signal at the buffer number `count` from now; `false` if as many are there.
    #[inline]
    pub(crate) fn arm(&self, count: u16) -> bool {
        let ahead = count.max(1).wrapping_sub(1);
        self.write(self.taken.wrapping_add(ahead));
        // The device stores its index and then loads the field: one of the two sees the other.
        // SAFETY: The barrier has no requirements.
        unsafe { bindings::ext_mb() };
        self.read(self.used).wrapping_sub(self.taken) <= ahead
    }

    /// Rewrites the field while no signal is wanted.
    #[inline]
    pub(crate) fn hint(&self, hint: UsedEventHint) {
        self.write(match hint {
            UsedEventHint::Avail => self.read(self.avail),
            UsedEventHint::Behind => self.taken.wrapping_sub(1),
        });
    }

    #[inline]
    fn read(&self, field: NonNull<u16>) -> u16 {
        // SAFETY: The pointer is valid by the type invariant; the device may write meanwhile.
        self.convert(unsafe { field.as_ptr().read_volatile() })
    }

    #[inline]
    fn write(&self, value: u16) {
        // SAFETY: The pointer is valid by the type invariant; the device may read meanwhile.
        unsafe { self.event.as_ptr().write_volatile(self.convert(value)) };
    }

    /// Between the device's byte order and ours, either way.
    #[inline]
    fn convert(&self, value: u16) -> u16 {
        if self.little_endian {
            value.to_le()
        } else {
            value
        }
    }
}
