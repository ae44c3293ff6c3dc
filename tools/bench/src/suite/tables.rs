// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What was measured as tables, for the terminal and for the report.

use crate::metric::Metric;
use crate::suite::results::{Cell, CellResult, Figure, Measured, Results};
use crate::table::{align, draw_as, empty, interval, median};
use comfy_table::Table;
use cost::Outcome;
use measuring::Estimate;

/// Heading of each count, and decimals.
const COUNTS: [(Metric, &str, usize); 12] = [
    (Metric::Interrupts, "irq/kIO", 1),
    (Metric::Signals, "signals/kIO", 1),
    (Metric::EmptyInterrupts, "empty/kIO", 2),
    (Metric::LateInterrupts, "late/kIO", 2),
    (Metric::TimerFires, "timer/kIO", 1),
    (Metric::Bypasses, "bypass/kIO", 1),
    (Metric::Drains, "drains/kIO", 1),
    (Metric::Kicks, "kicks/kIO", 1),
    (Metric::Completions, "I/O/irq", 1),
    (Metric::Locks, "locks/kIO", 0),
    (Metric::ContendedLocks, "contended/kIO", 2),
    (Metric::Missed, "missed", 0),
];

/// All tables of a scenario.
pub fn all(measured: &Measured, preset: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    if measured
        .cells
        .iter()
        .any(|cell| cell.results.iter().any(|r| !r.counts.is_empty()))
    {
        tables.push(counts(measured, preset));
    }
    if measured
        .cells
        .iter()
        .any(|cell| cell.results.iter().any(|r| !r.wall.is_empty()))
    {
        tables.push(times(measured, preset));
    }
    if !measured.cost.is_empty() {
        let mut table = cost::table::settings(&labelled(measured));
        draw_as(&mut table, preset);
        tables.push(table);
    }
    if !measured.steps.is_empty() {
        tables.push(steps(measured, preset));
    }
    tables
}

/// The costs with labels in the place of the settings' names.
pub fn labelled(measured: &Measured) -> Vec<Outcome> {
    let outcomes = measured.cost.iter().cloned();
    outcomes
        .map(|outcome| Outcome {
            setting: measured.label(&outcome.setting).to_owned(),
            ..outcome
        })
        .collect()
}

/// The dearest functions of some settings beside each other.
pub fn functions(measured: &Measured, most: usize, preset: &str) -> Table {
    let mut table = empty(preset);
    let drivers: Vec<Outcome> = labelled(measured)
        .into_iter()
        .filter(|outcome| !outcome.is_floor())
        .collect();
    let header = drivers.iter().map(|outcome| outcome.setting.clone());
    table.set_header(std::iter::once("function".to_owned()).chain(header));
    let over = |outcome: &Outcome, name: &str| {
        let found = outcome.profile.iter().find(|f| f.function == name);
        found.map_or(0.0, |function| function.over_null_blk)
    };
    let mut names: Vec<&str> = drivers
        .iter()
        .flat_map(|outcome| outcome.profile.iter().map(|f| f.function.as_str()))
        .collect();
    names.sort_unstable();
    names.dedup();
    let dearest = |name: &str| drivers.iter().map(|o| over(o, name)).fold(0.0, f64::max);
    names.sort_by(|a, b| dearest(b).total_cmp(&dearest(a)));
    for name in names.into_iter().take(most) {
        let costs = drivers
            .iter()
            .map(|outcome| format!("{:.0}", over(outcome, name)));
        table.add_row(std::iter::once(format!("`{name}`")).chain(costs));
    }
    align(&mut table, 1);
    table
}

/// What was to be shown.
pub fn goals(results: &Results, preset: &str) -> Table {
    let mut table = empty(preset);
    table.set_header(["figure", "goal", "measured", "95 %", "where", "verdict"]);
    for shown in &results.goals {
        let worst = shown.values.first();
        let place = worst.map(|worst| {
            let scenario = results.scenario(&shown.scenario);
            let label = |name: &str| scenario.map_or(name.to_owned(), |s| s.label(name).to_owned());
            let against = match &worst.against {
                Some(other) if *other != "c" => format!(", against {}", label(other)),
                _ => String::new(),
            };
            let (label, count) = (label(&worst.setting), shown.values.len());
            let met = shown
                .values
                .iter()
                .filter(|v| v.verdict == super::goal::Verdict::Met);
            let of_all = match count {
                1 => String::new(),
                _ => format!(" ({} of {count} met)", met.count()),
            };
            format!("{label}, {}{against}{of_all}", worst.cell)
        });
        let value = worst.map(|worst| worst.value);
        table.add_row([
            shown.figure.clone(),
            shown.goal.clone(),
            value.map_or("–".to_owned(), |value| digits(value.median)),
            value
                .and_then(|v| v.ci95)
                .map_or("–".to_owned(), |[low, high]| {
                    format!("{}–{}", digits(low), digits(high))
                }),
            place.unwrap_or_else(|| "–".to_owned()),
            shown.verdict.to_string(),
        ]);
    }
    table
}

/// What the ratio of a time to the C driver's shows; `more_is_better` is for rates.
pub fn statement(ratio: Option<Estimate>, more_is_better: bool) -> &'static str {
    match ratio.and_then(|ratio| ratio.ci95) {
        None => "too few rounds",
        Some([low, _]) if low > 1.0 => ["slower", "faster"][usize::from(more_is_better)],
        Some([_, high]) if high < 1.0 => ["faster", "slower"][usize::from(more_is_better)],
        Some(_) => "no difference shown",
    }
}

