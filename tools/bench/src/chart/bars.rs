// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Groups of bars, a bar a series.

use super::{builder, draw_interval, draw_text, figure, tick, top, Area, Drawn, Picture, MEDIUM};
use measuring::Estimate;
use plotters::prelude::*;
use plotters::style::text_anchor::VPos;

/// Share of a group's width that its bars take; the rest separates it from the next.
const GROUP: f64 = 0.76;

/// Height of the diagram over its highest bar, for the number that stands there.
const ROOM: f64 = 1.18;

/// A diagram of bars.
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// The groups' names.
    pub groups: Vec<String>,
    /// Where a line marks what is neither better nor worse.
    pub reference: Option<f64>,
    /// The bars in any order.
    pub bars: Vec<Bar>,
}

/// A bar.
pub struct Bar {
    /// Number of its group.
    pub group: usize,
    /// Number of its series.
    pub series: usize,
    /// Its height and the interval.
    pub value: Estimate,
}

impl Bars {
    pub(super) fn draw(&self, area: &Area<'_>, picture: &Picture) -> Drawn {
        let tops = self.bars.iter().map(|bar| top(bar.value));
        let highest = tops.chain(self.reference).fold(f64::MIN_POSITIVE, f64::max);
        let groups = self.groups.len() as f64;
        let mut chart =
            builder(area, &self.title).build_cartesian_2d(0.0..groups, 0.0..highest * ROOM)?;
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
        if let Some(reference) = self.reference {
            let line = [(0.0, reference), (groups, reference)];
            chart.draw_series([PathElement::new(line, MEDIUM.stroke_width(1))])?;
        }
        let mut series: Vec<usize> = self.bars.iter().map(|bar| bar.series).collect();
        series.sort_unstable();
        series.dedup();
        let width = GROUP / series.len().max(1) as f64;
        // Wide enough for the number above it.
        let size = if width * 860.0 / groups < 30.0 { 9 } else { 12 };
        for bar in &self.bars {
            let place = series.binary_search(&bar.series).unwrap_or_default();
            let left = bar.group as f64 + (1.0 - GROUP) / 2.0 + place as f64 * width;
            let (inset, value) = (0.06 * width, bar.value.median);
            let corners = [(left + inset, 0.0), (left + width - inset, value)];
            let colour = picture.colour(bar.series).filled();
            chart.draw_series([Rectangle::new(corners, colour)])?;
            let middle = left + width / 2.0;
            if let Some(ends) = bar.value.ci95 {
                draw_interval(&mut chart, middle, 0.12 * width, ends)?;
            }
            let (x, y) = chart.backend_coord(&(middle, top(bar.value)));
            draw_text(area, &figure(value), (x, y - 4), size, VPos::Bottom)?;
        }
        for (index, group) in self.groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(index as f64 + 0.5, 0.0));
            draw_text(area, group, (x, y + 8), 14, VPos::Top)?;
        }
        Ok(())
    }
}
