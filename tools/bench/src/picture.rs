// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The picture of `vbr run`: IOPS relative to the C driver, and interrupts, by job and
//! configuration.

use crate::chart::{Bar, Bars, Panel, Picture};
use crate::configuration::Configuration;
use crate::metric::Metric;
use crate::summary::Row;
use anyhow::Result;
use measuring::Estimate;
use std::path::Path;

/// Draws the rows to an SVG file.
pub fn draw(path: &Path, rows: &[Row], caption: &[String; 2]) -> Result<()> {
    let mut jobs: Vec<&str> = rows.iter().map(|row| row.job.as_str()).collect();
    jobs.dedup();
    let mut configurations: Vec<Configuration> = rows.iter().map(|row| row.configuration).collect();
    configurations.sort();
    configurations.dedup();

    let panel = |title: &str, reference, value: fn(&Row) -> Option<Estimate>| {
        let place = |row: &Row| {
            let group = jobs.iter().position(|job| *job == row.job)?;
            let series = configurations
                .iter()
                .position(|c| *c == row.configuration)?;
            let value = value(row)?;
            Some(Bar {
                group,
                series,
                value,
            })
        };
        Panel::Bars(Bars {
            title: title.to_owned(),
            groups: jobs.iter().map(|job| (*job).to_owned()).collect(),
            reference,
            bars: rows.iter().filter_map(place).collect(),
        })
    };
    let compared = rows.iter().any(|row| ratio(row).is_some());
    let speed = match compared {
        true => panel(
            "IOPS relative to the C driver (higher is better)",
            Some(1.0),
            ratio,
        ),
        false => panel("IOPS", None, |row| row.estimate(Metric::Iops)),
    };
    let interrupts = panel("Interrupts per 1,000 I/Os (lower is better)", None, |row| {
        row.estimate(Metric::Interrupts)
    });
    let picture = Picture {
        title: "virtio-blk drivers on one disk in one boot".to_owned(),
        caption: caption.to_vec(),
        series: configurations.iter().map(|c| c.label()).collect(),
        yardstick: configurations.first() == Some(&Configuration::C),
        panels: vec![speed, interrupts],
    };
    picture.draw(path)
}

/// IOPS relative to the C driver; of itself there is none.
fn ratio(row: &Row) -> Option<Estimate> {
    match row.configuration {
        Configuration::C => None,
        _ => row.ratio(Metric::Iops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::measured;

    #[test]
    fn every_job_and_configuration_is_in_the_picture() {
        let configurations = [Configuration::C, Configuration::Loop];
        let rows = measured().rows(&["j".into()], &configurations);
        let file = tempfile::NamedTempFile::new().unwrap();
        draw(file.path(), &rows, &["where".into(), "how".into()]).unwrap();
        let svg = std::fs::read_to_string(file.path()).unwrap();
        for words in [
            "IOPS relative to the C driver",
            "Rust loop",
            "1.10",
            "250",
            "where",
            "how",
        ] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
