// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The log that QEMU's blklogwrites writes, in the format of the kernel's dm-log-writes.

use anyhow::{ensure, Context, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// "jsfwsh": the head of a log.
const MAGIC: u64 = 0x006a_7366_7773_6872;

/// What an entry is.
const FLUSH: u64 = 1 << 0;
const DISCARD: u64 = 1 << 2;

/// All that has reached a device, in that order.
pub struct Log {
    pub entries: Vec<Entry>,
}

/// A write, a flush, or both: then the flush comes first.
pub struct Entry {
    flags: u64,
    /// Where the data was written, in bytes.
    pub offset: usize,
    pub data: Vec<u8>,
}

impl Entry {
    pub fn is_flush(&self) -> bool {
        self.flags & FLUSH != 0
    }
}

impl Log {
    /// Reads a log that is complete.
    pub fn read(file: &File) -> Result<Self> {
        let numbers = |offset: u64| -> Result<[u64; 4]> {
            let mut bytes = [0; 32];
            file.read_exact_at(&mut bytes, offset)
                .with_context(|| format!("the log has no entry at {offset}"))?;
            let mut numbers = [0; 4];
            for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
                *number = u64::from_le_bytes(bytes.try_into()?);
            }
            Ok(numbers)
        };
        let [magic, version, count, rest] = numbers(0)?;
        let sector = rest & u64::from(u32::MAX);
        ensure!(
            magic == MAGIC && version == 1 && sector.is_power_of_two(),
            "this is no log: magic {magic:#x}, version {version}, sectors of {sector} bytes"
        );
        let mut entries = Vec::new();
        let mut position = sector;
        for _ in 0..count {
            let [start, length, flags, _] = numbers(position)?;
            position += sector;
            let length = if flags & DISCARD == 0 {
                length * sector
            } else {
                0
            };
            let mut data = vec![0; usize::try_from(length)?];
            file.read_exact_at(&mut data, position)
                .with_context(|| format!("the log ends at {position} in the middle of a write"))?;
            position += length;
            entries.push(Entry {
                flags,
                offset: usize::try_from(start * sector)?,
                data,
            });
        }
        Ok(Self { entries })
    }

    /// How often the device was flushed.
    pub fn flushes(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_flush()).count()
    }
}
