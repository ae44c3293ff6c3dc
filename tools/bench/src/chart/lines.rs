// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Lines over an axis, each of which may be logarithmic.

use super::{builder, draw_interval, draw_text, figure, tick, top, Area, Drawn, Picture, MEDIUM};
use measuring::Estimate;
use plotters::prelude::*;
use plotters::style::text_anchor::VPos;

/// What a logarithmic axis shows of zero.
const LEAST: f64 = 0.1;

/// A diagram of lines.
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// What the horizontal axis is.
    pub x_title: String,
    /// How it is divided.
    pub x: Scale,
    /// How the vertical axis is divided.
    pub y: Scale,
    /// The lines.
    pub lines: Vec<Line>,
    /// Places on the horizontal axis with a name.
    pub marks: Vec<(f64, String)>,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By doubling, or tenfold.
    Log,
}

/// A line.
pub struct Line {
    /// Number of its series.
    pub series: usize,
    /// Its points from left to right.
    pub points: Vec<(f64, Estimate)>,
    /// Whether a value holds until the next one.
    pub step: bool,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(LEAST).log10(),
        }
    }

    fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => 10f64.powf(place),
        }
    }
}

impl Lines {
    pub(super) fn draw(&self, area: &Area<'_>, picture: &Picture) -> Drawn {
        let (x, y) = (self.x, self.y);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let places = points().map(|(value, _)| x.place(*value));
        let (left, right) = places.fold((f64::MAX, f64::MIN), |(low, high), place| {
            (low.min(place), high.max(place))
        });
        let highest = points().map(|(_, value)| top(*value)).fold(LEAST, f64::max);
        let lowest = points().map(|(_, v)| y.place(v.median)).fold(0.0, f64::min);
        let ceiling = match y {
            Scale::Linear => highest * 1.1,
            Scale::Log => y.place(highest) + 0.2,
        };
        if left >= right {
            return Ok(());
        }
        let mut chart =
            builder(area, &self.title).build_cartesian_2d(left..right, lowest..ceiling)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(if x == Scale::Linear { 10 } else { 0 })
            .x_label_formatter(&|place| figure_or_zero(x.value(*place)))
            .y_labels(6)
            .y_max_light_lines(0)
            .y_label_formatter(&|place| match y {
                Scale::Linear => tick(*place, highest),
                Scale::Log => figure(y.value(*place)),
            })
            .axis_style(RGBColor(150, 150, 150))
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 13).into_font())
            .draw()?;
        for (place, name) in &self.marks {
            let place = x.place(*place).clamp(left, right);
            let line = [(place, lowest), (place, ceiling)];
            chart.draw_series([PathElement::new(line, MEDIUM.stroke_width(1))])?;
            let (x, y) = chart.backend_coord(&(place, ceiling));
            // To the right of the line.
            let offset = 4 + 3 * name.chars().count() as i32;
            draw_text(area, name, (x + offset, y), 12, VPos::Top)?;
        }
        for line in &self.lines {
            let colour = picture.colour(line.series);
            let points = line.points.iter();
            let points = points.map(|(at, value)| (x.place(*at), y.place(value.median)));
            let corners = if line.step {
                stairs(points)
            } else {
                points.collect()
            };
            chart.draw_series([PathElement::new(corners, colour.stroke_width(2))])?;
            if line.step {
                continue;
            }
            for (at, value) in &line.points {
                let (at, [low, high]) = (x.place(*at), value.ci95.unwrap_or([value.median; 2]));
                let cap = (right - left) / 300.0;
                draw_interval(&mut chart, at, cap, [y.place(low), y.place(high)])?;
                let dot = Circle::new((at, y.place(value.median)), 3, colour.filled());
                chart.draw_series([dot])?;
            }
        }
        if x == Scale::Log {
            let mut values: Vec<f64> = points().map(|(value, _)| *value).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            for value in values {
                let (at, bottom) = chart.backend_coord(&(x.place(value), lowest));
                draw_text(area, &format!("{value}"), (at, bottom + 8), 13, VPos::Top)?;
            }
        }
        let (at, bottom) = chart.backend_coord(&((left + right) / 2.0, lowest));
        draw_text(area, &self.x_title, (at, bottom + 26), 13, VPos::Top)
    }
}

/// The corners of a line that holds each value until the next.
fn stairs(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some((_, last)) = corners.last() {
            corners.push((x, *last));
        }
        corners.push((x, y));
    }
    corners
}

fn figure_or_zero(value: f64) -> String {
    match value.abs() < 1e-9 {
        true => "0".to_owned(),
        false => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_hold_each_value() {
        let corners = stairs([(0.0, 1.0), (2.0, 5.0)].into_iter());
        assert_eq!(corners, [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0)]);
    }

    #[test]
    fn zero_has_a_place_on_a_logarithmic_axis() {
        assert_eq!(Scale::Log.place(0.0), -1.0);
        assert_eq!(Scale::Log.place(100.0), 2.0);
        assert!((Scale::Log.value(2.0) - 100.0).abs() < 1e-9);
        assert_eq!(Scale::Linear.place(7.0), 7.0);
    }
}
