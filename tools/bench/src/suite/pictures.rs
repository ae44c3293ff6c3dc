// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Which pictures are drawn of which scenarios.

use crate::chart::{Bar, Bars, Line, Lines, Panel, Picture, Scale};
use crate::metric::Metric;
use crate::suite::results::{Figure, Measured, Results};
use crate::suite::tables::labelled;
use anyhow::Result;
use cost::chart;
use measuring::Estimate;
use std::path::Path;

/// File names of the pictures that were drawn, by scenario.
pub type Drawn = Vec<(String, String)>;

/// Draws all that can be drawn.
pub fn draw(results: &Results, folder: &Path) -> Result<Drawn> {
    let mut drawn = Vec::new();
    for measured in &results.scenarios {
        let name = format!("bench-{}.svg", measured.name);
        let path = folder.join(&name);
        if !measured.cost.is_empty() {
            let kernel = &measured.environment.guest_kernel;
            chart::draw(kernel, &labelled(measured), &path)?;
        } else if let Some(picture) = picture(measured) {
            picture.draw(&path)?;
        } else {
            continue;
        }
        drawn.push((measured.name.clone(), name));
    }
    Ok(drawn)
}

fn picture(measured: &Measured) -> Option<Picture> {
    let mut panels = Vec::new();
    let mut series: Vec<String> = measured.settings.iter().map(|s| s.label.clone()).collect();
    let mut yardstick = measured
        .settings
        .first()
        .is_some_and(|s| measured.is_c(&s.name));
    if !measured.steps.is_empty() {
        panels.extend(steps(measured));
        series = ["N: completions", "T: µs", "requests a second"]
            .map(str::to_owned)
            .into();
        yardstick = false;
    } else if has_depths(measured) {
        panels.push(depths(measured, Metric::Interrupts, Scale::Log));
        panels.push(depths(measured, Metric::Iops, Scale::Linear));
    } else {
        for (metric, title, ratio) in [
            (
                Metric::Iops,
                "IOPS relative to the C driver (higher is better)",
                true,
            ),
            (
                Metric::LatencyMean,
                "Mean latency relative to the C driver (lower is better)",
                true,
            ),
            (
                Metric::Signals,
                "Signals of the device per 1,000 I/Os (lower is better)",
                false,
            ),
            (
                Metric::Interrupts,
                "Interrupts per 1,000 I/Os (lower is better)",
                false,
            ),
            (
                Metric::LateInterrupts,
                "Signals while the handler ran, per 1,000 I/Os (lower is better)",
                false,
            ),
            (
                Metric::KickTime,
                "Median time of a kick in ns (lower is better)",
                false,
            ),
            (
                Metric::ContendedLocks,
                "Contended locks per 1,000 I/Os (lower is better)",
                false,
            ),
        ] {
            let single = measured
                .cells
                .iter()
                .all(|cell| cell.parameters.depth() == 1);
            let wanted = match metric {
                Metric::LatencyMean => single,
                Metric::Iops => !single,
                Metric::Interrupts => !has(measured, Metric::Signals),
                // Only disks differ in it.
                Metric::KickTime => measured.disks.len() > 1,
                _ => true,
            };
            if wanted {
                panels.extend(bars(measured, metric, title, ratio));
            }
        }
    }
    (!panels.is_empty()).then(|| Picture {
        title: measured.title.clone(),
        caption: caption(measured).into(),
        series,
        yardstick,
        panels,
    })
}

/// Two lines that say where a picture comes from.
fn caption(measured: &Measured) -> [String; 2] {
    let environment = &measured.environment;
    [
        format!(
            "Linux {}, {} ({}), {} vCPU, {} rounds of {} s",
            environment.guest_kernel,
            environment.qemu,
            environment.accelerator.to_uppercase(),
            environment.guest_vcpus,
            measured.rounds,
            measured.runtime_s,
        ),
        format!(
            "medians and their 95 % intervals; {}; vbr bench --scenario {}",
            environment.date, measured.name
        ),
    ]
}

fn has(measured: &Measured, metric: Metric) -> bool {
    let mut results = measured.cells.iter().flat_map(|cell| &cell.results);
    results.any(|result| result.figure(metric).is_some())
}

/// Whether the cells differ in depth only, so that it can be an axis.
fn has_depths(measured: &Measured) -> bool {
    let mut depths: Vec<u32> = measured
        .cells
        .iter()
        .map(|c| c.parameters.depth())
        .collect();
    depths.dedup();
    depths.len() > 2 && depths.is_sorted() && depths.len() == measured.cells.len()
}

fn depths(measured: &Measured, metric: Metric, y: Scale) -> Panel {
    let line = |(series, setting): (usize, &String)| Line {
        series,
        points: measured
            .cells
            .iter()
            .filter_map(|cell| {
                let figure = cell.result(setting)?.figure(metric)?;
                Some((f64::from(cell.parameters.depth()), figure.estimate))
            })
            .collect(),
        step: false,
    };
    let names: Vec<String> = measured.settings.iter().map(|s| s.name.clone()).collect();
    Panel::Lines(Lines {
        title: match metric {
            Metric::Interrupts => "Interrupts per 1,000 I/Os".to_owned(),
            _ => "IOPS (only ratios within this boot mean something)".to_owned(),
        },
        x_title: "requests in flight".to_owned(),
        x: Scale::Log,
        y,
        lines: names.iter().enumerate().map(line).collect(),
        marks: Vec::new(),
    })
}

