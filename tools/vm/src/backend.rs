// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What holds a disk's content.

use crate::device_config::DeviceConfig;
use anyhow::{Context, Result};
use rustix::fs::{memfd_create, MemfdFlags};
use serde_json::{json, Value};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What holds a disk's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Backend {
    /// Nothing: writes vanish, reads return what was in the buffer, or zeroes.
    Null {
        /// Size in bytes.
        size: u64,
        /// Whether reads return zeroes; that costs the host a memset a read.
        read_zeroes: bool,
    },
    /// The host's memory; it vanishes with the guest.
    Ram {
        /// Size in bytes.
        size: u64,
    },
    /// A raw file.
    File(PathBuf),
    /// Any block driver, as an argument of QEMU's blockdev-add without `node-name`.
    Blockdev(Value),
    /// A process of its own, the programmable device.
    Device(DeviceConfig),
}

impl Backend {
    /// A disk of `size` bytes that ends every request at once.
    pub fn null(size: u64) -> Self {
        Self::Null {
            size,
            read_zeroes: false,
        }
    }

    /// A disk of `size` bytes that remembers what is written.
    pub fn ram(size: u64) -> Self {
        Self::Ram { size }
    }

    /// A disk in the raw file `path`.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    /// The programmable device.
    pub fn device(config: DeviceConfig) -> Self {
        Self::Device(config)
    }

    /// The argument of blockdev-add without a name, if QEMU itself holds the content, with the
    /// descriptor that it refers to as `fdset`.
    pub(crate) fn blockdev(&self, fdset: usize) -> Result<Option<(Value, Option<OwnedFd>)>> {
        let mut memory = None;
        let blockdev = match self {
            Self::Null { size, read_zeroes } => {
                json!({"driver": "null-co", "size": size, "read-zeroes": read_zeroes})
            }
            Self::Ram { size } => {
                let file = memfd_create("disk", MemfdFlags::CLOEXEC)?;
                rustix::fs::ftruncate(&file, *size)
                    .with_context(|| format!("the host cannot give {size} bytes"))?;
                memory = Some(file);
                let filename = format!("/dev/fdset/{fdset}");
                json!({"driver": "file", "filename": filename, "discard": "unmap"})
            }
            Self::File(path) => json!({"driver": "file", "filename": path, "discard": "unmap"}),
            Self::Blockdev(blockdev) => blockdev.clone(),
            Self::Device(_) => return Ok(None),
        };
        Ok(Some((blockdev, memory)))
    }
}
