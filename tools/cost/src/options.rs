// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line.

use anyhow::{ensure, Result};
use clap::{ArgAction, Parser};
use cost::measure::Extent;
use cost::Setting;
use vm::{Backend, Disk};

/// Size of the disk under test.
const DISK_SIZE: u64 = 1 << 30;

/// Counts the guest instructions that each driver spends on an I/O.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    /// How often each setting is measured.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    passes: u16,

    /// I/Os of one job; fewer than 100,000 make fio's start weigh more.
    #[arg(long, default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub ios: u64,

    /// Requests in flight.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub iodepth: u16,

    /// What to compare with null_blk: c, off, loop, delayed, or ours with any parameters as
    /// NAME:PARAMETER=VALUE[+PARAMETER=VALUE]...
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        default_value = "c,off,loop,delayed"
    )]
    settings: Vec<Setting>,

    /// Descriptors of the ring: a power of two from 4 to 1024.
    #[arg(long, default_value_t = 256)]
    queue_size: u16,

    /// Whether the device offers VIRTIO_RING_F_EVENT_IDX.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    event_idx: bool,

    /// Whether the device offers VIRTIO_RING_F_INDIRECT_DESC.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    indirect: bool,

    /// Whether the device offers VIRTIO_F_RING_PACKED.
    #[arg(long, default_value_t = false, action = ArgAction::Set, value_name = "true|false")]
    packed: bool,

    /// Whether to count by function too, which makes the guest slower.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    pub profile: bool,

    /// How many functions of each profile to record.
    #[arg(long, default_value_t = 60)]
    pub top: usize,
}

impl Options {
    /// The floor and the settings to compare with it, each once.
    pub fn settings(&self) -> Result<Vec<Setting>> {
        for (index, setting) in self.settings.iter().enumerate() {
            let mut before = self.settings[..index].iter();
            ensure!(
                before.all(|other| other.name != setting.name),
                "two settings are called {setting}: give each a name of its own"
            );
        }
        let floor = std::iter::once(Setting::floor());
        Ok(floor.chain(self.settings.clone()).collect())
    }

    /// How much is measured.
    pub fn extent(&self) -> Extent {
        Extent {
            passes: self.passes,
            ios: self.ios,
            iodepth: self.iodepth,
        }
    }

    /// The disk under test.
    pub fn disk(&self, name: &str) -> Disk {
        Disk::new(name, Backend::null(DISK_SIZE))
            .num_queues(1)
            .queue_size(self.queue_size)
            .event_idx(self.event_idx)
            .indirect_desc(self.indirect)
            .packed(self.packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_documented_comparison() {
        let options = Options::parse_from(["vbr-cost"]);
        let settings = options.settings().unwrap();
        let names: Vec<_> = settings.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["null_blk", "c", "off", "loop", "delayed"]);
        assert_eq!((options.passes, options.ios), (3, 100_000));
        assert_eq!(options.iodepth, 128);
    }

    #[test]
    fn a_name_may_not_stand_for_two_settings() {
        let options = Options::parse_from(["vbr-cost", "--settings", "c,x:a=1,x:a=2"]);
        let message = options.settings().unwrap_err().to_string();
        assert!(message.contains('x'), "{message}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for wrong in [
            "--passes=0",
            "--ios=10",
            "--iodepth=0",
            "--settings=fast",
            "--packed=maybe",
        ] {
            assert!(
                Options::try_parse_from(["vbr-cost", wrong]).is_err(),
                "{wrong}"
            );
        }
    }
}
