// SPDX-License-Identifier: GPL-2.0

//! Runs one job of fio in the guest and counts what happened meanwhile.

use crate::configuration::Configuration;
use crate::fio::{self, Report};
use crate::options::{RunOptions, DISK};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::time::Duration;
use vm::{Counters, Driver, Interrupts, Vm};

/// Name of the fio file in the job share.
const FIO_FILE: &str = "workload.fio";

/// How much longer than its run time a job may take on a busy machine.
const GRACE: Duration = Duration::from_secs(120);

/// The guest with the disk under test, and what is loaded there.
pub struct Bench<'a> {
    vm: &'a Vm,
    options: &'a RunOptions,
    device: String,
    loaded: Option<Driver>,
    disk: String,
}

/// What one run of one job did.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What fio says.
    pub report: Report,
    /// Interrupts of the disk's request queues.
    pub interrupts: u64,
    /// Requests that the block layer has ended.
    pub completed: u64,
    /// Requests that the block layer has merged into others before.
    pub merged: u64,
    /// What the Rust driver has counted.
    pub counters: Option<Counters>,
}

impl<'a> Bench<'a> {
    /// The I/O scheduler of all runs. Another one would merge and reorder, and so hide a part of
    /// what drivers do.
    pub const SCHEDULER: &'static str = "none";

    /// Prepares a guest that has no driver loaded.
    pub fn new(vm: &'a Vm, options: &'a RunOptions) -> Result<Self> {
        std::fs::write(vm.job_dir().join(FIO_FILE), options.workload.text())
            .context("cannot hand the fio file to the guest")?;
        let device = vm.virtio_device(DISK)?;
        Ok(Self {
            vm,
            options,
            device,
            loaded: None,
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
            let scheduler = format!("/sys/block/{}/queue/scheduler", self.disk);
            self.vm
                .sh(&format!("echo {} > {scheduler}", Self::SCHEDULER))?;
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
        let output = self
            .vm
            .sh_for(runtime + GRACE, &self.script(job, runtime))?;
        let sections = sections(&output);
        let before = self.snapshot(&sections, "before")?;
        let after = self.snapshot(&sections, "after")?;
        let counters = after.counters.as_ref().zip(before.counters.as_ref());
        Ok(Sample {
            report: fio::parse(section(&sections, "fio")?)?,
            interrupts: (&after.interrupts - &before.interrupts).requests(),
            completed: after.completed - before.completed,
            merged: after.merged - before.merged,
            counters: counters.map(|(after, before)| after - before),
        })
    }

    /// One script, so that nothing else happens in the guest between the counts and the job.
    fn script(&self, job: &str, runtime: Duration) -> String {
        let RunOptions {
            threads, iodepth, ..
        } = self.options;
        let disk = &self.disk;
        let counters = format!("/sys/kernel/debug/{}/{disk}", Driver::Rust);
        format!(
            "export FILENAME=/dev/{disk} SIZE=100% RUNTIME={}ms NUMJOBS={threads} \
             IODEPTH={iodepth}\n\
             count() {{\n\
             echo \"=== $1 interrupts\"; cat /proc/interrupts\n\
             echo \"=== $1 stat\"; cat /sys/block/{disk}/stat\n\
             for queue in {counters}/queue*; do\n\
             test -e $queue && echo \"=== $1 $(basename $queue)\" && cat $queue\n\
             done\n\
             }}\n\
             count before\n\
             fio --output-format=json --output=/run/fio.json --section={job} \
             {}/{FIO_FILE} || {{ cat /run/fio.json >&2; exit 1; }}\n\
             count after\n\
             echo '=== fio'; cat /run/fio.json\n",
            runtime.as_millis(),
            vm::JOB_DIR,
        )
    }

    fn snapshot(&self, sections: &BTreeMap<&str, &str>, when: &str) -> Result<Snapshot> {
        let interrupts = section(sections, &format!("{when} interrupts"))?;
        let stat = section(sections, &format!("{when} stat"))?;
        let fields: Vec<u64> = stat
            .split_whitespace()
            .filter_map(|f| f.parse().ok())
            .collect();
        let [reads, reads_merged, _, _, writes, writes_merged, ..] = fields[..] else {
            bail!("the disk's statistics are not understood: {stat:?}");
        };
        let queue = format!("{when} queue");
        let mut counters = None;
        for (_, text) in sections.iter().filter(|(name, _)| name.starts_with(&queue)) {
            let queue = Counters::parse(text)?;
            counters = Some(counters.map_or_else(|| queue.clone(), |sum: Counters| &sum + &queue));
        }
        Ok(Snapshot {
            interrupts: Interrupts::parse(interrupts, &self.device),
            completed: reads + writes,
            merged: reads_merged + writes_merged,
            counters,
        })
    }
}

/// What has been counted up to one moment.
struct Snapshot {
    interrupts: Interrupts,
    completed: u64,
    merged: u64,
    counters: Option<Counters>,
}

/// Splits the script's output at its headings.
fn sections(output: &str) -> BTreeMap<&str, &str> {
    output
        .split("=== ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect()
}

fn section<'a>(sections: &BTreeMap<&'a str, &'a str>, name: &str) -> Result<&'a str> {
    sections
        .get(name)
        .copied()
        .with_context(|| format!("the guest did not report {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_split_at_its_headings() {
        let sections = sections("noise\n=== before stat\n1 2\n=== fio\n{\n}\n");
        assert_eq!(section(&sections, "before stat").unwrap(), "1 2\n");
        assert_eq!(section(&sections, "fio").unwrap(), "{\n}\n");
        assert!(section(&sections, "after stat").is_err());
    }
}
