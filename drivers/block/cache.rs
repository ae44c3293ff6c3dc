// SPDX-License-Identifier: GPL-2.0

//! The cache mode of a device whose mode can be configured (`VIRTIO_BLK_F_CONFIG_WCE`; virtio 1.2,
//! section 5.2.5 "Device Initialization").
//!
//! A write that ends while the mode changes may be durable or not (section 5.2.6.1 "Driver
//! Requirements"), and who calls fsync must not lose it. So flushes are sent before the device may
//! have a cache, and until all that could have come into it has been made durable.

use crate::{config, device::BlockDriver, values::CacheMode};
use blk_mq::Disk;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        new_mutex, Mutex,
    },
};
use virtio::Device;

/// The cache mode of a device.
#[pin_data]
pub(crate) struct Cache {
    /// Held while the mode changes, which waits for requests.
    #[pin]
    changing: Mutex<()>,
    /// What the device had after the last choice; [`UNCHOSEN`] if nobody has chosen.
    chosen: Atomic<u32>,
}

/// Nobody has chosen a cache mode: it is the device's own.
const UNCHOSEN: u32 = u32::MAX;

impl Cache {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            changing <- new_mutex!((), "virtio_blk_rs::cache"),
            chosen: Atomic::new(UNCHOSEN),
        })
    }

    /// Asks the device for a mode, and has flushes sent as the mode that it then has needs them.
    /// Process context; waits for what is in flight.
    ///
    /// # Errors
    ///
    /// What the transport or the flush reports; flushes go on being sent then.
    pub(crate) fn choose(&self, disk: &Disk<BlockDriver>, mode: CacheMode) -> Result {
        let device = disk.device().virtio();
        let _changing = self.changing.lock();
        disk.set_write_cache(true)?;
        config::set_cache_mode(device, mode)?;
        let found = config::cache_mode(device)?;
        self.chosen.store(found as u32, Relaxed);
        if found != mode {
            let found = found.name();
            dev_warn!(
                device.as_ref(),
                "the device keeps its cache mode, {found}\n"
            );
        }
        if found == CacheMode::WriteThrough {
            // Waits for the writes that were on their way meanwhile.
            disk.set_write_cache(true)?;
            if config::can_flush(device) {
                disk.flush()?;
            }
            disk.set_write_cache(false)?;
        }
        Ok(())
    }

    /// Asks a device that was reset, and has forgotten it, for the mode that was chosen. Process
    /// context. Takes no lock: whoever changes the mode may be waiting for this very device.
    ///
    /// # Errors
    ///
    /// `EIO` if the device has a cache now and had none, so that what was written would not be
    /// flushed; what the transport reports.
    pub(crate) fn restore(&self, device: &Device) -> Result {
        let chosen = self.chosen.load(Relaxed);
        let modes = [CacheMode::WriteThrough, CacheMode::WriteBack];
        let Some(mode) = modes.into_iter().find(|mode| *mode as u32 == chosen) else {
            return Ok(());
        };
        config::set_cache_mode(device, mode)?;
        if mode == CacheMode::WriteThrough && config::cache_mode(device)? != mode {
            dev_err!(
                device.as_ref(),
                "the device does not take up its cache mode, {}, again\n",
                mode.name()
            );
            return Err(EIO);
        }
        Ok(())
    }
}
