// SPDX-License-Identifier: GPL-2.0

//! A packed virtqueue: the memory that driver and device share, and their halves.
//!
//! C header: include/uapi/linux/virtio_ring.h

use crate::fault::Fault;
use crate::memory::{Memory, Slot, Word};
use crate::virtqueue::{Device, Driver, Layout};
use std::rc::Rc;

mod device;
mod driver;
mod position;

/// `VRING_PACKED_DESC_F_AVAIL` and `VRING_PACKED_DESC_F_USED`, as bits.
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// `VRING_PACKED_EVENT_FLAG_*`.
const ENABLE: u16 = 0;
const DISABLE: u16 = 1;
const DESC: u16 = 2;

/// The two halves of a fresh packed virtqueue.
pub fn new<M: Memory>(layout: Layout, fault: Option<Fault>) -> (Box<dyn Driver>, Box<dyn Device>) {
    let vring = Rc::new(Vring::<M>::new(layout));
    let driver = driver::Half::new(vring.clone(), fault);
    (Box::new(driver), Box::new(device::Half::new(vring, fault)))
}

/// A descriptor, which driver and device write in turn. Each request is one descriptor long.
struct Desc<M: Memory> {
    /// The request's number, for an address.
    request: M::Slot,
    id: M::Slot,
    flags: M::Word,
}

/// The ring, and the driver's event suppression structure.
struct Vring<M: Memory> {
    layout: Layout,
    desc: Vec<Desc<M>>,
    /// `driver->off_wrap`.
    off_wrap: M::Word,
    /// `driver->flags`.
    event_flags: M::Word,
}

impl<M: Memory> Vring<M> {
    fn new(layout: Layout) -> Self {
        let desc = || Desc {
            request: M::Slot::new(),
            id: M::Slot::new(),
            flags: M::Word::new(0),
        };
        Self {
            layout,
            desc: (0..layout.size).map(|_| desc()).collect(),
            off_wrap: M::Word::new(0),
            event_flags: M::Word::new(ENABLE),
        }
    }
}
