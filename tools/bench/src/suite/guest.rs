// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The guest of a scenario: both drivers, and disks that they take turns on.

use crate::meter::{Meter, Sample};
use crate::suite::catalogue::{Catalogue, Scenario, Setting};
use crate::suite::job::{Job, Pace};
use crate::suite::results::{DiskRecord, SettingRecord};
use anyhow::{bail, Context, Result};
use measuring::drivers;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use vm::{Accel, Driver, Vm};

/// How much longer than its run time a job may take on a busy machine.
const GRACE: Duration = Duration::from_secs(120);

/// A booted guest with the drivers loaded.
pub struct Guest<'a> {
    vm: Vm,
    disks: Vec<DiskRecord>,
    settings: Vec<&'a Setting>,
    bound: Option<Bound>,
}

/// The disk that has a driver now.
struct Bound {
    disk: usize,
    setting: usize,
    name: String,
    meter: Meter,
}

impl<'a> Guest<'a> {
    /// Boots the guest of `scenario` and loads the drivers that its settings need.
    pub fn boot(catalogue: &'a Catalogue, scenario: &Scenario, accel: Accel) -> Result<Self> {
        let mut builder = Vm::builder().vcpus(scenario.vcpus).accel(accel);
        let mut disks = Vec::new();
        for (name, device) in scenario.disks() {
            let disk = device.disk(&name)?;
            disks.push(DiskRecord {
                name,
                paced: device.is_paced(),
                properties: disk.properties().clone(),
                features: BTreeMap::new(),
            });
            builder = builder.disk(disk);
        }
        let vm = builder.boot()?;
        let settings = scenario.settings.iter().map(|name| catalogue.setting(name));
        let settings = settings.collect::<Result<Vec<_>>>()?;
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        // Ours in any case: the record names its build.
        let used = settings.iter().map(|setting| setting.driver);
        for driver in BTreeSet::from_iter(used.chain([Driver::Rust])) {
            drivers::load(&vm, driver, &names)?;
        }
        Ok(Self {
            vm,
            disks,
            settings,
            bound: None,
        })
    }

    /// The machine itself.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The disks, with the features that were agreed on so far.
    pub fn disks(&self) -> &[DiskRecord] {
        &self.disks
    }

    /// The settings for the record.
    pub fn settings(&self) -> Vec<SettingRecord> {
        let settings = self.settings.iter().copied();
        settings.map(SettingRecord::of).collect()
    }

    /// Gives the disk number `disk` to the driver of the setting number `setting`. Returns the
    /// name of the block device.
    pub fn select(&mut self, disk: usize, setting: usize) -> Result<String> {
        match &self.bound {
            Some(bound) if (bound.disk, bound.setting) == (disk, setting) => {
                return Ok(bound.name.clone());
            }
            Some(bound) if bound.disk != disk => {
                drivers::unbind(&self.vm, &self.disks[bound.disk].name)?;
            }
            _ => {}
        }
        self.bound = None;
        let id = self.disks[disk].name.clone();
        let Setting { driver, knobs, .. } = self.settings[setting];
        let name = drivers::bind(&self.vm, &id, *driver, knobs)
            .with_context(|| format!("cannot set up {}", self.settings[setting].label))?;
        let features = &mut self.disks[disk].features;
        if !features.contains_key(driver.name()) {
            features.insert(driver.to_string(), self.vm.features(&id)?);
        }
        self.bound = Some(Bound {
            disk,
            setting,
            meter: Meter::new(&self.vm, &id, &name)?,
            name: name.clone(),
        });
        Ok(name)
    }

    /// Runs a job on the disk that was selected.
    pub fn run(&self, job: &Job, runtime: Duration) -> Result<Sample> {
        let bound = self.bound.as_ref().context("no disk is selected")?;
        let command = job.command(&bound.name, runtime);
        let run = || bound.meter.run(&self.vm, &command, runtime + GRACE);
        let sample = match job.pace {
            None => run()?,
            Some(pace) => {
                let device = self.vm.device(&self.disks[bound.disk].name)?;
                device.set(&pace.policy())?;
                let before = device.total()?.signals;
                let sample = run()?;
                Sample {
                    signals: Some(device.total()?.signals - before),
                    ..sample
                }
            }
        };
        // The block layer counts a flush as a write.
        let asked = sample.report.ios + sample.report.syncs;
        let ended = sample.completed + sample.merged;
        if asked != ended {
            bail!("fio has got back {asked} requests, but the block layer has ended {ended}");
        }
        Ok(sample)
    }

    /// Sets the pace of the disk that was selected, if it is one that has a pace.
    pub fn set_pace(&self, pace: Pace) -> Result<()> {
        let bound = self.bound.as_ref().context("no disk is selected")?;
        match self.disks[bound.disk].paced {
            true => self
                .vm
                .device(&self.disks[bound.disk].name)?
                .set(&pace.policy()),
            false => Ok(()),
        }
    }

    /// Powers off; fails if the kernel has complained.
    pub fn shutdown(self) -> Result<()> {
        self.vm.shutdown()
    }
}
