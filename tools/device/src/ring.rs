// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The used ring, and what the guest says about signals.
//!
//! The ring is written here and not by the library's queue, because the order of the accesses is
//! the point: element, index, full fence, and only then the guest's wish. Without the fence the
//! load may overtake the store, and a guest that asks for a signal and then looks at the index
//! for the last time would get neither.

use std::sync::atomic::{fence, Ordering};
use virtio_bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Error, Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Bytes in front of a ring's elements: flags and index.
const HEAD: u64 = 4;

/// Where the index lies in a ring.
const INDEX: u64 = 2;

/// Bytes of an element of the used ring: id and length.
const USED_ELEMENT: u64 = 8;

/// Bytes of an element of the available ring.
const AVAIL_ELEMENT: u64 = 2;

/// Gives a chain back to the guest, with the number of bytes that were written to it.
pub fn publish(
    memory: &GuestMemoryMmap,
    queue: &mut Queue,
    head: u16,
    length: u32,
) -> Result<(), Error> {
    let index = queue.next_used();
    let slot = u64::from(index % queue.size());
    let element = place(queue.used_ring(), HEAD + slot * USED_ELEMENT)?;
    let bytes = ((u64::from(length) << 32) | u64::from(head)).to_le();
    memory
        .write_obj(bytes, element)
        .map_err(Error::GuestMemory)?;
    let next = index.wrapping_add(1);
    queue.set_next_used(next);
    memory
        .store(
            next.to_le(),
            place(queue.used_ring(), INDEX)?,
            Ordering::Release,
        )
        .map_err(Error::GuestMemory)
}

/// Whether the guest wants to be told about the chains that were published since the used index
/// was `since`; [`None`] if it has not been asked before.
pub fn wants_signal(
    memory: &GuestMemoryMmap,
    queue: &Queue,
    since: Option<u16>,
) -> Result<bool, Error> {
    fence(Ordering::SeqCst);
    if queue.event_idx_enabled() {
        let Some(since) = since else { return Ok(true) };
        let behind = HEAD + u64::from(queue.size()) * AVAIL_ELEMENT;
        let event = load(memory, place(queue.avail_ring(), behind)?)?;
        Ok(need_event(event, queue.next_used(), since))
    } else {
        let flags = load(memory, place(queue.avail_ring(), 0)?)?;
        Ok(u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0)
    }
}

/// Whether an index that has moved from `old` to `new` has passed `event`.
pub fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

fn place(ring: u64, offset: u64) -> Result<GuestAddress, Error> {
    let address = ring.checked_add(offset);
    address.map(GuestAddress).ok_or(Error::AddressOverflow)
}

fn load(memory: &GuestMemoryMmap, address: GuestAddress) -> Result<u16, Error> {
    let value = memory.load::<u16>(address, Ordering::Relaxed);
    value.map(u16::from_le).map_err(Error::GuestMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAIL: u64 = 0x1000;
    const USED: u64 = 0x2000;

    fn queue(event_idx: bool, next_used: u16) -> Queue {
        let mut queue = Queue::new(8).unwrap();
        queue.set_avail_ring_address(Some(AVAIL as u32), None);
        queue.set_used_ring_address(Some(USED as u32), None);
        queue.set_event_idx(event_idx);
        queue.set_next_used(next_used);
        queue
    }

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap()
    }

    #[test]
    fn an_event_is_passed_across_the_wrap() {
        // Exactly the first chain behind the event counts.
        assert!(!need_event(10, 10, 9));
        assert!(need_event(10, 11, 10));
        assert!(!need_event(10, 12, 11));
        // Several at a time.
        assert!(need_event(10, 20, 5));
        assert!(!need_event(20, 20, 5));
        // Across the end of the numbers.
        assert!(need_event(0xffff, 0, 0xffff));
        assert!(!need_event(0xffff, 0xffff, 0xfffe));
        assert!(need_event(0xfffe, 3, 0xfff0));
        assert!(!need_event(5, 3, 0xfff0));
        assert!(need_event(2, 3, 0xfff0));
        // Nothing new.
        assert!(!need_event(7, 7, 7));
    }

    #[test]
    fn elements_go_round_and_the_index_wraps() {
        let memory = memory();
        let mut queue = queue(true, 0xffff);
        publish(&memory, &mut queue, 3, 4097).unwrap();
        publish(&memory, &mut queue, 5, 1).unwrap();
        let element = |slot: u64| -> (u32, u32) {
            let at = USED + HEAD + slot * USED_ELEMENT;
            let read = |at| memory.read_obj::<u32>(GuestAddress(at)).unwrap();
            (read(at), read(at + 4))
        };
        assert_eq!((element(7), element(0)), ((3, 4097), (5, 1)));
        let index: u16 = memory.read_obj(GuestAddress(USED + INDEX)).unwrap();
        assert_eq!((index, queue.next_used()), (1, 1));
    }

    #[test]
    fn the_event_index_lies_behind_the_available_ring() {
        let memory = memory();
        let queue = queue(true, 4);
        let event = GuestAddress(AVAIL + HEAD + 8 * AVAIL_ELEMENT);
        for (value, right) in [(3_u16, true), (2, false), (4, false)] {
            memory.write_obj(value, event).unwrap();
            let wanted = wants_signal(&memory, &queue, Some(3)).unwrap();
            assert_eq!(wanted, right, "event {value}");
        }
        assert!(wants_signal(&memory, &queue, None).unwrap());
    }

    #[test]
    fn without_event_indices_the_flag_decides() {
        let memory = memory();
        let queue = queue(false, 4);
        for (flags, right) in [(0_u16, true), (1, false), (2, true)] {
            memory.write_obj(flags, GuestAddress(AVAIL)).unwrap();
            assert_eq!(wants_signal(&memory, &queue, None).unwrap(), right);
        }
    }
}
