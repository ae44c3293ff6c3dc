// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What all queues, the control socket and the connection to QEMU share.

use crate::cache::Cache;
use crate::config::{self, CONFIG_SIZE, WCE};
use crate::counters::Counters;
use crate::lifetime::Lifetime;
use crate::limits::Limits;
use crate::options::Options;
use crate::policy::Policy;
use crate::storage::{Clear, Storage};
use crate::wait::{Bell, Clock};
use crate::zoned::Zoned;
use anyhow::{bail, ensure, Context, Result};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;
use vhost_user_backend::{VringMutex, VringT};
use virtio_bindings::virtio_blk::VIRTIO_BLK_F_ZONED;
use vm_memory::VolatileSlice;

/// A disk.
#[derive(Debug)]
pub struct Device {
    storage: Storage,
    cache: Option<Cache>,
    serial: Option<String>,
    lifetime: Option<Lifetime>,
    zoned: Option<Zoned>,
    features: u64,
    space: [u8; CONFIG_SIZE],
    limits: Limits,
    accepted: AtomicU64,
    queue_size: u16,
    seed: u64,
    clock: Clock,
    write_cache: AtomicU8,
    policy: RwLock<Policy>,
    queues: Vec<Queue>,
    malformed: Mutex<Option<&'static str>>,
}

/// What others than its worker have to do with a queue.
pub struct Queue {
    /// What it has done.
    pub counters: Counters,
    /// Ends the worker's waiting.
    pub bell: Bell,
    stopping: AtomicBool,
    vring: Mutex<Option<VringMutex>>,
}

