// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line.

use clap::Parser;
use std::num::NonZeroU64;
use std::time::Duration;

/// The shortest and the longest interval, in seconds.
const INTERVALS: (f64, f64) = (0.1, 3600.0);

/// Show live what the driver virtio_blk_rs does: rates of each disk and each of its queues.
#[derive(Debug, Parser)]
#[command(name = "vbr-top")]
pub struct Options {
    /// Seconds from one line to the next, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,

    /// End after N intervals; without it, go on until interrupted
    #[arg(long, value_name = "N", value_parser = count)]
    pub count: Option<u64>,

    /// Write JSON, one object a line for each interval
    #[arg(long)]
    pub json: bool,

    /// Show this disk only, such as vda; may be repeated
    #[arg(long = "disk", value_name = "NAME", value_parser = disk)]
    pub disks: Vec<String>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let (least, most) = INTERVALS;
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (least..=most).contains(seconds));
    let seconds =
        seconds.ok_or_else(|| format!("give a number of seconds from {least} to {most}"))?;
    Ok(Duration::from_secs_f64(seconds))
}

fn count(text: &str) -> Result<u64, String> {
    let count = text.parse::<NonZeroU64>();
    let count = count.map_err(|_| "give a whole number of intervals, at least 1".to_owned())?;
    Ok(count.get())
}

/// The name is what debugfs calls the disk; a path of its node is meant well.
fn disk(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err("give the name of a disk, such as vda".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        let words = std::iter::once(&"vbr-top").chain(words);
        Options::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_an_endless_view_of_all_disks() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.interval, Duration::from_secs(1));
        assert_eq!((options.count, options.json), (None, false));
        assert!(options.disks.is_empty());
    }

    #[test]
    fn everything_can_be_chosen() {
        let words = [
            "--interval=0.1",
            "--count",
            "2",
            "--json",
            "--disk=/dev/vda",
            "--disk=vdb",
        ];
        let options = parse(&words).unwrap();
        assert_eq!(options.interval, Duration::from_millis(100));
        assert_eq!((options.count, options.json), (Some(2), true));
        assert_eq!(options.disks, ["vda", "vdb"]);
    }

    #[test]
    fn bad_values_are_named_with_their_range() {
        for (word, range) in [
            ("--interval=0", "0.1 to 3600"),
            ("--interval=3600.1", "0.1 to 3600"),
            ("--interval=NaN", "0.1 to 3600"),
            ("--interval=1s", "0.1 to 3600"),
            ("--count=0", "at least 1"),
            ("--count=-1", "at least 1"),
            ("--disk=", "such as vda"),
            ("--disk=../vda", "such as vda"),
        ] {
            let message = parse(&[word]).unwrap_err();
            let value = word.split_once('=').unwrap().1;
            assert!(
                message.contains(range) && message.contains(value),
                "{message}"
            );
        }
    }
}
