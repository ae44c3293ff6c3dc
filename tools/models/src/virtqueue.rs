// SPDX-License-Identifier: GPL-2.0

//! A virtqueue: the driver's half, on which the protocol runs, and the device's half, which share
//! rings of either format.

use crate::driver::completion::Ring;
use crate::fault::Fault;
use crate::memory::Memory;
use crate::{packed, split};

/// The number of a request, counted from 0.
pub type Request = u16;

/// The format of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A descriptor table, an available ring and a used ring.
    Split,
    /// One ring of descriptors that go to and fro (`VIRTIO_F_RING_PACKED`).
    Packed,
}

/// What the driver writes to used_event while callbacks are off: see `UsedEventHint` in
/// rust/virtio/virtqueue.rs. Other rings than split ones with EVENT_IDX have no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing of its own.
    Core,
    /// The index of the next buffer that it will offer.
    Avail,
    /// The index of the last used buffer that it took.
    Behind,
}

/// How a virtqueue is set up before driver and device start.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// Entries of each ring, a power of two.
    pub size: u16,
    /// The first value of all indices of a split ring: 0 for a fresh queue, others bring the wrap
    /// nearer. A packed ring wraps at its size anyway.
    pub start: u16,
    /// `VIRTIO_RING_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// `used_event_hint`.
    pub hint: Hint,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            format: Format::Split,
            size: 4,
            start: 0,
            event_idx: true,
            hint: Hint::Core,
        }
    }
}

/// Which signals the driver has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// None: callbacks are off.
    None,
    /// One for each completion.
    Every,
    /// One for the completion that comes so many after the next that the driver takes.
    At(u16),
    /// The same, but it may lie beyond what is in flight, and callbacks are off for the ring.
    Ahead(u16),
}

/// The driver's half; everything that the queue's lock guards.
pub trait Driver: Ring<Buf = Request> {
    /// Hands `request` to the device, without a kick; `false` if the ring is full.
    fn add(&mut self, request: Request) -> bool;

    /// The buffers that the driver has not got back yet.
    fn outstanding(&self) -> u16;

    /// What the driver has asked for.
    fn wish(&self) -> Wish;

    /// Whether the driver can ask for the completion of a certain number.
    fn can_count(&self) -> bool;

    /// The part of the queue that an interrupt looks at before it has the lock.
    fn interrupt(&self) -> Box<dyn Interrupt>;

    /// Whether the device will meet the driver's wish: what it asks for is in flight, or the next
    /// buffer if none is.
    fn callbacks_on(&self) -> bool {
        match self.wish() {
            Wish::None | Wish::Ahead(_) => false,
            Wish::Every => true,
            Wish::At(distance) => distance < self.outstanding().max(1),
        }
    }
}

/// What an interrupt does without the queue's lock.
pub trait Interrupt {
    /// Whether the interrupt is for this queue.
    /// C function: `vring_interrupt()`, up to the callback.
    fn arrives(&self) -> bool;
}

/// A request that the device has taken and not returned yet.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The identity of the buffer.
    pub id: u16,
    /// The request's number, as its descriptor says.
    pub request: Request,
}

/// The device's half.
pub trait Device {
    /// Takes the next available request.
    fn take(&mut self) -> Option<Taken>;

    /// Returns a request to the driver.
    fn complete(&mut self, taken: Taken);

    /// Whether what was completed since the last call is to be signalled.
    fn must_signal(&mut self) -> bool;
}

/// The two halves of a fresh virtqueue, whose callbacks are on.
pub fn new<M: Memory>(layout: Layout, fault: Option<Fault>) -> (Box<dyn Driver>, Box<dyn Device>) {
    match layout.format {
        Format::Split => split::new::<M>(layout, fault),
        Format::Packed => packed::new::<M>(layout, fault),
    }
}

/// Whether moving an index from `old` to `new` passes `event`. C function: `vring_need_event()`.
pub fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

impl Ring for Box<dyn Driver> {
    type Buf = Request;

    fn disable_cb(&mut self) {
        (**self).disable_cb();
    }

    fn enable_cb(&mut self) -> bool {
        (**self).enable_cb()
    }

    fn enable_cb_delayed(&mut self) -> bool {
        (**self).enable_cb_delayed()
    }

    fn enable_cb_ahead(&mut self, count: u16) -> bool {
        (**self).enable_cb_ahead(count)
    }

    fn get_buf(&mut self) -> Option<Request> {
        (**self).get_buf()
    }
}