/// Bars a cell and setting, of ratios to the C driver or of the figures themselves; nothing if no
/// cell has the figure.
fn bars(measured: &Measured, metric: Metric, title: &str, ratio: bool) -> Option<Panel> {
    let mut bars = Vec::new();
    for (group, cell) in measured.cells.iter().enumerate() {
        for (series, setting) in measured.settings.iter().enumerate() {
            let figure = cell.result(&setting.name).and_then(|r| r.figure(metric));
            let value = match ratio {
                true => figure.and_then(|figure: &Figure| figure.ratio_to_c),
                false => figure.map(|figure| figure.estimate),
            };
            // Of itself the C driver has no ratio.
            let value = value.filter(|_| !ratio || !measured.is_c(&setting.name));
            bars.extend(value.map(|value| Bar {
                group,
                series,
                value,
            }));
        }
    }
    let any = bars.iter().any(|bar| bar.value.median > 0.0);
    any.then(|| {
        let groups = measured
            .cells
            .iter()
            .map(|cell| match cell.parameters.pace {
                // The paces are all that differs.
                Some(_) => cell.job.rsplit(", ").next().unwrap_or(&cell.job).to_owned(),
                None if measured.disks.len() > 1 => cell.disk.clone(),
                None => cell.job.clone(),
            });
        Panel::Bars(Bars {
            title: title.to_owned(),
            groups: groups.collect(),
            reference: ratio.then_some(1.0),
            bars,
        })
    })
}

/// N, T and IOPS over time, of the run in the middle by the time that it took to settle.
fn steps(measured: &Measured) -> Vec<Panel> {
    let mut steps: Vec<_> = measured.steps.iter().collect();
    steps.sort_by(|a, b| a.settle_up_ms.total_cmp(&b.settle_up_ms));
    let Some(step) = steps.get(steps.len() / 2) else {
        return Vec::new();
    };
    let plain = |median| Estimate { median, ci95: None };
    let panel = |title: &str, points: Vec<(f64, Estimate)>, series, step_wise| {
        Panel::Lines(Lines {
            title: title.to_owned(),
            x_title: "ms since the step from 1 to 128 requests in flight".to_owned(),
            x: Scale::Linear,
            y: Scale::Linear,
            lines: vec![Line {
                series,
                points,
                step: step_wise,
            }],
            marks: vec![(0.0, "up".to_owned()), (step.down_ms, "down".to_owned())],
        })
    };
    let held = |of: fn(&crate::suite::steps::Change) -> f64| {
        let changes = step.changes.iter();
        // The first change may be much older.
        let first = step.iops.first().map_or(0.0, |(ms, _)| *ms);
        let mut points: Vec<_> = changes
            .map(|change| (change.ms.max(first), plain(of(change))))
            .collect();
        if let Some((_, last)) = points.last().copied() {
            points.push((step.end_ms, last));
        }
        points
    };
    let iops = step.iops.iter().map(|(ms, iops)| (*ms, plain(*iops)));
    vec![
        panel("N: completions that end a wait", held(|c| c.reqs), 0, true),
        panel("T: longest wait in µs", held(|c| c.usecs), 1, true),
        panel("Requests a second", iops.collect(), 2, false),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::tests::{cell, measured};
    use crate::suite::steps::{Change, Step};

    fn drawn(measured: Measured) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::default();
        results.put(measured);
        let drawn = draw(&results, folder.path()).unwrap();
        assert_eq!(drawn, [("s".to_owned(), "bench-s.svg".to_owned())]);
        std::fs::read_to_string(folder.path().join("bench-s.svg")).unwrap()
    }

    #[test]
    fn cells_become_bars() {
        let svg = drawn(measured(
            "s",
            vec![cell(Metric::Interrupts, &[7.0; 6], &[9.0; 6])],
        ));
        assert!(
            svg.contains("Interrupts per 1,000") && svg.contains("7.00"),
            "{svg}"
        );
    }

    #[test]
    fn depths_become_an_axis() {
        let cells = [1, 8, 64].map(|depth| {
            let mut cell = cell(Metric::Interrupts, &[7.0; 6], &[9.0; 6]);
            cell.parameters.iodepth = depth;
            cell
        });
        let svg = drawn(measured("s", cells.into()));
        assert!(
            svg.contains("requests in flight") && svg.contains("64"),
            "{svg}"
        );
    }

    #[test]
    fn a_load_step_becomes_three_diagrams() {
        let change = |ms, reqs| Change {
            ms,
            depth: 1.0,
            reqs,
            usecs: 50.0,
        };
        let mut measured = measured("s", Vec::new());
        measured.steps.push(Step {
            setting: "x".into(),
            down_ms: 2000.0,
            end_ms: 3500.0,
            reach_up_ms: 40.0,
            settle_up_ms: 40.0,
            reach_down_ms: 20.0,
            settle_down_ms: 20.0,
            changes: vec![
                change(-9000.0, 0.0),
                change(40.0, 32.0),
                change(2020.0, 0.0),
            ],
            iops: vec![(-1500.0, 900.0), (0.0, 40000.0), (3500.0, 900.0)],
        });
        let svg = drawn(measured);
        for words in [
            "N: completions",
            "T: longest wait",
            "Requests a second",
            "down",
        ] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
