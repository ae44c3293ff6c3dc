// SPDX-License-Identifier: GPL-2.0

//! Free indices for disk names.
//!
//! The kernel's own driver counts its disks by itself, and both may be loaded: so an index is free
//! when no disk of this driver has it, and no device of the virtio bus has a disk of that name.

use crate::name::DiskName;
use kernel::{
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
};
use virtio::Device;

/// The indices of this driver's disks.
#[pin_data]
pub(crate) struct Indices {
    #[pin]
    used: Mutex<KVec<u32>>,
}

impl Indices {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                used <- new_mutex!(KVec::new(), "virtio_blk_rs::indices"),
            }),
            GFP_KERNEL,
        )
    }
}

/// A name as the kernel takes it.
pub(crate) fn c_str(name: &DiskName) -> Result<&CStr> {
    CStr::from_bytes_with_nul(name.as_bytes_with_nul()).map_err(|_| EINVAL)
}

/// An index that is taken until this is dropped.
pub(crate) struct Index {
    value: u32,
    indices: Arc<Indices>,
}

impl Index {
    /// Takes the lowest free index. Process context.
    pub(crate) fn take(indices: &Arc<Indices>, device: &Device) -> Result<Self> {
        let mut used = indices.used.lock();
        used.reserve(1, GFP_KERNEL)?;
        for value in 0..u32::MAX {
            if used.contains(&value) {
                continue;
            }
            let name = DiskName::new(value);
            if device.bus_has_child(c_str(&name)?) {
                continue;
            }
            used.push(value, GFP_KERNEL)?;
            return Ok(Self {
                value,
                indices: indices.clone(),
            });
        }
        Err(ENOSPC)
    }

    /// The index itself.
    pub(crate) fn value(&self) -> u32 {
        self.value
    }

    /// The name of the disk with this index.
    pub(crate) fn name(&self) -> DiskName {
        DiskName::new(self.value)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.indices
            .used
            .lock()
            .retain(|value| *value != self.value);
    }
}
