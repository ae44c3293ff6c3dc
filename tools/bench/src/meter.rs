// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Counts what happens in the guest while fio runs.

use crate::fio::{self, Report};
use anyhow::{bail, Context, Result};
use counters::{Counters, Interrupts, QueueFile};
use std::collections::BTreeMap;
use std::time::Duration;
use vm::{Driver, Vm};

/// The I/O scheduler of all runs. Another one would merge and reorder, and so hide a part of what
/// drivers do.
pub const SCHEDULER: &str = "none";

/// The histogram of the time that a kick takes, in the driver's files.
const KICK_TIMES: &str = "hist_kick_ns";

/// A disk whose driver is bound.
#[derive(Debug, Clone)]
pub struct Meter {
    device: String,
    disk: String,
}

/// What one run of one job did.
#[derive(Debug, Clone, Default)]
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
    /// Whatever else it counts, by name; empty with the C driver.
    pub others: BTreeMap<String, u64>,
    /// Kicks by the time that they took: bucket k from 2^(k-1) to 2^k - 1 ns.
    pub kick_times: Vec<u64>,
    /// Signals that the device has sent, where it is one that counts them.
    pub signals: Option<u64>,
}

impl Meter {
    /// A meter for the disk that is called `id` for the host and `disk`, such as `vda`, in the
    /// guest. Takes its I/O scheduler away.
    pub fn new(vm: &Vm, id: &str, disk: &str) -> Result<Self> {
        vm.sh(&format!(
            "echo {SCHEDULER} > /sys/block/{disk}/queue/scheduler"
        ))?;
        Ok(Self {
            device: vm.virtio_device(id)?,
            disk: disk.to_owned(),
        })
    }

    /// Runs `fio`, a command line without the options for its output.
    pub fn run(&self, vm: &Vm, fio: &str, limit: Duration) -> Result<Sample> {
        let output = vm.sh_for(limit, &self.script(fio))?;
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
            others: added(&after.others, &before.others),
            kick_times: std::iter::zip(&after.kick_times, &before.kick_times)
                .map(|(after, before)| after.saturating_sub(*before))
                .collect(),
            signals: None,
        })
    }

    /// One script, so that nothing else happens in the guest between the counts and the job. The
    /// shell reads files by itself: a program for each would take longer than a short job.
    fn script(&self, fio: &str) -> String {
        let disk = &self.disk;
        let counters = format!("/sys/kernel/debug/{}/{disk}", Driver::Rust);
        format!(
            "count() {{\n\
             echo \"=== $1 interrupts\"; echo \"$(</proc/interrupts)\"\n\
             echo \"=== $1 stat\"; echo \"$(</sys/block/{disk}/stat)\"\n\
             for queue in {counters}/queue*[0-9]; do\n\
             test -e $queue && echo \"=== $1 ${{queue##*/}}\" && echo \"$(<$queue)\"\n\
             done\n\
             }}\n\
             count before\n\
             {fio} --output-format=json --output=/run/fio.json || \
             {{ cat /run/fio.json >&2; exit 1; }}\n\
             count after\n\
             echo '=== fio'; cat /run/fio.json\n",
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
        let mut snapshot = Snapshot {
            interrupts: Interrupts::parse(interrupts, &self.device),
            completed: reads + writes,
            merged: reads_merged + writes_merged,
            ..Snapshot::default()
        };
        let queue = format!("{when} queue");
        for (_, text) in sections.iter().filter(|(name, _)| name.starts_with(&queue)) {
            snapshot.add(text)?;
        }
        Ok(snapshot)
    }
}

/// What has been counted up to one moment.
#[derive(Default)]
struct Snapshot {
    interrupts: Interrupts,
    completed: u64,
    merged: u64,
    counters: Option<Counters>,
    others: BTreeMap<String, u64>,
    kick_times: Vec<u64>,
}

impl Snapshot {
    /// Adds the text of one queue's file.
    fn add(&mut self, text: &str) -> Result<()> {
        let queue = Counters::parse(text)?;
        self.counters = Some(match self.counters.take() {
            Some(sum) => &sum + &queue,
            None => queue,
        });
        let file = QueueFile::parse(text)?;
        for (name, value) in file.values() {
            *self.others.entry(name.to_owned()).or_default() += value;
        }
        let times = file.histogram(KICK_TIMES).unwrap_or_default();
        self.kick_times
            .resize(self.kick_times.len().max(times.len()), 0);
        for (sum, count) in self.kick_times.iter_mut().zip(times) {
            *sum += count;
        }
        Ok(())
    }
}

/// By how much each counter has grown.
fn added(after: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.iter().map(|(name, after)| {
        let before = before.get(name).copied().unwrap_or_default();
        (name.clone(), after.saturating_sub(before))
    });
    grown.collect()
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

    #[test]
    fn queues_are_added_and_counters_that_only_we_know_are_kept() {
        let text = "interrupts 10\nempty_interrupts 1\ndrains 12\ncompletions 100\nkicks 40\n\
                    suppressed_kicks 60\nring_full_stops 2\nlargest_batch 31\n\
                    hist_completions_per_interrupt 1 2\ntimer_fires 7\nhist_kick_ns 0 3\n";
        let (mut one, mut two) = (Snapshot::default(), Snapshot::default());
        one.add(text).unwrap();
        two.add(text).unwrap();
        two.add(&text.replace("hist_kick_ns 0 3", "hist_kick_ns 0 1 5"))
            .unwrap();
        assert_eq!(two.counters.unwrap().kicks, 80);
        assert_eq!(two.kick_times, [0, 4, 5]);
        assert_eq!(added(&two.others, &one.others)["timer_fires"], 7);
    }
}
