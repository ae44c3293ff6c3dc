// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The machine that everything runs on.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;

/// What figures depend on beside the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Model of the processors.
    #[serde(rename = "host_cpu")]
    pub cpu: String,
    /// Their number.
    #[serde(rename = "host_cpus")]
    pub cpus: usize,
    /// `uname -r`.
    #[serde(rename = "host_kernel")]
    pub kernel: String,
    /// /proc/loadavg at the time of asking.
    #[serde(rename = "host_load")]
    pub load: String,
}

impl Host {
    /// Asks the kernel.
    pub fn ask() -> Result<Self> {
        Ok(Self {
            cpu: cpu()?,
            cpus: std::thread::available_parallelism()?.get(),
            kernel: file("/proc/sys/kernel/osrelease")?,
            load: file("/proc/loadavg")?,
        })
    }
}

fn file(path: &str) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.trim().to_owned())
}

fn cpu() -> Result<String> {
    let text = file("/proc/cpuinfo")?;
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Ok(model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()))
}