fn counts(measured: &Measured, preset: &str) -> Table {
    let mut table = empty(preset);
    let used = |metric: &Metric| {
        let mut results = measured.cells.iter().flat_map(|cell| &cell.results);
        results.any(|r| {
            r.counts
                .get(metric)
                .is_some_and(|f| f.estimate.median != 0.0)
        })
    };
    let columns: Vec<_> = COUNTS.iter().filter(|(metric, ..)| used(metric)).collect();
    let mut header = vec!["job", "setting"];
    for (metric, heading, _) in &columns {
        header.push(heading);
        if *metric == Metric::Interrupts {
            header.push("of C");
        }
    }
    table.set_header(header);
    for_each(measured, |job, label, result| {
        let mut row = vec![job, label];
        for (metric, _, decimals) in &columns {
            let figure = result.counts.get(metric);
            row.push(median(figure.map(|f| f.estimate), *decimals));
            if *metric == Metric::Interrupts {
                let ratio = figure.and_then(|f| f.ratio_to_c).map(|ratio| ratio.median);
                row.push(ratio.map_or("–".to_owned(), digits));
            }
        }
        table.add_row(row);
    });
    align(&mut table, 2);
    table
}

fn times(measured: &Measured, preset: &str) -> Table {
    let mut table = empty(preset);
    let mut results = measured.cells.iter().flat_map(|cell| &cell.results);
    // Only disks differ in it.
    let kicks = measured.disks.len() > 1
        && results.any(|result| result.wall.contains_key(&Metric::KickTime));
    let mut header = vec![
        "job",
        "setting",
        "IOPS",
        "of C",
        "95 %",
        "shown",
        "mean µs of C",
        "95 %",
        "p99 µs of C",
        "95 %",
    ];
    if kicks {
        header.push("kick ns");
    }
    table.set_header(header);
    for_each(measured, |job, label, result| {
        let figure = |metric| result.wall.get(&metric);
        let ratio = |metric| {
            let of_c = figure(metric).and_then(|figure: &Figure| figure.ratio_to_c);
            of_c.filter(|_| !measured.is_c(&result.setting))
        };
        let (iops, mean, p99) = (
            ratio(Metric::Iops),
            ratio(Metric::LatencyMean),
            ratio(Metric::LatencyP99),
        );
        let shown = match iops {
            None => "–",
            some => statement(some, true),
        };
        let mut row = vec![
            job,
            label,
            median(figure(Metric::Iops).map(|f| f.estimate), 0),
            median(iops, 2),
            interval(iops),
            shown.to_owned(),
            median(mean, 3),
            interval(mean),
            median(p99, 2),
            interval(p99),
        ];
        if kicks {
            row.push(median(figure(Metric::KickTime).map(|f| f.estimate), 0));
        }
        table.add_row(row);
    });
    align(&mut table, 2);
    table
}

fn steps(measured: &Measured, preset: &str) -> Table {
    let mut table = empty(preset);
    table.set_header([
        "setting",
        "step up: reached, ms",
        "settled, ms",
        "step down: reached, ms",
        "settled, ms",
        "changes",
    ]);
    for step in &measured.steps {
        table.add_row([
            measured.label(&step.setting).to_owned(),
            format!("{:.0}", step.reach_up_ms),
            format!("{:.0}", step.settle_up_ms),
            format!("{:.0}", step.reach_down_ms),
            format!("{:.0}", step.settle_down_ms),
            step.changes.len().to_string(),
        ]);
    }
    align(&mut table, 1);
    table
}

/// Calls `row` with the job, where it differs from the row before, and the setting's label.
fn for_each(measured: &Measured, mut row: impl FnMut(String, String, &CellResult)) {
    for cell in &measured.cells {
        let mut name = Cell::name(cell, measured);
        for result in &cell.results {
            let label = measured.label(&result.setting).to_owned();
            row(std::mem::take(&mut name), label, result);
        }
    }
}

/// Three significant digits, but no more than three decimals.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::results::tests::{cell, measured};
    use comfy_table::presets::ASCII_MARKDOWN;

    #[test]
    fn a_claim_needs_an_interval_without_one() {
        let ratio = |low, high| {
            Some(Estimate {
                median: 1.1,
                ci95: Some([low, high]),
            })
        };
        assert_eq!(statement(ratio(1.05, 1.2), true), "faster");
        assert_eq!(statement(ratio(1.05, 1.2), false), "slower");
        assert_eq!(statement(ratio(0.8, 0.9), false), "faster");
        assert_eq!(statement(ratio(0.99, 1.2), true), "no difference shown");
        let few = Estimate {
            median: 2.0,
            ci95: None,
        };
        assert_eq!(statement(Some(few), true), "too few rounds");
    }

    #[test]
    fn counts_and_times_have_tables_of_their_own() {
        let counted = cell(Metric::Interrupts, &[3.0; 6], &[300.0; 6]);
        let tables = all(&measured("s", vec![counted]), ASCII_MARKDOWN);
        assert_eq!(tables.len(), 1);
        let text = tables[0].to_string();
        assert!(text.contains("irq/kIO") && text.contains("0.010"), "{text}");
        let timed = cell(Metric::Iops, &[120.0; 6], &[100.0; 6]);
        let tables = all(&measured("s", vec![timed]), ASCII_MARKDOWN);
        let text = tables[0].to_string();
        assert!(
            text.contains("1.20–1.20") && text.contains("faster"),
            "{text}"
        );
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        assert_eq!(digits(0.004), "0.004");
        assert_eq!(digits(1.234), "1.23");
        assert_eq!(digits(123.4), "123");
    }
}
