// SPDX-License-Identifier: GPL-2.0

//! The picture: IOPS relative to the C driver, and interrupts, by job and configuration.

use crate::configuration::Configuration;
use crate::metric::Metric;
use crate::summary::Row;
use anyhow::{anyhow, Result};
use measuring::Estimate;
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: u32 = 1000;
const HEAD: i32 = 96;
const PANEL: i32 = 320;

/// Share of a job's width that its bars take; the rest separates it from the next.
const GROUP: f64 = 0.76;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// One diagram of the two.
struct Panel {
    title: &'static str,
    /// The bar's height.
    value: fn(&Row) -> Option<Estimate>,
    /// Where a line marks what is neither better nor worse.
    reference: Option<f64>,
}

const RATIO: Panel = Panel {
    title: "IOPS relative to the C driver (higher is better)",
    value: |row| match row.configuration {
        Configuration::C => None,
        _ => row.ratio(Metric::Iops),
    },
    reference: Some(1.0),
};

const IOPS: Panel = Panel {
    title: "IOPS",
    value: |row| row.estimate(Metric::Iops),
    reference: None,
};

const INTERRUPTS: Panel = Panel {
    title: "Interrupts per 1,000 I/Os (lower is better)",
    value: |row| row.estimate(Metric::Interrupts),
    reference: None,
};

/// Draws the rows to an SVG file.
pub fn draw(path: &Path, rows: &[Row], caption: &[String; 2]) -> Result<()> {
    let height = (HEAD + 2 * PANEL) as u32;
    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    // Errors of the backend borrow from it, so only their text can be handed on.
    draw_all(&root, rows, caption).map_err(|error| anyhow!("{error}"))
}

fn draw_all(
    root: &Area<'_>,
    rows: &[Row],
    caption: &[String; 2],
) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    let title = ("sans-serif", 22).into_font().color(&BLACK);
    head.draw(&Text::new(
        "virtio-blk drivers on one disk in one boot",
        (24, 14),
        title,
    ))?;
    for (line, text) in caption.iter().enumerate() {
        let style = ("sans-serif", 13).into_font().color(&RGBColor(90, 90, 90));
        head.draw(&Text::new(
            text.as_str(),
            (24, 44 + 18 * line as i32),
            style,
        ))?;
    }
    draw_legend(&head, rows)?;
    let (top, bottom) = body.split_vertically(PANEL);
    let compared = rows.iter().any(|row| (RATIO.value)(row).is_some());
    draw_panel(&top, rows, if compared { &RATIO } else { &IOPS })?;
    draw_panel(&bottom, rows, &INTERRUPTS)?;
    root.present()?;
    Ok(())
}

