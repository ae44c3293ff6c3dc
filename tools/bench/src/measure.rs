// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Runs the jobs of a workload with the driver of each configuration in turn.

use crate::configuration::Configuration;
use crate::meter::{Meter, Sample};
use crate::options::{RunOptions, DISK};
use anyhow::{Context, Result};
use std::time::Duration;
use vm::{Driver, Vm};

/// Name of the fio file in the job share.
const FIO_FILE: &str = "workload.fio";

/// How much longer than its run time a job may take on a busy machine.
const GRACE: Duration = Duration::from_secs(120);

/// The guest with the disk under test, and what is loaded there.
pub struct Bench<'a> {
    vm: &'a Vm,
    options: &'a RunOptions,
    loaded: Option<Driver>,
    meter: Option<Meter>,
    disk: String,
}

impl<'a> Bench<'a> {
    /// Prepares a guest that has no driver loaded.
    pub fn new(vm: &'a Vm, options: &'a RunOptions) -> Result<Self> {
        std::fs::write(vm.job_dir().join(FIO_FILE), options.workload.text())
            .context("cannot hand the fio file to the guest")?;
        Ok(Self {
            vm,
            options,
            loaded: None,
            meter: None,
            disk: String::new(),
        })
    }

    /// Loads the driver of a configuration, if it is not loaded already, and sets it.
    pub fn select(&mut self, configuration: Configuration) -> Result<()> {
        let driver = configuration.driver();
        if self.loaded != Some(driver) {
            if let Some(other) = self.loaded.take() {
                self.vm.unload(other)?;
            }
            self.vm.load(driver, "")?;
            self.loaded = Some(driver);
            self.disk = self.vm.block_device(DISK)?;
            self.meter = Some(Meter::new(self.vm, DISK, &self.disk)?);
        }
        if let Some(mode) = configuration.suppress() {
            self.vm
                .sh(&format!("echo {mode} > /sys/block/{}/suppress", self.disk))
                .with_context(|| format!("cannot set suppress={mode}"))?;
        }
        Ok(())
    }

    /// Runs a job with the driver that is selected.
    pub fn run(&self, job: &str, runtime: Duration) -> Result<Sample> {
        let RunOptions {
            threads, iodepth, ..
        } = self.options;
        let meter = self.meter.as_ref().context("no driver is loaded")?;
        let fio = format!(
            "FILENAME=/dev/{} SIZE=100% RUNTIME={}ms NUMJOBS={threads} IODEPTH={iodepth} \
             fio --section={job} {}/{FIO_FILE}",
            self.disk,
            runtime.as_millis(),
            vm::JOB_DIR,
        );
        meter.run(self.vm, &fio, runtime + GRACE)
    }
}
