// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The table that a person reads: a row for each disk, and for each queue if it has several.

use crate::change::Change;
use crate::figure::{Figure, FIGURES};
use crate::report::Report;

/// The heading of the first column.
const NAME: &str = "disk";

/// Least width of a column, so that it does not move with every digit.
const LEAST_WIDTH: usize = 6;

/// Lays a report out in lines of at most `width` columns. What does not fit is left out, the least
/// important figures first.
pub fn lines(report: &Report, width: usize) -> Vec<String> {
    if report.disks.is_empty() {
        return vec![cut("no disk is bound to the driver".to_owned(), width)];
    }
    let rows = rows(report);
    let name_width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let name_width = name_width.max(NAME.len());
    let columns = FIGURES.iter().map(|figure| Column::new(figure, &rows));
    let columns = choose(columns.collect(), width.saturating_sub(name_width));
    let line = |name: &str, cell: &dyn Fn(&Column<'_>) -> String| {
        let cells = columns.iter().map(|column| {
            let width = column.width;
            format!(" {:>width$}", cell(column))
        });
        cut(
            format!("{name:name_width$}{}", cells.collect::<String>()),
            width,
        )
    };
    let head = line(NAME, &|column| column.figure.heading.to_owned());
    let body = rows
        .iter()
        .map(|(name, change)| line(name, &|column| cell(column.figure, change)));
    std::iter::once(head).chain(body).collect()
}

fn rows(report: &Report) -> Vec<(String, &Change)> {
    let mut rows = Vec::new();
    for disk in &report.disks {
        rows.push((disk.name.clone(), &disk.total));
        if disk.queues.len() > 1 {
            let queues = disk.queues.iter();
            rows.extend(queues.map(|(number, change)| (format!("  queue{number}"), change)));
        }
    }
    rows
}

/// A column, as wide as what is in it.
struct Column<'a> {
    figure: &'a Figure,
    width: usize,
}

impl<'a> Column<'a> {
    fn new(figure: &'a Figure, rows: &[(String, &Change)]) -> Self {
        let cells = rows.iter().map(|(_, change)| cell(figure, change).len());
        let widest = cells.max().unwrap_or_default();
        Self {
            figure,
            width: widest.max(figure.heading.len()).max(LEAST_WIDTH),
        }
    }
}

/// Keeps the most important columns that fit together, in their order.
fn choose(columns: Vec<Column<'_>>, mut room: usize) -> Vec<Column<'_>> {
    let mut by_rank: Vec<_> = columns.iter().collect();
    by_rank.sort_by_key(|column| column.figure.rank);
    let mut kept = Vec::new();
    for column in by_rank {
        let Some(left) = room.checked_sub(column.width + 1) else {
            break;
        };
        room = left;
        kept.push(column.figure.rank);
    }
    let mut columns = columns;
    columns.retain(|column| kept.contains(&column.figure.rank));
    columns
}

fn cell(figure: &Figure, change: &Change) -> String {
    match figure.of(change) {
        Some(value) => format!("{value:.*}", figure.decimals),
        None => "-".to_owned(),
    }
}

/// Everything here is ASCII.
fn cut(mut line: String, width: usize) -> String {
    line.truncate(width);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::DiskReport;
    use std::time::SystemTime;

    fn change(completions: u64, interrupts: u64) -> Change {
        let added = [("completions", completions), ("interrupts", interrupts)];
        Change {
            seconds: 1.0,
            added: added.map(|(name, count)| (name.to_owned(), count)).into(),
            ..Change::default()
        }
    }

    fn report() -> Report {
        let one = DiskReport {
            name: "vda".into(),
            total: change(30, 4),
            queues: vec![(0, change(30, 4))],
        };
        let two = DiskReport {
            name: "vdb".into(),
            total: change(123_456_789, 0),
            queues: vec![(0, change(123_456_780, 0)), (11, change(9, 0))],
        };
        Report {
            time: SystemTime::UNIX_EPOCH,
            seconds: 1.0,
            disks: vec![one, two],
        }
    }

    #[test]
    fn several_queues_have_a_row_each() {
        let lines = lines(&report(), 1000);
        let names: Vec<_> = lines.iter().map(|line| &line[..9]).collect();
        let right = [
            "disk     ",
            "vda      ",
            "vdb      ",
            "  queue0 ",
            "  queue11",
        ];
        assert_eq!(names, right);
    }

    #[test]
    fn figures_stand_below_their_headings() {
        let lines = lines(&report(), 1000);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        assert_eq!(words(&lines[0])[..4], ["disk", "IOPS", "irq/s", "signal/s"]);
        assert_eq!(words(&lines[1])[..5], ["vda", "30", "4", "-", "7.50"]);
        assert_eq!(words(&lines[2])[..5], ["vdb", "123456789", "0", "-", "-"]);
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{lines:#?}"
        );
    }

    #[test]
    fn every_width_is_kept_and_used_by_importance() {
        let full = lines(&report(), 1000)[0].len();
        let mut last = 0;
        for width in 0..=full + 1 {
            let lines = lines(&report(), width);
            assert!(
                lines.iter().all(|line| line.len() <= width),
                "{width}: {lines:#?}"
            );
            let columns = lines[0].split_whitespace().count();
            assert!(width < 10 || columns >= last, "{width}: {lines:#?}");
            last = columns;
        }
        assert_eq!(last, FIGURES.len() + 1);
        let narrow = lines(&report(), 40)[0].clone();
        let words: Vec<_> = narrow.split_whitespace().collect();
        assert_eq!(words, ["disk", "IOPS", "irq/s", "I/O/irq"]);
    }

    #[test]
    fn no_disk_is_said() {
        let report = Report {
            time: SystemTime::UNIX_EPOCH,
            seconds: 1.0,
            disks: Vec::new(),
        };
        assert_eq!(lines(&report, 80), ["no disk is bound to the driver"]);
        assert_eq!(lines(&report, 7), ["no disk"]);
    }
}
