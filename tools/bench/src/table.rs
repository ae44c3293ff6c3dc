// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The table that a person reads.

use crate::configuration::Configuration;
use crate::metric::Metric;
use crate::summary::Row;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent};
use measuring::Estimate;

/// Columns after job and configuration: heading, what is shown, decimals.
const COLUMNS: [(&str, Metric, usize); 10] = [
    ("IOPS", Metric::Iops, 0),
    ("MiB/s", Metric::Bandwidth, 1),
    ("mean µs", Metric::LatencyMean, 0),
    ("p99 µs", Metric::LatencyP99, 0),
    ("usr %", Metric::User, 0),
    ("sys %", Metric::System, 0),
    ("irq/kIO", Metric::Interrupts, 1),
    ("I/O/irq", Metric::Completions, 2),
    ("drains/irq", Metric::DrainsPerInterrupt, 2),
    ("kicks/kIO", Metric::Kicks, 1),
];

/// What the preset would draw between rows.
const BETWEEN_ROWS: [TableComponent; 4] = [
    TableComponent::HorizontalLines,
    TableComponent::MiddleIntersections,
    TableComponent::LeftBorderIntersections,
    TableComponent::RightBorderIntersections,
];

/// Lays the rows out, with the ratios of IOPS to the C driver's beside the IOPS.
pub fn table(rows: &[Row]) -> Table {
    let mut table = empty(UTF8_HORIZONTAL_ONLY);
    let mut heading = vec!["job", "driver"];
    for (index, (name, ..)) in COLUMNS.iter().enumerate() {
        heading.push(name);
        if index == 0 {
            heading.extend(["of C", "95 %"]);
        }
    }
    table.set_header(heading);
    let mut last_job = "";
    for row in rows {
        let job = if row.job == last_job { "" } else { &row.job };
        last_job = &row.job;
        let mut cells = vec![job.to_owned(), row.configuration.label()];
        for (index, (_, metric, decimals)) in COLUMNS.iter().enumerate() {
            cells.push(median(row.estimate(*metric), *decimals));
            if index == 0 {
                // To itself it has no ratio.
                let c = row.configuration == Configuration::C;
                let ratio = row.ratio(Metric::Iops).filter(|_| !c);
                cells.push(median(ratio, 2));
                cells.push(interval(ratio));
            }
        }
        table.add_row(cells);
    }
    align(&mut table, 2);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table
}

/// A table without rows that is drawn as `preset` says, with nothing between rows.
pub fn empty(preset: &str) -> Table {
    let mut table = Table::new();
    draw_as(&mut table, preset);
    table
}

/// Draws a table as `preset` says, with nothing between rows.
pub fn draw_as(table: &mut Table, preset: &str) {
    table
        .load_preset(preset)
        .set_content_arrangement(ContentArrangement::Disabled);
    for line in BETWEEN_ROWS {
        table.remove_style(line);
    }
}

/// Aligns all columns but the first ones to the right.
pub fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A median, or a dash for what was not measured.
pub fn median(estimate: Option<Estimate>, decimals: usize) -> String {
    estimate.map_or_else(
        || "–".to_owned(),
        |estimate| number(estimate.median, decimals),
    )
}

/// The ends of an interval, or a dash.
pub fn interval(estimate: Option<Estimate>) -> String {
    match estimate.and_then(|estimate| estimate.ci95) {
        Some([low, high]) => format!("{low:.2}–{high:.2}"),
        None => "–".to_owned(),
    }
}

/// Rounds, with a comma between thousands.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(1234567.0, 0), "1,234,567");
        assert_eq!(number(999.96, 1), "1,000.0");
        assert_eq!(number(-1234.5, 1), "-1,234.5");
        assert_eq!(number(12.0, 0), "12");
    }

    #[test]
    fn what_was_not_measured_shows_as_a_dash() {
        assert_eq!(median(None, 0), "–");
        assert_eq!(
            interval(Some(Estimate {
                median: 1.0,
                ci95: None
            })),
            "–"
        );
        let ratio = Estimate {
            median: 1.0,
            ci95: Some([0.958, 1.042]),
        };
        assert_eq!(interval(Some(ratio)), "0.96–1.04");
    }
}
