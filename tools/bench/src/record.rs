// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What run.json says beside the figures: where, when and how they were measured.

use crate::checks::Checks;
use crate::configuration::Configuration;
use crate::meter::SCHEDULER;
use crate::options::{RunOptions, DISK};
use crate::summary::Row;
use anyhow::Result;
use measuring::Host;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use vm::Vm;

/// Everything that the figures depend on.
#[derive(Debug, Serialize)]
pub struct Environment {
    date: String,
    command_line: Vec<String>,
    options: RunOptions,
    guest_kernel: String,
    guest_kernel_version: String,
    guest_vcpus: u32,
    qemu: String,
    qemu_command_line: String,
    accelerator: String,
    accelerator_reason: String,
    fio: String,
    #[serde(flatten)]
    host: Host,
    device: Map<String, Value>,
    negotiated_features: BTreeMap<String, Vec<String>>,
    io_scheduler: String,
}

impl Environment {
    /// Loads each driver once and asks for what it has agreed on with the device.
    pub fn features(
        vm: &Vm,
        configurations: &[Configuration],
    ) -> Result<BTreeMap<String, Vec<String>>> {
        let mut features = BTreeMap::new();
        for configuration in configurations {
            let driver = configuration.driver();
            if !features.contains_key(driver.name()) {
                vm.load(driver, "")?;
                vm.block_device(DISK)?;
                features.insert(driver.name().to_owned(), vm.features(DISK)?);
                vm.unload(driver)?;
            }
        }
        Ok(features)
    }

    /// Asks the host and the guest.
    pub fn new(
        vm: &Vm,
        options: &RunOptions,
        negotiated_features: BTreeMap<String, Vec<String>>,
    ) -> Result<Self> {
        let line = |script: &str| vm.sh(script).map(|text| text.trim().to_owned());
        let disk = options.disk(Default::default());
        Ok(Self {
            date: jiff::Timestamp::now()
                .round(jiff::Unit::Second)?
                .to_string(),
            command_line: std::env::args().collect(),
            options: options.clone(),
            guest_kernel: vm.environment().kernel.clone(),
            guest_kernel_version: line("cat /proc/version")?,
            guest_vcpus: options.vcpus,
            qemu: vm.qemu_version()?,
            qemu_command_line: vm.command_line().to_owned(),
            accelerator: vm.accel().name().to_owned(),
            accelerator_reason: vm.accel().because.clone(),
            fio: line("fio --version")?,
            host: Host::ask()?,
            device: disk.properties().clone(),
            negotiated_features,
            io_scheduler: SCHEDULER.to_owned(),
        })
    }
}

/// The content of run.json.
#[derive(Serialize)]
pub struct Record<'a> {
    environment: Environment,
    duration_s: f64,
    results: Vec<Value>,
    checks: &'a Checks,
}

impl<'a> Record<'a> {
    /// Puts everything together.
    pub fn new(
        environment: Environment,
        rows: &[Row],
        checks: &'a Checks,
        duration: Duration,
    ) -> Self {
        let results = rows.iter().map(Row::to_json).collect();
        Self {
            environment,
            duration_s: duration.as_secs_f64().round(),
            results,
            checks,
        }
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Two lines that say where a picture comes from.
    pub fn caption(&self) -> [String; 2] {
        let environment = &self.environment;
        let options = &environment.options;
        let on = |name: &str, set: bool| format!("{name} {}", if set { "on" } else { "off" });
        let load = match options.workload.takes_load() {
            true => format!("{} threads × iodepth {}", options.threads, options.iodepth),
            false => format!("workload {}", options.workload.name()),
        };
        [
            format!(
                "Linux {}, {} ({}), {} vCPU, {load}, {} rounds of {} s",
                environment.guest_kernel,
                environment.qemu,
                environment.accelerator.to_uppercase(),
                environment.guest_vcpus,
                options.rounds,
                options.runtime,
            ),
            format!(
                "virtio-blk, {} queue of {}, {}, {}, {}; {}",
                options.queues,
                options.queue_size,
                on("event_idx", options.event_idx),
                on("packed", options.packed),
                on("indirect", options.indirect),
                environment.date,
            ),
        ]
    }
}
