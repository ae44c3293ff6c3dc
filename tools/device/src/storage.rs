// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What holds the disk's content.

use anyhow::{Context, Result};
use rustix::fs::{fallocate, FallocateFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use vm_memory::{MmapRegion, VolatileMemory, VolatileSlice};

/// Largest piece that is copied between a file and the guest at a time.
const PIECE: usize = 1 << 20;

/// What holds the disk's content. All queues use it at the same time, as they may with a disk.
#[derive(Debug)]
pub struct Storage {
    kind: Kind,
    size: u64,
}

#[derive(Debug)]
enum Kind {
    Null,
    Ram(MmapRegion),
    File(File),
}

/// What becomes of a place that is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// The host gets back what held it.
    Unmap,
    /// It may be kept.
    Zero,
    /// Zeroes are written over what was there.
    Overwrite,
}

impl Storage {
    /// Writes vanish, reads leave the guest's buffer as it was.
    pub fn null(size: u64) -> Self {
        let kind = Kind::Null;
        Self { kind, size }
    }

    /// The device's own memory, at first zeroes.
    pub fn ram(size: u64) -> Result<Self> {
        let length = usize::try_from(size).context("the size is too large for this machine")?;
        let region = MmapRegion::new(length)
            .with_context(|| format!("the host cannot give {size} bytes of memory"))?;
        let kind = Kind::Ram(region);
        Ok(Self { kind, size })
    }

    /// The first `size` bytes of a file, or all of it. A file that is shorter grows.
    pub fn file(path: &Path, size: Option<u64>) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.with_context(|| {
            format!(
                "cannot open the file {}. Create it first, or choose ram or null.",
                path.display()
            )
        })?;
        let length = file.metadata()?.len();
        let size = size.unwrap_or(length);
        if size > length {
            file.set_len(size)
                .with_context(|| format!("cannot make {} {size} bytes long", path.display()))?;
        }
        let kind = Kind::File(file);
        Ok(Self { kind, size })
    }

    /// The disk's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads from `offset` to the guest's `memory`.
    pub fn read(&self, offset: u64, memory: &VolatileSlice<'_>) -> io::Result<()> {
        match &self.kind {
            Kind::Null => {}
            Kind::Ram(region) => {
                slice(region, offset, memory.len())?.copy_to_volatile_slice(*memory);
            }
            Kind::File(file) => in_pieces(memory, |at, piece, buffer| {
                file.read_exact_at(buffer, offset + at)?;
                piece.copy_from(buffer);
                Ok(())
            })?,
        }
        Ok(())
    }

    /// Writes the guest's `memory` to `offset`.
    pub fn write(&self, offset: u64, memory: &VolatileSlice<'_>) -> io::Result<()> {
        match &self.kind {
            Kind::Null => {}
            Kind::Ram(region) => {
                memory.copy_to_volatile_slice(slice(region, offset, memory.len())?);
            }
            Kind::File(file) => in_pieces(memory, |at, piece, buffer| {
                piece.copy_to(buffer);
                file.write_all_at(buffer, offset + at)
            })?,
        }
        Ok(())
    }

    /// Clears `place`, which is zeroes after that.
    pub fn clear(&self, place: Range<u64>, how: Clear) -> io::Result<()> {
        let (offset, length) = (place.start, place.end - place.start);
        match &self.kind {
            Kind::Null => Ok(()),
            Kind::Ram(region) => {
                let length = usize::try_from(length).map_err(io::Error::other)?;
                let memory = slice(region, offset, length)?;
                in_pieces(&memory, |_, piece, zeroes| {
                    piece.copy_from(zeroes);
                    Ok(())
                })
            }
            Kind::File(file) => {
                let flag = match how {
                    Clear::Unmap => FallocateFlags::PUNCH_HOLE,
                    Clear::Zero => FallocateFlags::ZERO_RANGE,
                    Clear::Overwrite => return overwrite(file, place),
                };
                match fallocate(file, flag | FallocateFlags::KEEP_SIZE, offset, length) {
                    Err(Errno::OPNOTSUPP) => overwrite(file, place),
                    other => Ok(other?),
                }
            }
        }
    }

    /// Makes what was written last.
    pub fn flush(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Null | Kind::Ram(_) => Ok(()),
            Kind::File(file) => file.sync_data(),
        }
    }
}

