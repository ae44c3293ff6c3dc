// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Counts and times: all settings take turns at each job in each round.

use crate::configuration::order;
use crate::metric::Metric;
use crate::series::Series;
use crate::suite::catalogue::Scenario;
use crate::suite::extent::Extent;
use crate::suite::guest::Guest;
use crate::suite::results::{Cell, CellResult};
use anyhow::{Context, Result};
use measuring::Progress;
use std::time::Duration;
use vm::Driver;

/// How long the first run of each setting lasts, which fills caches and does not count.
const WARM_UP: Duration = Duration::from_millis(300);

/// The number of steps that [`measure`] reports.
pub fn steps(scenario: &Scenario, extent: Extent) -> u64 {
    let (disks, jobs) = (scenario.disks().len(), scenario.jobs().len());
    let once = (disks * scenario.settings.len()) as u64;
    once + once * jobs as u64 * u64::from(extent.rounds)
}

/// Measures each job on each disk with each setting.
pub fn measure(
    guest: &mut Guest<'_>,
    scenario: &Scenario,
    extent: Extent,
    progress: &mut Progress,
) -> Result<Vec<Cell>> {
    let (jobs, disks) = (scenario.jobs(), guest.disks().len());
    let names = guest.settings();
    let settings: Vec<usize> = (0..names.len()).collect();
    let cells: Vec<_> = (0..disks)
        .flat_map(|disk| jobs.iter().map(move |job| (disk, job)))
        .collect();
    let mut series = vec![vec![Series::default(); settings.len()]; cells.len()];

    for disk in 0..disks {
        for setting in &settings {
            progress.doing(&format!("{}: warm-up", scenario.name));
            guest.select(disk, *setting)?;
            guest.run(&jobs[0], WARM_UP)?;
            progress.done();
        }
    }
    for round in 0..extent.rounds {
        for (index, (disk, job)) in cells.iter().enumerate() {
            for setting in order(&settings, round, index) {
                let label = &names[setting].label;
                progress.doing(&format!("{}: {job}, {label}", scenario.name));
                guest.select(*disk, setting)?;
                let sample = guest
                    .run(job, extent.runtime)
                    .with_context(|| format!("in {job} with {label}"))?;
                for metric in Metric::ALL {
                    let value = metric.of(&sample, None);
                    series[index][setting].push(metric, value);
                }
                progress.done();
            }
        }
    }

    let c = names.iter().position(|s| s.driver == Driver::C.name());
    let kinds: Vec<_> = scenario.figures.iter().copied().collect();
    let cells = std::iter::zip(cells, &series).map(|((disk, job), series)| Cell {
        job: job.to_string(),
        disk: guest.disks()[disk].name.clone(),
        parameters: job.clone(),
        results: std::iter::zip(&names, series)
            .map(|(setting, ours)| {
                CellResult::new(&setting.name, &kinds, ours, c.map(|c| &series[c]))
            })
            .collect(),
    });
    Ok(cells.collect())
}
