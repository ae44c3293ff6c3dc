// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Pictures: panels of bars or lines below a heading, one colour a series.

mod bars;
mod lines;

pub use bars::{Bar, Bars};
pub use lines::{Line, Lines, Scale};

use anyhow::{anyhow, Context, Result};
use measuring::Estimate;
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: u32 = 1000;
const HEAD: i32 = 96;
const PANEL: i32 = 320;

/// Height of a line of the legend, and pixels of a letter in it.
const LEGEND: i32 = 22;
const LETTER: i32 = 8;

const DARK: RGBColor = RGBColor(40, 40, 40);
const MEDIUM: RGBColor = RGBColor(90, 90, 90);

/// What everything is compared with.
const YARDSTICK: RGBColor = RGBColor(128, 128, 128);

/// Colours that people with any kind of colour vision tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// A picture.
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// Where it comes from: up to two lines.
    pub caption: Vec<String>,
    /// What the colours mean; the first one is grey if it is the yardstick.
    pub series: Vec<String>,
    /// Whether the first series is the yardstick.
    pub yardstick: bool,
    /// The diagrams, from top to bottom.
    pub panels: Vec<Panel>,
}

/// One diagram.
pub enum Panel {
    /// Groups of bars.
    Bars(Bars),
    /// Lines over an axis.
    Lines(Lines),
}

impl Picture {
    /// Draws the picture to an SVG file.
    pub fn draw(&self, path: &Path) -> Result<()> {
        let legend = LEGEND * self.legend().last().map_or(0, |(_, _, line)| line + 1);
        let height = HEAD + legend + PANEL * self.panels.len() as i32;
        let root = SVGBackend::new(path, (WIDTH, height as u32)).into_drawing_area();
        // Errors of the backend borrow from it, so only their text can be handed on.
        self.draw_all(&root, HEAD + legend)
            .map_err(|error| anyhow!("{error}"))
            .with_context(|| format!("cannot draw {}", path.display()))
    }

    fn draw_all(&self, root: &Area<'_>, head: i32) -> Drawn {
        root.fill(&WHITE)?;
        let (head, mut rest) = root.split_vertically(head);
        let title = ("sans-serif", 22).into_font().color(&BLACK);
        head.draw(&Text::new(self.title.as_str(), (24, 14), title))?;
        for (line, text) in self.caption.iter().enumerate() {
            let style = ("sans-serif", 13).into_font().color(&MEDIUM);
            let place = (24, 44 + 18 * line as i32);
            head.draw(&Text::new(text.as_str(), place, style))?;
        }
        for (series, x, line) in self.legend() {
            let y = HEAD - 8 + LEGEND * line;
            let corners = [(x, y), (x + 14, y + 14)];
            head.draw(&Rectangle::new(corners, self.colour(series).filled()))?;
            let style = ("sans-serif", 14).into_font().color(&BLACK);
            let text = self.series[series].as_str();
            head.draw(&Text::new(text, (x + 20, y), style))?;
        }
        for panel in &self.panels {
            let (area, below) = rest.split_vertically(PANEL);
            match panel {
                Panel::Bars(bars) => bars.draw(&area, self)?,
                Panel::Lines(lines) => lines.draw(&area, self)?,
            }
            rest = below;
        }
        root.present()?;
        Ok(())
    }

    /// Number of the series, its place from the left, and the line that it is on.
    fn legend(&self) -> Vec<(usize, i32, i32)> {
        let (mut x, mut line) = (24, 0);
        let mut places = Vec::new();
        for (index, label) in self.series.iter().enumerate() {
            let width = 44 + LETTER * label.chars().count() as i32;
            if x > 24 && x + width > WIDTH as i32 - 24 {
                (x, line) = (24, line + 1);
            }
            places.push((index, x, line));
            x += width;
        }
        places
    }

