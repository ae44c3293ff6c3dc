// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The programmable devices of a guest.

use crate::device::Device;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::machine::Vm;
use crate::run_dir::RunDir;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Programmable devices by the name of their disk.
#[derive(Debug, Default)]
pub struct Devices(Mutex<BTreeMap<String, Arc<Device>>>);

impl Devices {
    /// Starts the programmable device of a disk, if it is on one; again, if it was killed.
    pub fn start(&self, environment: &Environment, run_dir: &RunDir, disk: &Disk) -> Result<()> {
        let Some(config) = disk.device_config() else {
            return Ok(());
        };
        let log = run_dir.device_log(&disk.id);
        let killed = self.get(&disk.id);
        let killed = killed.as_deref();
        let device = Device::start(environment, config, disk.properties(), &log, killed)
            .with_context(|| format!("cannot make disk {}", disk.id))?;
        self.lock().insert(disk.id.clone(), Arc::new(device));
        Ok(())
    }

    /// The device of the disk called `id`.
    pub fn get(&self, id: &str) -> Option<Arc<Device>> {
        self.lock().get(id).cloned()
    }

    /// Lets go of the device of the disk called `id`.
    pub fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Device>>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Vm {
    /// The programmable device of the disk called `id`.
    pub fn device(&self, id: &str) -> Result<Arc<Device>> {
        let device = self.devices().get(id);
        device.with_context(|| format!("disk {id} is not on a programmable device"))
    }

    /// Starts the programmable device of the disk called `id` again, after it was killed.
    pub fn restart_device(&self, id: &str) -> Result<()> {
        let (disk, _) = self.find_disk(id)?;
        self.devices()
            .start(self.environment(), self.run_dir(), &disk)
    }
}
