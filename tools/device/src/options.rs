// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line.

use crate::failures::Failures;
use crate::lifetime::Lifetime;
use crate::policy::{parse_micros, Order, Policy, Signal, Wait};
use crate::ranges::Fields;
use crate::request::SECTOR;
use crate::storage::Storage;
use crate::zone_options::ZoneOptions;
use anyhow::{bail, ensure, Result};
use clap::{ArgAction, Parser};
use std::path::PathBuf;
use std::str::FromStr;

/// Size of a disk for which none is given.
const DEFAULT_SIZE: u64 = 1 << 30;

/// A virtio block device (vhost-user) whose pace, order and signals are programmable.
#[derive(Debug, Clone, Parser)]
#[command(version)]
pub struct Options {
    /// Where to listen for QEMU
    #[arg(long, value_name = "PATH", required_unless_present = "socket_fd")]
    pub socket: Option<PathBuf>,

    /// A listening socket that was inherited, instead of a path
    #[arg(long, value_name = "N", conflicts_with = "socket",
          value_parser = clap::value_parser!(i32).range(3..))]
    pub socket_fd: Option<i32>,

    /// Where to listen for commands, one JSON object a line
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,

    /// A listening socket for commands that was inherited, instead of a path
    #[arg(long, value_name = "N", conflicts_with = "control",
          value_parser = clap::value_parser!(i32).range(3..))]
    pub control_fd: Option<i32>,

    /// What holds the content: ram, null or a file that exists
    #[arg(long, value_name = "ram|null|FILE", default_value = "ram")]
    pub backing: Backing,

    /// Size in bytes, a multiple of 512 [default: that of the file, else 1 GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub size: Option<u64>,

    /// Serial number, of which a guest sees 20 bytes
    #[arg(long, value_name = "TEXT", default_value = "vbr-device")]
    pub serial: String,

    /// Does not know what a serial number is
    #[arg(long)]
    pub no_serial: bool,

    /// How worn the disk is: three numbers [default: not told]
    #[arg(long, value_name = "PRE_EOL,A,B")]
    pub lifetime: Option<Lifetime>,

    /// Request queues, with a thread each
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub num_queues: u16,

    /// Most descriptors a queue may have: a power of two
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_queue_size)]
    pub queue_size: u16,

    /// Most data segments of a request [default: as a direct chain fits into a queue]
    #[arg(long, value_name = "N")]
    pub seg_max: Option<u32>,

    /// Most bytes of a segment [default: not offered]
    #[arg(long, value_name = "BYTES")]
    pub size_max: Option<u32>,

    /// Logical block size
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub block_size: u32,

    /// Most sectors of a discarded range, most ranges, alignment in sectors [default: not offered]
    #[arg(long, value_name = "SECTORS,RANGES,ALIGNMENT")]
    pub discard: Option<Fields>,

    /// Most sectors of a zeroed range, most ranges, and 0 [default: not offered]
    #[arg(long, value_name = "SECTORS,RANGES,0")]
    pub write_zeroes: Option<Fields>,

    /// Most sectors of an erased range, most ranges, alignment in sectors [default: not offered]
    #[arg(long, value_name = "SECTORS,RANGES,ALIGNMENT")]
    pub secure_erase: Option<Fields>,

    /// Whether VIRTIO_RING_F_EVENT_IDX is offered
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set,
          value_parser = parse_switch)]
    pub event_idx: bool,

    /// Whether VIRTIO_RING_F_INDIRECT_DESC is offered
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set,
          value_parser = parse_switch)]
    pub indirect: bool,

    /// Whether there is a write cache at first; the driver may switch it. A number is what the
    /// configuration says of it, even where the standard has no such value
    #[arg(long, value_name = "on|off|N", default_value = "on", value_parser = parse_write_cache)]
    pub write_cache: u8,

    /// Loses what was written and not flushed when the control socket cuts the power
    #[arg(long)]
    pub volatile_cache: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub zones: ZoneOptions,

    /// Each request of a queue ends this long after the one before
    #[arg(long, value_name = "US", default_value = "0", value_parser = parse_micros)]
    pub pace: u64,

    /// Each request ends this long after it was fetched, many at a time
    #[arg(long, value_name = "US", default_value = "0", value_parser = parse_micros)]
    pub latency: u64,

    /// How to wait for the time at which a request ends
    #[arg(long, value_name = "sleep|spin", default_value_t)]
    pub wait: Wait,

    /// Which request ends when one is due
    #[arg(long, value_name = "in|random", default_value_t)]
    pub order: Order,

    /// When to signal, unless the guest does not want it
    #[arg(long, value_name = "each|batch|delayed=US", default_value_t)]
    pub signal: Signal,

    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What holds the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// The device's memory.
    Ram,
    /// Nothing.
    Null,
    /// A file.
    File(PathBuf),
}

