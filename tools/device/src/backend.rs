// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the vhost-user library asks of a device.

use crate::device::Device;
use crate::worker::{Memory, Worker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringMutex};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier,
};

/// A device as it is seen through one connection to QEMU.
#[derive(Debug)]
pub struct Backend {
    device: Arc<Device>,
    workers: Vec<Mutex<Worker>>,
    exits: Mutex<Vec<EventNotifier>>,
}

impl Backend {
    /// A backend that finds the guest's memory in `memory`.
    pub fn new(device: Arc<Device>, memory: &Memory) -> Self {
        let workers = (0..device.queues().len())
            .map(|index| Mutex::new(Worker::new(Arc::clone(&device), index, memory.clone())));
        Self {
            workers: workers.collect(),
            exits: Mutex::default(),
            device,
        }
    }

    /// Ends what is on its way, and the threads.
    pub fn shut_down(&self) {
        for index in 0..self.workers.len() {
            self.stop(index);
        }
        let exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        for exit in exits.iter() {
            // A thread that cannot be told stays until the program ends.
            let _ = exit.notify();
        }
    }

    fn worker(&self, index: usize) -> MutexGuard<'_, Worker> {
        self.workers[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a worker end what it has, and waits for that.
    fn stop(&self, index: usize) {
        let queue = &self.device.queues()[index];
        queue.stop(true);
        let mut worker = self.worker(index);
        worker.reset();
        queue.stop(false);
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        self.workers.len()
    }

    fn max_queue_size(&self) -> usize {
        self.device.queue_size().into()
    }

    fn features(&self) -> u64 {
        self.device.features() | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&self, features: u64) {
        self.device.accept(features);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
    }

    // The queues know it themselves.
    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        self.device.read_config(offset, size)
    }

    fn set_config(&self, offset: u32, bytes: &[u8]) -> io::Result<()> {
        self.device
            .write_config(offset, bytes)
            .map_err(io::Error::other)
    }

    // The workers share it with the library.
    fn update_memory(&self, _memory: Memory) -> io::Result<()> {
        Ok(())
    }

    /// A thread for each queue.
    fn queues_per_thread(&self) -> Vec<u64> {
        (0..self.workers.len()).map(|index| 1 << index).collect()
    }

    fn exit_event(&self, _thread_index: usize) -> Option<(EventConsumer, EventNotifier)> {
        let (consumer, notifier) = new_event_consumer_and_notifier(EventFlag::CLOEXEC).ok()?;
        let mut exits = self.exits.lock().unwrap_or_else(PoisonError::into_inner);
        exits.push(notifier.try_clone().ok()?);
        Some((consumer, notifier))
    }

    fn stop_vring(&self, queue_index: u32) -> io::Result<()> {
        self.stop(queue_index as usize);
        Ok(())
    }

    fn handle_event(
        &self,
        _event: u16,
        _events: EventSet,
        vrings: &[VringMutex],
        thread: usize,
    ) -> io::Result<()> {
        // A thread has one queue, of its own number. An error here would end the thread.
        if let Some(vring) = vrings.first() {
            self.worker(thread).run(vring);
        }
        Ok(())
    }
}