    fn colour(&self, series: usize) -> RGBColor {
        match (self.yardstick, series) {
            (true, 0) => YARDSTICK,
            (yardstick, series) => COLOURS[(series - usize::from(yardstick)) % COLOURS.len()],
        }
    }
}

/// A chart with the axes that all diagrams share.
fn builder<'a, 'b>(area: &'a Area<'b>, title: &str) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 16).into_font().color(&BLACK))
        .margin(14)
        .margin_right(24)
        .x_label_area_size(30)
        .y_label_area_size(64);
    builder
}

/// An interval as a thin line with caps of half the width `cap`.
fn draw_interval(chart: &mut Chart<'_, '_>, x: f64, cap: f64, ends: [f64; 2]) -> Drawn {
    let [low, high] = ends;
    let lines = [
        [(x, low), (x, high)],
        [(x - cap, low), (x + cap, low)],
        [(x - cap, high), (x + cap, high)],
    ];
    let style = DARK.stroke_width(1);
    chart.draw_series(lines.map(|line| PathElement::new(line, style)))?;
    Ok(())
}

/// Writes centred text at a position of the whole picture.
fn draw_text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, vertical: VPos) -> Drawn {
    let (x, y) = at;
    let (origin_x, origin_y) = area.get_base_pixel();
    let style = ("sans-serif", size).into_font().color(&DARK);
    let style = style.pos(Pos::new(HPos::Center, vertical));
    area.draw(&Text::new(
        text.to_owned(),
        (x - origin_x, y - origin_y),
        style,
    ))?;
    Ok(())
}

/// The upper end of what is drawn of a figure.
fn top(estimate: Estimate) -> f64 {
    estimate
        .ci95
        .map_or(estimate.median, |[_, high]| high.max(estimate.median))
}

/// A number beside an axis whose largest one is `highest`.
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
        0.0 => "0".to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(panels: Vec<Panel>, series: &[&str]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let picture = Picture {
            title: "A title".into(),
            caption: vec!["a caption".into()],
            series: series.iter().map(|name| (*name).to_owned()).collect(),
            yardstick: true,
            panels,
        };
        picture.draw(file.path()).unwrap();
        std::fs::read_to_string(file.path()).unwrap()
    }

    fn estimate(median: f64) -> Estimate {
        Estimate {
            median,
            ci95: Some([median * 0.9, median * 1.1]),
        }
    }

    #[test]
    fn every_panel_series_and_group_is_in_the_picture() {
        let bars = Bars {
            title: "Ratios".into(),
            groups: vec!["rand-read".into()],
            reference: Some(1.0),
            bars: vec![Bar {
                group: 0,
                series: 1,
                value: estimate(1.25),
            }],
        };
        let lines = Lines {
            title: "Over depth".into(),
            x_title: "in flight".into(),
            x: Scale::Log,
            y: Scale::Linear,
            lines: vec![Line {
                series: 0,
                points: vec![(1.0, estimate(3.0)), (64.0, estimate(5.0))],
                step: false,
            }],
            marks: vec![(8.0, "here".into())],
        };
        let svg = drawn(vec![Panel::Bars(bars), Panel::Lines(lines)], &["C", "Rust"]);
        for words in [
            "A title",
            "a caption",
            "Ratios",
            "rand-read",
            "1.25",
            "Over depth",
            "in flight",
            "here",
            "64",
            "Rust",
            "#808080",
        ] {
            assert!(svg.contains(words), "{words}");
        }
    }

    #[test]
    fn a_long_legend_goes_on_below() {
        let names = ["a setting with a long name"; 9];
        let picture = Picture {
            title: String::new(),
            caption: Vec::new(),
            series: names.map(str::to_owned).into(),
            yardstick: false,
            panels: Vec::new(),
        };
        let legend = picture.legend();
        assert!(legend[8].2 > 0);
        assert!(legend.iter().all(|(_, x, _)| *x < WIDTH as i32 - 200));
    }
}