// The library's ring has none.
impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Queue")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Queue {
    fn new() -> Result<Self> {
        Ok(Self {
            counters: Counters::default(),
            bell: Bell::new().context("cannot create an event")?,
            stopping: AtomicBool::new(false),
            vring: Mutex::default(),
        })
    }

    /// Asks the worker to end at once what it has, or takes that back.
    pub fn stop(&self, stopping: bool) {
        self.stopping.store(stopping, Ordering::Release);
        self.bell.ring();
    }

    /// Whether the worker is to end at once what it has.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Notes the ring that the worker serves, as long as it does.
    pub fn serves(&self, vring: Option<&VringMutex>) {
        *self.lock_vring() = vring.cloned();
    }

    /// Signals `count` times, every `gap` at most, although nothing was used.
    pub fn signal_unasked(&self, count: u64, gap: Duration) -> Result<()> {
        let vring = self.lock_vring().clone();
        let vring = vring.context("the queue is not in use: wait until a driver has started it")?;
        for _ in 0..count {
            let sent = vring.signal_used_queue();
            sent.context("cannot signal")?;
            self.counters.unasked_signals.increment();
            thread::sleep(gap);
        }
        Ok(())
    }

    fn lock_vring(&self) -> MutexGuard<'_, Option<VringMutex>> {
        self.vring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// Makes a disk.
    pub fn new(options: &Options) -> Result<Self> {
        let storage = options.storage()?;
        let zones = options.zones.zones(storage.size(), options.block_size)?;
        let queues = (0..options.num_queues).map(|_| Queue::new());
        Ok(Self {
            cache: options.volatile_cache.then(Cache::default),
            serial: (!options.no_serial).then(|| options.serial.clone()),
            lifetime: options.lifetime,
            zoned: zones.map(|zones| Zoned::new(zones, options.zones.zone_lie)),
            features: config::features(options),
            space: config::space(options, storage.size()),
            limits: Limits::new(options),
            accepted: AtomicU64::new(0),
            queue_size: options.queue_size,
            seed: options.seed,
            clock: Clock::start(),
            write_cache: AtomicU8::new(options.write_cache),
            policy: RwLock::new(options.policy()?),
            queues: queues.collect::<Result<_>>()?,
            malformed: Mutex::default(),
            storage,
        })
    }

    /// What holds the content.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Writes the guest's `memory` to `offset`, where it lasts if there is no write cache.
    pub fn write(&self, offset: u64, memory: &VolatileSlice<'_>) -> io::Result<()> {
        match &self.cache {
            Some(cache) => {
                let through = !self.has_write_cache();
                cache.write(&self.storage, offset, memory, through)
            }
            None => self.storage.write(offset, memory),
        }
    }

    /// Clears `place`, which lasts if there is no write cache.
    pub fn clear(&self, place: Range<u64>, how: Clear) -> io::Result<()> {
        match &self.cache {
            Some(cache) => {
                let through = !self.has_write_cache();
                cache.clear(&self.storage, place, how, through)
            }
            None => self.storage.clear(place, how),
        }
    }

    /// Makes what was written last.
    pub fn flush(&self) -> io::Result<()> {
        if let Some(cache) = &self.cache {
            cache.flush();
        }
        self.storage.flush()
    }

    /// Forgets what is in the write cache only, and returns how many sectors that were.
    pub fn power_cut(&self) -> Result<usize> {
        let cache = self.cache.as_ref();
        let cache = cache.context("nothing is volatile: start the device with --volatile-cache")?;
        cache
            .power_cut(&self.storage)
            .context("cannot restore what was there before")
    }

    /// The serial number, if the disk knows what that is.
    pub fn serial(&self) -> Option<&str> {
        self.serial.as_deref()
    }

    /// How worn the disk is, if it tells that.
    pub fn lifetime(&self) -> Option<Lifetime> {
        self.lifetime
    }

    /// The zones, if the disk has any.
    pub fn zoned(&self) -> Option<&Zoned> {
        self.zoned.as_ref()
    }

    /// Whether the driver may ask for zones.
    pub fn is_asked_for_zones(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) & (1 << VIRTIO_BLK_F_ZONED) != 0
    }

    /// The features that are offered.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// Notes which features the driver has accepted.
    pub fn accept(&self, features: u64) {
        self.accepted.store(features, Ordering::Relaxed);
    }

    /// The largest request that the driver may make, and the operations that it may ask for.
    pub fn limits(&self) -> Limits {
        self.limits.known_to(self.accepted.load(Ordering::Relaxed))
    }

    /// Most descriptors of a queue.
    pub fn queue_size(&self) -> u16 {
        self.queue_size
    }

    /// Seed of the random order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The clock of all times.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// All queues.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The policy now.
    pub fn policy(&self) -> Policy {
        *self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the policy, for requests on their way too.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        for queue in &self.queues {
            queue.bell.ring();
        }
    }

    /// Whether writes may be lost until the next flush.
    pub fn has_write_cache(&self) -> bool {
        self.write_cache.load(Ordering::Relaxed) != 0
    }

    /// A part of the configuration space; nothing if it has no such part.
    pub fn read_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let mut space = self.space;
        space[WCE] = self.write_cache.load(Ordering::Relaxed);
        let part = || {
            let start = usize::try_from(offset).ok()?;
            let end = start.checked_add(usize::try_from(size).ok()?)?;
            space.get(start..end)
        };
        part().unwrap_or_default().to_vec()
    }

    /// Changes the configuration space, of which only the write-back switch can be written. What
    /// else a front end writes along with it has to be what is there.
    pub fn write_config(&self, offset: u32, bytes: &[u8]) -> Result<()> {
        let before = self.read_config(offset, u32::try_from(bytes.len())?);
        let at = WCE.checked_sub(offset as usize);
        let switch = at.and_then(|at| bytes.get(at).copied());
        let mut after = bytes.to_vec();
        if let (Some(at), true) = (at, switch.is_some() && before.len() == bytes.len()) {
            after[at] = before[at];
        }
        let (Some(switch), true) = (switch, after == before) else {
            bail!(
                "the driver wrote {} bytes at offset {offset} of the configuration space, of which \
                 only the byte {WCE} can be changed",
                bytes.len()
            );
        };
        ensure!(
            switch <= 1 || Some(switch) == at.map(|at| before[at]),
            "the driver set the write cache to {switch}, which is neither 0 nor 1"
        );
        self.write_cache.store(switch, Ordering::Relaxed);
        Ok(())
    }

    /// Remembers what was wrong with a chain.
    pub fn note_malformed(&self, reason: &'static str) {
        *self
            .malformed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// What was wrong with the last malformed chain.
    pub fn last_malformed(&self) -> Option<&'static str> {
        *self
            .malformed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn only_the_write_cache_can_be_configured() {
        let options = Options::parse_from(["vbr-device", "--socket", "s", "--backing", "null"]);
        let device = Device::new(&options).unwrap();
        assert!(device.has_write_cache());
        device.write_config(WCE as u32, &[0]).unwrap();
        assert!(!device.has_write_cache());
        assert_eq!(device.read_config(WCE as u32, 1), [0]);
        assert!(device.write_config(WCE as u32, &[2]).is_err());
        assert!(device.write_config(0, &[0; 8]).is_err());
        assert!(device.write_config(0, &[0; CONFIG_SIZE + 1]).is_err());
        assert!(device.write_config(u32::MAX, &[0]).is_err());
        // QEMU's device for tests writes all of it.
        let mut all = device.read_config(0, CONFIG_SIZE as u32);
        all[WCE] = 1;
        device.write_config(0, &all).unwrap();
        assert!(device.has_write_cache());
        all[0] ^= 1;
        assert!(device.write_config(0, &all).is_err());
    }

    #[test]
    fn there_is_nothing_behind_the_configuration_space() {
        let options = Options::parse_from(["vbr-device", "--socket", "s", "--backing", "null"]);
        let device = Device::new(&options).unwrap();
        assert_eq!(device.read_config(0, CONFIG_SIZE as u32).len(), CONFIG_SIZE);
        assert!(device.read_config(1, CONFIG_SIZE as u32).is_empty());
        assert!(device.read_config(u32::MAX, u32::MAX).is_empty());
    }
}