impl FromStr for Backing {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        ensure!(
            !text.is_empty(),
            "the name is empty: choose ram, null or a file"
        );
        Ok(match text {
            "ram" => Self::Ram,
            "null" => Self::Null,
            path => Self::File(path.into()),
        })
    }
}

impl Options {
    /// The policy at the start.
    pub fn policy(&self) -> Result<Policy> {
        let policy = Policy {
            pace_us: self.pace,
            latency_us: self.latency,
            wait: self.wait,
            order: self.order,
            signal: self.signal,
            fail: Failures::default(),
        };
        policy.check()?;
        Ok(policy)
    }

    /// What holds the content.
    pub fn storage(&self) -> Result<Storage> {
        let size = self.size.unwrap_or(DEFAULT_SIZE);
        match &self.backing {
            Backing::Null => Ok(Storage::null(size)),
            Backing::Ram => Storage::ram(size),
            Backing::File(path) => Storage::file(path, self.size),
        }
    }

    /// Most data segments of a request: header and status need a descriptor each.
    pub fn seg_max(&self) -> u32 {
        let fits = u32::from(self.queue_size).saturating_sub(2).max(1);
        self.seg_max.unwrap_or(fits)
    }
}

fn parse_size(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(size) if size > 0 && size % SECTOR == 0 => Ok(size),
        _ => bail!("{text:?} bytes are no size of a disk: give a multiple of {SECTOR}"),
    }
}

fn parse_queue_size(text: &str) -> Result<u16> {
    match text.parse::<u16>() {
        Ok(size) if size.is_power_of_two() && (2..=32768).contains(&size) => Ok(size),
        _ => bail!("{text:?} is no size of a queue: choose a power of two from 2 to 32768"),
    }
}

fn parse_switch(text: &str) -> Result<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("{text:?} is neither on nor off"),
    }
}

fn parse_write_cache(text: &str) -> Result<u8> {
    match (parse_switch(text), text.parse()) {
        (Ok(on), _) => Ok(on.into()),
        (_, Ok(number)) => Ok(number),
        _ => bail!("{text:?} is neither on, off, nor a number from 0 to 255"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Options, String> {
        let words = ["vbr-device", "--socket", "s"].into_iter();
        Options::try_parse_from(words.chain(line.split_whitespace()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
        let options = parse("").unwrap();
        assert_eq!(options.policy().unwrap(), Policy::default());
        assert_eq!(options.seg_max(), 254);
        assert!(options.event_idx && options.indirect);
        assert_eq!(options.write_cache, 1);
        assert_eq!(parse("--write-cache 2").unwrap().write_cache, 2);
    }

    #[test]
    fn bad_values_are_named_with_their_remedy() {
        for (line, words) in [
            ("--size 100", ["100", "multiple of 512"]),
            ("--queue-size 48", ["48", "power of two"]),
            ("--num-queues 65", ["65", "1..=64"]),
            ("--wait nap", ["nap", "sleep or spin"]),
            ("--signal delayed=x", ["x", "0 to 600000000"]),
            ("--event-idx yes", ["yes", "on nor off"]),
            ("--write-cache 256", ["256", "0 to 255"]),
            ("--lifetime 1", ["1", "three numbers"]),
            ("--socket-fd 3", ["--socket", "cannot be used with"]),
            ("--discard 8,1", ["8,1", "SECTORS,RANGES,ALIGNMENT"]),
        ] {
            let message = parse(line).unwrap_err();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
        let both = parse("--pace 20 --latency 50").unwrap();
        assert!(both.policy().unwrap_err().to_string().contains("50"));
    }
}