fn draw_legend(head: &Area<'_>, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    let configurations = configurations(rows);
    let mut x = WIDTH as i32 - 24 - 118 * configurations.len() as i32;
    for configuration in configurations {
        head.draw(&Rectangle::new(
            [(x, 18), (x + 14, 32)],
            color(configuration).filled(),
        ))?;
        let style = ("sans-serif", 14).into_font().color(&BLACK);
        head.draw(&Text::new(configuration.label(), (x + 20, 18), style))?;
        x += 118;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    rows: &[Row],
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    let shown: Vec<&Row> = rows
        .iter()
        .filter(|row| (panel.value)(row).is_some())
        .collect();
    let mut jobs: Vec<&str> = rows.iter().map(|row| row.job.as_str()).collect();
    jobs.dedup();
    let tops = shown.iter().filter_map(|row| (panel.value)(row)).map(top);
    let highest = tops
        .chain(panel.reference)
        .fold(f64::MIN_POSITIVE, f64::max);

    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 16).into_font().color(&BLACK))
        .margin(14)
        .margin_right(24)
        .x_label_area_size(30)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..jobs.len() as f64, 0.0..highest * 1.18)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .y_max_light_lines(0)
        .y_label_formatter(&|value| tick(*value, highest))
        .axis_style(RGBColor(150, 150, 150))
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style(("sans-serif", 13).into_font())
        .draw()?;
    if let Some(reference) = panel.reference {
        let line = [(0.0, reference), (jobs.len() as f64, reference)];
        chart.draw_series([PathElement::new(line, RGBColor(90, 90, 90).stroke_width(1))])?;
    }
    let mut bars: Vec<Configuration> = shown.iter().map(|row| row.configuration).collect();
    bars.sort();
    bars.dedup();
    for row in shown {
        let job = jobs
            .iter()
            .position(|job| *job == row.job)
            .unwrap_or_default();
        let place = bars
            .iter()
            .position(|bar| *bar == row.configuration)
            .unwrap_or_default();
        let width = GROUP / bars.len() as f64;
        let left = job as f64 + (1.0 - GROUP) / 2.0 + place as f64 * width;
        if let Some(estimate) = (panel.value)(row) {
            draw_bar(
                area,
                &mut chart,
                left,
                width,
                estimate,
                color(row.configuration),
            )?;
        }
    }
    for (index, job) in jobs.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(index as f64 + 0.5, 0.0));
        draw_text(area, job, (x, y + 8), 14, VPos::Top)?;
    }
    Ok(())
}

fn draw_bar<'b>(
    area: &Area<'b>,
    chart: &mut Chart<'_, 'b>,
    left: f64,
    width: f64,
    estimate: Estimate,
    color: RGBColor,
) -> Result<(), Box<dyn std::error::Error>> {
    let (inset, value) = (0.06 * width, estimate.median);
    let corners = [(left + inset, 0.0), (left + width - inset, value)];
    chart.draw_series([Rectangle::new(corners, color.filled())])?;
    let (middle, cap) = (left + width / 2.0, 0.12 * width);
    if let Some([low, high]) = estimate.ci95 {
        let lines = [
            [(middle, low), (middle, high)],
            [(middle - cap, low), (middle + cap, low)],
            [(middle - cap, high), (middle + cap, high)],
        ];
        let style = RGBColor(40, 40, 40).stroke_width(1);
        chart.draw_series(lines.map(|line| PathElement::new(line, style)))?;
    }
    let (x, y) = chart.backend_coord(&(middle, top(estimate)));
    draw_text(area, &figure(value), (x, y - 4), 12, VPos::Bottom)
}

/// Writes centred text at a position of the whole picture.
fn draw_text(
    area: &Area<'_>,
    text: &str,
    (x, y): (i32, i32),
    size: i32,
    vertical: VPos,
) -> Result<(), Box<dyn std::error::Error>> {
    let (origin_x, origin_y) = area.get_base_pixel();
    let style = ("sans-serif", size)
        .into_font()
        .color(&RGBColor(40, 40, 40));
    let style = style.pos(Pos::new(HPos::Center, vertical));
    area.draw(&Text::new(
        text.to_owned(),
        (x - origin_x, y - origin_y),
        style,
    ))?;
    Ok(())
}

fn configurations(rows: &[Row]) -> Vec<Configuration> {
    let mut all: Vec<_> = rows.iter().map(|row| row.configuration).collect();
    all.sort();
    all.dedup();
    all
}

/// Colours that people with any kind of colour vision tell apart.
fn color(configuration: Configuration) -> RGBColor {
    match configuration {
        Configuration::C => RGBColor(128, 128, 128),
        Configuration::Off => RGBColor(230, 159, 0),
        Configuration::Loop => RGBColor(0, 114, 178),
        Configuration::Delayed => RGBColor(0, 158, 115),
    }
}

fn top(estimate: Estimate) -> f64 {
    estimate
        .ci95
        .map_or(estimate.median, |[_, high]| high.max(estimate.median))
}

fn tick(value: f64, highest: f64) -> String {
    if highest < 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Three significant digits.
fn figure(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
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