/// Writes zeroes to a file.
fn overwrite(file: &File, place: Range<u64>) -> io::Result<()> {
    let zeroes = vec![0; PIECE];
    let mut offset = place.start;
    while offset < place.end {
        let length = (place.end - offset).min(PIECE as u64);
        file.write_all_at(&zeroes[..length as usize], offset)?;
        offset += length;
    }
    Ok(())
}

fn slice(region: &MmapRegion, offset: u64, length: usize) -> io::Result<VolatileSlice<'_>> {
    let offset = usize::try_from(offset).map_err(io::Error::other)?;
    region.get_slice(offset, length).map_err(io::Error::other)
}

/// Calls `transfer` for each piece of `memory` with its offset and a buffer of its length.
fn in_pieces(
    memory: &VolatileSlice<'_>,
    mut transfer: impl FnMut(u64, VolatileSlice<'_>, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; memory.len().min(PIECE)];
    let mut at = 0;
    while at < memory.len() {
        let length = (memory.len() - at).min(PIECE);
        let piece = memory.subslice(at, length).map_err(io::Error::other)?;
        transfer(at as u64, piece, &mut buffer[..length])?;
        at += length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn write(storage: &Storage, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        storage.write(offset, &VolatileSlice::from(&mut bytes[..]))
    }

    fn read(storage: &Storage, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0xaa; length];
        storage.read(offset, &VolatileSlice::from(&mut bytes[..]))?;
        Ok(bytes)
    }

    #[test]
    fn memory_and_files_remember() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 512]).unwrap();
        let in_file = Storage::file(file.path(), Some(4 << 20)).unwrap();
        assert_eq!(read(&in_file, 511, 2).unwrap(), [7, 0]);
        for storage in [Storage::ram(4 << 20).unwrap(), in_file] {
            assert_eq!(storage.size(), 4 << 20);
            let bytes: Vec<u8> = (0..PIECE + 1000).map(|n| (n % 251) as u8).collect();
            write(&storage, 1536, &bytes).unwrap();
            storage.flush().unwrap();
            assert_eq!(read(&storage, 1536, bytes.len()).unwrap(), bytes);
            assert_eq!(read(&storage, 1535, 1).unwrap(), [0]);
        }
        assert_eq!(file.as_file().metadata().unwrap().len(), 4 << 20);
    }

    #[test]
    fn what_is_cleared_reads_as_zeroes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let in_file = Storage::file(file.path(), Some(8 << 20)).unwrap();
        for storage in [Storage::ram(8 << 20).unwrap(), in_file] {
            for how in [Clear::Unmap, Clear::Zero, Clear::Overwrite] {
                write(&storage, 0, &vec![7; 4 << 20]).unwrap();
                storage.clear(512..(3 << 20), how).unwrap();
                assert_eq!(read(&storage, 511, 2).unwrap(), [7, 0], "{how:?}");
                assert_eq!(read(&storage, (3 << 20) - 1, 2).unwrap(), [0, 7], "{how:?}");
                let all = read(&storage, 512, (3 << 20) - 512).unwrap();
                assert!(all.iter().all(|byte| *byte == 0), "{how:?}");
            }
        }
        assert_eq!(file.as_file().metadata().unwrap().len(), 8 << 20);
    }

    #[test]
    fn nothing_lies_behind_the_end() {
        let storage = Storage::ram(8192).unwrap();
        assert!(write(&storage, 8192 - 511, &[1; 512]).is_err());
        assert!(read(&storage, u64::MAX, 1).is_err());
    }

    #[test]
    fn null_leaves_the_buffer_as_it_was() {
        let storage = Storage::null(4096);
        write(&storage, 0, &[1; 8]).unwrap();
        assert_eq!(read(&storage, 0, 8).unwrap(), [0xaa; 8]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Storage::file(Path::new("/nowhere/disk"), None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/disk"), "{error}");
    }
}
