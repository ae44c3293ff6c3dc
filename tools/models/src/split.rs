// SPDX-License-Identifier: GPL-2.0

//! A split virtqueue: the memory that driver and device share, and their halves.
//!
//! C header: include/uapi/linux/virtio_ring.h

use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{Device, Driver, Layout};
use std::rc::Rc;

mod device;
mod driver;

/// `VRING_AVAIL_F_NO_INTERRUPT`.
const NO_INTERRUPT: u16 = 1;

/// The two halves of a fresh split virtqueue.
pub fn new<M: Memory>(layout: Layout, fault: Option<Fault>) -> (Box<dyn Driver>, Box<dyn Device>) {
    let vring = Rc::new(Vring::<M>::new(layout));
    let driver = driver::Half::new(vring.clone(), fault);
    (Box::new(driver), Box::new(device::Half::new(vring, fault)))
}

/// The descriptor table, the available ring and the used ring.
///
/// A descriptor carries the number of its request; each request is one descriptor long.
struct Vring<M: Memory> {
    layout: Layout,
    desc: Vec<M::Slot>,
    avail: Vec<M::Slot>,
    used: Vec<M::Slot>,
    /// `avail->flags`: written by the driver, without EVENT_IDX.
    avail_flags: M::Word,
    /// `avail->idx`: written by the driver.
    avail_idx: M::Word,
    /// `used->idx`: written by the device.
    used_idx: M::Word,
    /// `used_event`, behind the available ring: written by the driver, with EVENT_IDX.
    used_event: M::Word,
}

impl<M: Memory> Vring<M> {
    /// Empty rings.
    fn new(layout: Layout) -> Self {
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
    fn layout(&self) -> Layout {
        self.layout
    }

    /// The descriptor with number `head`.
    fn desc(&self, head: u16) -> &M::Slot {
        &self.desc[usize::from(head)]
    }

    /// The entry of the available ring at index `idx`.
    fn avail(&self, idx: u16) -> &M::Slot {
        &self.avail[self.position(idx)]
    }

    /// The entry of the used ring at index `idx`.
    fn used(&self, idx: u16) -> &M::Slot {
        &self.used[self.position(idx)]
    }

    fn position(&self, idx: u16) -> usize {
        usize::from(idx & (self.layout.size - 1))
    }
}
