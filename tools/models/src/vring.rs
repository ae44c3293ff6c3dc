// SPDX-License-Identifier: GPL-2.0

//! The memory of a split virtqueue, which driver and device share.
//!
//! C header: include/uapi/linux/virtio_ring.h

use crate::memory::{Memory, Slot, Word};

/// `VRING_AVAIL_F_NO_INTERRUPT`.
pub const NO_INTERRUPT: u16 = 1;

/// How a virtqueue is set up before driver and device start.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Entries of each ring, a power of two.
    pub size: u16,
    /// The first value of all indices: 0 for a fresh queue, others bring the wrap nearer.
    pub start: u16,
    /// `VIRTIO_RING_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
}

/// The descriptor table, the available ring and the used ring.
///
/// A descriptor carries the number of its request; each request is one descriptor long.
pub struct Vring<M: Memory> {
    layout: Layout,
    desc: Vec<M::Slot>,
    avail: Vec<M::Slot>,
    used: Vec<M::Slot>,
    /// `avail->flags`: written by the driver, without EVENT_IDX.
    pub avail_flags: M::Word,
    /// `avail->idx`: written by the driver.
    pub avail_idx: M::Word,
    /// `used->idx`: written by the device.
    pub used_idx: M::Word,
    /// `used_event`, behind the available ring: written by the driver, with EVENT_IDX.
    pub used_event: M::Word,
}

impl<M: Memory> Vring<M> {
    /// Empty rings.
    pub fn new(layout: Layout) -> Self {
        assert!(layout.size.is_power_of_two());
        let slots = || (0..layout.size).map(|_| M::Slot::new()).collect();
        Self {
            layout,
            desc: slots(),
            avail: slots(),
            used: slots(),
            avail_flags: M::Word::new(0),
            avail_idx: M::Word::new(layout.start),
            used_idx: M::Word::new(layout.start),
            used_event: M::Word::new(layout.start),
        }
    }

    /// How the queue is set up.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The descriptor with number `head`.
    pub fn desc(&self, head: u16) -> &M::Slot {
        &self.desc[usize::from(head)]
    }

    /// The entry of the available ring at index `idx`.
    pub fn avail(&self, idx: u16) -> &M::Slot {
        &self.avail[self.position(idx)]
    }

    /// The entry of the used ring at index `idx`.
    pub fn used(&self, idx: u16) -> &M::Slot {
        &self.used[self.position(idx)]
    }

    fn position(&self, idx: u16) -> usize {
        usize::from(idx & (self.layout.size - 1))
    }
}

/// Whether moving an index from `old` to `new` passes `event`. C function: `vring_need_event()`.
pub fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
