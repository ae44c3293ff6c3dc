// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A worker with a ring, and a guest that is played by the test.

use clap::Parser;
use device::device::Device;
use device::options::Options;
use device::worker::{Memory, Worker};
use device::{Policy, Signal, Snapshot};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use vhost_user_backend::{VringMutex, VringT};
use virtio_bindings::virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};

const SIZE: u16 = 16;
const TABLE: u64 = 0x0;
const AVAIL: u64 = 0x1000;
const USED: u64 = 0x2000;
const BUFFERS: u64 = 0x8000;

/// A guest whose chains all read one sector: header, data, status.
struct Guest {
    device: Arc<Device>,
    memory: Memory,
    vring: VringMutex,
    worker: Worker,
    call: OwnedFd,
    offered: u16,
}

impl Guest {
    fn new(event_idx: bool, policy: Policy) -> Self {
        let line = ["vbr-device", "--socket", "s", "--backing", "null"];
        let device = Arc::new(Device::new(&Options::parse_from(line)).unwrap());
        device.set_policy(policy);
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x10000)]).unwrap();
        let memory = GuestMemoryAtomic::new(memory);
        let vring = VringMutex::new(memory.clone(), SIZE).unwrap();
        vring.set_queue_size(SIZE);
        vring.set_queue_info(TABLE, AVAIL, USED).unwrap();
        vring.set_queue_event_idx(event_idx);
        let call = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        vring.set_call(Some(File::from(call.try_clone().unwrap())));
        vring.set_enabled(true);
        vring.set_queue_ready(true);
        let worker = Worker::new(Arc::clone(&device), 0, memory.clone());
        Self {
            device,
            memory,
            vring,
            worker,
            call,
            offered: 0,
        }
    }

    fn store(&self, at: u64, value: u16) {
        let memory = self.memory.memory();
        memory
            .store(value, GuestAddress(at), Ordering::Release)
            .unwrap();
    }

    fn load(&self, at: u64) -> u16 {
        let memory = self.memory.memory();
        memory.load(GuestAddress(at), Ordering::Acquire).unwrap()
    }

    /// Begins with all indices at `start`.
    fn start_at(mut self, start: u16) -> Self {
        self.offered = start;
        self.store(AVAIL + 2, start);
        self.store(USED + 2, start);
        self.vring.set_queue_next_avail(start);
        self.vring.set_queue_next_used(start);
        self
    }

    /// Makes `count` more reads available; there is place for five.
    fn offer(&mut self, count: u16) {
        let memory = self.memory.memory();
        for _ in 0..count {
            let slot = self.offered % 5;
            let head = slot * 3;
            let buffer = BUFFERS + u64::from(slot) * 0x1000;
            let next = VRING_DESC_F_NEXT as u16;
            let write = VRING_DESC_F_WRITE as u16;
            for (n, descriptor) in [
                Descriptor::new(buffer, 16, next, head + 1),
                Descriptor::new(buffer + 0x100, 512, next | write, head + 2),
                Descriptor::new(buffer + 0x80, 1, write, 0),
            ]
            .into_iter()
            .enumerate()
            {
                let at = TABLE + 16 * (u64::from(head) + n as u64);
                memory.write_obj(descriptor, GuestAddress(at)).unwrap();
            }
            let place = AVAIL + 4 + 2 * u64::from(self.offered % SIZE);
            memory.write_obj(head, GuestAddress(place)).unwrap();
            self.offered = self.offered.wrapping_add(1);
        }
        self.store(AVAIL + 2, self.offered);
    }

    fn set_used_event(&self, index: u16) {
        self.store(AVAIL + 4 + 2 * u64::from(SIZE), index);
    }

    fn used(&self) -> u16 {
        self.load(USED + 2)
    }

    fn run(&mut self) -> Snapshot {
        self.worker.run(&self.vring);
        self.counts()
    }

    fn counts(&self) -> Snapshot {
        self.device.queues()[0].counters.snapshot()
    }

    /// Takes the signals that have come.
    fn signals(&self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(&self.call, &mut bytes) {
            Ok(_) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }
}

fn policy(signal: Signal) -> Policy {
    Policy {
        signal,
        ..Policy::default()
    }
}

#[test]
fn each_request_signals_unless_the_flag_is_set() {
    let mut guest = Guest::new(false, Policy::default());
    guest.offer(3);
    guest.run();
    assert_eq!((guest.used(), guest.signals()), (3, 3));
    guest.store(AVAIL, 1);
    guest.offer(2);
    let counts = guest.run();
    assert_eq!((guest.used(), guest.signals()), (5, 0));
    assert_eq!((counts.signals, counts.suppressed), (3, 2));
    assert_eq!((counts.reads, counts.bytes_read), (5, 5 * 512));
}

