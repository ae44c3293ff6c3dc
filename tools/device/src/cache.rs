// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A write cache that forgets: what was written, and neither flushed nor written through, is lost
//! when the power fails. It fails on demand.

use crate::request::SECTOR;
use crate::storage::{Clear, Storage};
use std::collections::btree_map::{BTreeMap, Entry};
use std::io;
use std::ops::Range;
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
        remember(&mut before, storage, offset..end, through)?;
        storage.write(offset, memory)
    }

    /// Clears `place`, in the cache or through it.
    pub fn clear(
        &self,
        storage: &Storage,
        place: Range<u64>,
        how: Clear,
        through: bool,
    ) -> io::Result<()> {
        let mut before = self.lock();
        remember(&mut before, storage, place.clone(), through)?;
        storage.clear(place, how)
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

/// Remembers what a place holds, unless that is known already, or forgets it.
fn remember(
    before: &mut BTreeMap<u64, Sector>,
    storage: &Storage,
    place: Range<u64>,
    through: bool,
) -> io::Result<()> {
    for sector in place.start / SECTOR..place.end.div_ceil(SECTOR) {
        if through {
            before.remove(&sector);
        } else if let Entry::Vacant(entry) = before.entry(sector) {
            let mut bytes = [0; SECTOR as usize];
            storage.read(sector * SECTOR, &VolatileSlice::from(&mut bytes[..]))?;
            entry.insert(bytes);
        }
    }
    Ok(())
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
    fn what_was_cleared_and_not_flushed_comes_back() {
        let (cache, storage) = (Cache::default(), Storage::ram(8192).unwrap());
        write(&cache, &storage, 0, 1, true);
        cache.clear(&storage, 0..512, Clear::Unmap, false).unwrap();
        assert_eq!((read(&storage, 0), read(&storage, 512)), (0, 1));
        assert_eq!(cache.power_cut(&storage).unwrap(), 1);
        assert_eq!(read(&storage, 0), 1);
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
