// SPDX-License-Identifier: GPL-2.0

//! A write cache that forgets: what was written, and neither flushed nor written through, is lost
//! when the power fails. It fails on demand.

use crate::request::SECTOR;
use crate::storage::Storage;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vm_memory::VolatileSlice;

type Sector = [u8; SECTOR as usize];

/// What sectors held before that what was written to them was in the cache only.
#[derive(Debug, Default)]
pub struct Cache(Mutex<BTreeMap<u64, Sector>>);

impl Cache {
    /// Writes the guest's `memory` to `offset`, into the cache or through it.
    pub fn write(
        &self,
        storage: &Storage,
        offset: u64,
        memory: &VolatileSlice<'_>,
        through: bool,
    ) -> io::Result<()> {
        let mut before = self.lock();
        let end = offset.saturating_add(memory.len() as u64);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            if through {
                before.remove(&sector);
            } else if !before.contains_key(&sector) {
                let mut bytes = [0; SECTOR as usize];
                storage.read(sector * SECTOR, &VolatileSlice::from(&mut bytes[..]))?;
                before.insert(sector, bytes);
            }
        }
        storage.write(offset, memory)
    }

    /// Makes what is in the cache last.
    pub fn flush(&self) {
        self.lock().clear();
    }

    /// Forgets what is in the cache, and returns how many sectors that were.
    pub fn power_cut(&self, storage: &Storage) -> io::Result<usize> {
        let before = std::mem::take(&mut *self.lock());
        let lost = before.len();
        for (sector, mut bytes) in before {
            storage.write(sector * SECTOR, &VolatileSlice::from(&mut bytes[..]))?;
        }
        Ok(lost)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Sector>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cache: &Cache, storage: &Storage, offset: u64, byte: u8, through: bool) {
        let mut bytes = [byte; 1024];
        let memory = VolatileSlice::from(&mut bytes[..]);
        cache.write(storage, offset, &memory, through).unwrap();
    }

    fn read(storage: &Storage, offset: u64) -> u8 {
        let mut byte = [0xaa];
        storage
            .read(offset, &VolatileSlice::from(&mut byte[..]))
            .unwrap();
        byte[0]
    }

    #[test]
    fn what_was_not_flushed_is_lost() {
        let (cache, storage) = (Cache::default(), Storage::ram(8192).unwrap());
        write(&cache, &storage, 0, 1, false);
        cache.flush();
        write(&cache, &storage, 512, 2, false);
        write(&cache, &storage, 512, 3, false);
        assert_eq!(read(&storage, 512), 3);
        assert_eq!(cache.power_cut(&storage).unwrap(), 2);
        assert_eq!((read(&storage, 0), read(&storage, 512)), (1, 1));
        assert_eq!(read(&storage, 1024), 0);
        assert_eq!(cache.power_cut(&storage).unwrap(), 0);
    }

    #[test]
    fn what_was_written_through_stays() {
        let (cache, storage) = (Cache::default(), Storage::ram(8192).unwrap());
        write(&cache, &storage, 0, 1, false);
        write(&cache, &storage, 512, 2, true);
        assert_eq!(cache.power_cut(&storage).unwrap(), 1);
        assert_eq!((read(&storage, 0), read(&storage, 512)), (0, 2));
    }
}