#[test]
fn an_event_index_asks_for_one_signal_across_the_wrap() {
    let mut guest = Guest::new(true, Policy::default()).start_at(0xfffd);
    // The first question after a start is answered with a signal, whatever the index is.
    guest.set_used_event(0x8000);
    guest.offer(1);
    guest.run();
    assert_eq!(guest.signals(), 1);
    guest.set_used_event(0);
    guest.offer(2);
    guest.run();
    assert_eq!((guest.used(), guest.signals()), (0, 0));
    guest.offer(3);
    let counts = guest.run();
    assert_eq!((guest.used(), guest.signals()), (3, 1));
    assert_eq!((counts.signals, counts.suppressed), (2, 4));
}

#[test]
fn a_batch_asks_once() {
    let mut guest = Guest::new(false, policy(Signal::Batch));
    guest.offer(5);
    let counts = guest.run();
    assert_eq!((guest.used(), guest.signals()), (5, 1));
    assert_eq!((counts.fetches, counts.largest_backlog), (1, 5));
}

#[test]
fn a_delayed_signal_comes_before_the_worker_rests() {
    let mut guest = Guest::new(false, policy(Signal::Delayed(30_000)));
    let started = Instant::now();
    for expected in 1..=3 {
        guest.offer(2);
        guest.run();
        assert_eq!(guest.signals(), 1, "in round {expected}");
    }
    assert!(started.elapsed() >= Duration::from_millis(60));
}

#[test]
fn the_worker_asks_for_kicks_when_it_rests() {
    let mut guest = Guest::new(true, Policy::default());
    guest.offer(4);
    guest.run();
    // The index of the next chain that is worth a kick lies behind the used ring.
    assert_eq!(guest.load(USED + 4 + 8 * u64::from(SIZE)), 4);
    let mut guest = Guest::new(false, Policy::default());
    guest.store(USED, 1);
    guest.run();
    assert_eq!(guest.load(USED), 0);
}

/// Runs the worker in a thread, calls `meanwhile` when it has fetched, and waits for it.
fn while_it_waits(mut guest: Guest, meanwhile: impl FnOnce(&Device)) -> (Guest, Duration) {
    let device = Arc::clone(&guest.device);
    let started = Instant::now();
    let thread = thread::spawn(move || {
        guest.run();
        guest
    });
    while device.queues()[0].counters.snapshot().fetches == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    meanwhile(&device);
    (thread.join().unwrap(), started.elapsed())
}

#[test]
fn a_stop_ends_what_is_on_its_way() {
    for (pace_us, latency_us) in [(0, 60_000_000), (60_000_000, 0)] {
        let mut guest = Guest::new(
            false,
            Policy {
                pace_us,
                latency_us,
                ..policy(Signal::Delayed(60_000_000))
            },
        );
        guest.offer(4);
        let (guest, took) = while_it_waits(guest, |device| device.queues()[0].stop(true));
        assert!(took < Duration::from_secs(30), "it took {took:?}");
        assert_eq!((guest.used(), guest.signals()), (4, 1));
    }
}

#[test]
fn a_new_policy_ends_a_wait() {
    let mut guest = Guest::new(
        false,
        Policy {
            latency_us: 60_000_000,
            ..Policy::default()
        },
    );
    guest.offer(4);
    let (guest, took) = while_it_waits(guest, |device| device.set_policy(Policy::default()));
    assert!(took < Duration::from_secs(30), "it took {took:?}");
    assert_eq!((guest.used(), guest.signals()), (4, 4));
}

#[test]
fn a_ring_without_sense_ends_what_came_before() {
    let mut guest = Guest::new(
        false,
        Policy {
            latency_us: 20_000,
            ..Policy::default()
        },
    );
    guest.offer(2);
    let memory = guest.memory.clone();
    let (mut guest, _) = while_it_waits(guest, |device| {
        // More than the ring can hold.
        let index = GuestAddress(AVAIL + 2);
        memory.memory().write_obj(1000_u16, index).unwrap();
        device.set_policy(device.policy());
    });
    assert_eq!(guest.used(), 2);
    let bad = guest.counts().bad_rings;
    assert!(bad > 0, "nobody has complained");
    // One look a kick, not an endless one.
    assert_eq!(guest.run().bad_rings, bad + 1);
}

#[test]
fn a_used_ring_outside_of_the_memory_is_given_up() {
    let mut guest = Guest::new(true, Policy::default());
    guest
        .vring
        .set_queue_info(TABLE, AVAIL, 0xffff_0000)
        .unwrap();
    guest.offer(2);
    let counts = guest.run();
    assert_eq!((counts.bad_rings, guest.signals()), (1, 0));
}

#[test]
fn a_queue_that_is_not_enabled_is_left_alone() {
    let mut guest = Guest::new(false, Policy::default());
    guest.vring.set_enabled(false);
    guest.offer(2);
    assert_eq!(guest.run().fetches, 0);
    guest.vring.set_enabled(true);
    assert_eq!(guest.run().reads, 2);
}
