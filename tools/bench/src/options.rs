// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line of `vbr run`.

use crate::configuration::Configuration;
use crate::workload::Workload;
use anyhow::{bail, Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use vm::{Accel, Backend, Disk, Transport};

/// The name of the disk under test.
pub const DISK: &str = "bench";

/// What lies behind the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Nothing: every request ends at once, so that the driver's share is largest.
    Null,
    /// The host's memory.
    Ram,
    /// A raw file in the cache folder, or the one that --file names.
    File,
}

/// How the guest reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// virtio-pci on a PC.
    Pci,
    /// virtio-mmio on a microvm.
    Mmio,
}

/// Options of `vbr run`.
#[derive(Debug, Clone, Args, Serialize)]
pub struct RunOptions {
    /// What fio does: "classic" (the four jobs), "qd1" (one request at a time), the name of one
    /// job of the classic four, or a fio file of your own
    #[arg(long, default_value = "classic", value_name = "NAME|FILE")]
    pub workload: Workload,

    /// What is compared, in any order
    #[arg(long, value_delimiter = ',', default_value = "c,off,loop,delayed")]
    pub configs: Vec<Configuration>,

    /// Seconds that each job runs, from 0.1 to 3600
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    pub runtime: f64,

    /// How often everything is measured; 95 % intervals need at least 6
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// fio's threads a job
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,

    /// Requests that each thread keeps in flight
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub iodepth: u32,

    /// The disk's size, such as 512M or 1G; at least 1M
    #[arg(long, default_value = "1G", value_parser = size)]
    pub size: u64,

    /// What lies behind the disk
    #[arg(long, value_enum, default_value = "null")]
    pub backend: BackendKind,

    /// The raw file for --backend file; its content is overwritten
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// How the guest reaches the disk
    #[arg(long, value_enum, default_value = "pci")]
    pub transport: TransportKind,

    /// The guest's processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub vcpus: u32,

    /// The disk's request queues
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: u16,

    /// Descriptors a queue: a power of two from 4 to 1024
    #[arg(long, default_value_t = 256)]
    pub queue_size: u16,

    /// Offer VIRTIO_RING_F_EVENT_IDX
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub event_idx: bool,

    /// Offer VIRTIO_F_RING_PACKED
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub packed: bool,

    /// Offer VIRTIO_RING_F_INDIRECT_DESC
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub indirect: bool,

    /// Let kicks go through an eventfd
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub ioeventfd: bool,

    /// Give the disk a thread of its own in QEMU
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub iothread: bool,

    /// How the guest's processors are made: auto (KVM if it works), kvm or tcg
    #[arg(long, default_value = "auto")]
    #[serde(serialize_with = "as_text")]
    pub accel: Accel,

    /// Keep the guest's console log as run.console.log beside the results
    #[arg(long)]
    pub keep_logs: bool,
}

fn as_text<S: serde::Serializer>(
    accel: &Accel,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(accel)
}

impl RunOptions {
    /// Checks what concerns several options.
    pub fn check(&self) -> Result<()> {
        for (index, configuration) in self.configs.iter().enumerate() {
            if self.configs[..index].contains(configuration) {
                bail!("The configuration {configuration} is listed twice. List each once.");
            }
        }
        if self.file.is_some() && self.backend != BackendKind::File {
            bail!("--file is given but not used. Add --backend file, or leave --file out.");
        }
        self.disk(PathBuf::new()).check()
    }

    /// How long one job runs.
    pub fn runtime(&self) -> Duration {
        Duration::from_secs_f64(self.runtime)
    }

    /// The disk under test. `file` is the one for a backend that needs it.
    pub fn disk(&self, file: PathBuf) -> Disk {
        let backend = match self.backend {
            BackendKind::Null => Backend::null(self.size),
            BackendKind::Ram => Backend::ram(self.size),
            BackendKind::File => Backend::file(file),
        };
        let transport = match self.transport {
            TransportKind::Pci => Transport::Pci,
            TransportKind::Mmio => Transport::Mmio,
        };
        Disk::new(DISK, backend)
            .transport(transport)
            .num_queues(self.queues)
            .queue_size(self.queue_size)
            .event_idx(self.event_idx)
            .packed(self.packed)
            .indirect_desc(self.indirect)
            .ioeventfd(self.ioeventfd)
            .iothread(self.iothread)
    }
}

/// Parses the time that a job runs.
pub fn seconds(text: &str) -> Result<f64> {
    let seconds: f64 = text
        .parse()
        .with_context(|| format!("{text:?} is no number"))?;
    if !(0.1..=3600.0).contains(&seconds) {
        bail!("{text} is out of range. Choose 0.1 to 3600 seconds");
    }
    Ok(seconds)
}

fn size(text: &str) -> Result<u64> {
    let remedy = "Give a number with K, M, G or T, from 1M to 2T, such as 512M";
    let unit = text
        .chars()
        .last()
        .and_then(|unit| "KMGT".find(unit.to_ascii_uppercase()));
    let (number, shift) = match unit {
        Some(index) => (&text[..text.len() - 1], 10 * (index + 1)),
        None => (text, 0),
    };
    let number: u64 = number
        .parse()
        .with_context(|| format!("{text:?} is no size. {remedy}"))?;
    match number
        .checked_shl(shift as u32)
        .filter(|size| size >> shift == number)
    {
        Some(size) if (1 << 20..=1 << 41).contains(&size) && size % 512 == 0 => Ok(size),
        _ => bail!("{text} is out of range. {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: RunOptions,
    }

    fn parse(arguments: &str) -> Result<RunOptions> {
        let program = Program::try_parse_from(format!("x {arguments}").split_whitespace())?;
        program.options.check()?;
        Ok(program.options)
    }

    #[test]
    fn defaults_are_the_classic_comparison() {
        let options = parse("").unwrap();
        assert_eq!(options.workload.jobs().len(), 4);
        assert_eq!(options.configs.len(), 4);
        assert_eq!(
            (options.threads, options.iodepth, options.size),
            (16, 64, 1 << 30)
        );
    }

    #[test]
    fn bad_values_are_named_with_their_range() {
        for (arguments, words) in [
            ("--rounds 0", ["'0'", "1..=1000"]),
            ("--runtime 0", ["'0'", "0.1 to 3600"]),
            ("--size 1Q", ["1Q", "from 1M to 2T"]),
            ("--size 100", ["100", "from 1M to 2T"]),
            ("--size 99999999999T", ["T", "from 1M to 2T"]),
            ("--configs c,fast", ["fast", "delayed"]),
            ("--configs c,c", ["twice", "once"]),
            ("--accel xen", ["xen", "tcg"]),
            ("--file x", ["--file", "--backend file"]),
            ("--queue-size 48", ["48", "4 to 1024"]),
        ] {
            let message = format!("{:#}", parse(arguments).unwrap_err());
            assert!(
                words.iter().all(|word| message.contains(word)),
                "{arguments}: {message}"
            );
        }
    }
}
