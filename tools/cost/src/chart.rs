// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The results as a picture: a bar for each setting, and below them the dearest functions.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::Outcome;
use crate::table::whole;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Functions in the lower part.
const FUNCTIONS: usize = 20;

const WIDTH: u32 = 1200;
const MARGIN: i32 = 20;
/// Where bars begin: names stand left of it.
const LEFT: i32 = 330;
/// Room for numbers at the right of the longest bar.
const RIGHT: i32 = 250;
const TITLE: i32 = 60;
const BAR: i32 = 26;
const THIN_BAR: i32 = 9;
const GAP: i32 = 8;
/// A line of the legend.
const LEGEND: i32 = 34;

const GREY: RGBColor = RGBColor(176, 180, 186);
/// Told apart by people of any colour vision.
const PALETTE: [RGBColor; 6] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws what was measured of `kernel` into the SVG file `path`.
pub fn draw(kernel: &str, outcomes: &[Outcome], path: &Path) -> Result<()> {
    let drivers: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| !outcome.is_floor())
        .collect();
    let names = dearest(&drivers);
    let bars = TITLE + outcomes.len() as i32 * (BAR + GAP);
    let group = drivers.len() as i32 * THIN_BAR + GAP;
    let lower = match names.len() as i32 {
        0 => 0,
        rows => TITLE + LEGEND + rows * group,
    };
    let height = (bars + lower + 2 * MARGIN) as u32;

    let root = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    (|| {
        root.fill(&WHITE)?;
        let (upper, rest) = root.split_vertically(bars + MARGIN);
        draw_settings(&upper, kernel, outcomes)?;
        if !names.is_empty() {
            draw_functions(&rest, &drivers, &names, group)?;
        }
        root.present()
    })()
    .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

type Drawn = Result<(), DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>>;

fn draw_settings(area: &Area<'_>, kernel: &str, outcomes: &[Outcome]) -> Drawn {
    let title = format!(
        "Guest kernel instructions per I/O (kernel {kernel}, median of {} passes)",
        outcomes.first().map_or(0, |outcome| outcome.passes.len())
    );
    text(area, &title, (MARGIN, MARGIN + 10), 22, HPos::Left)?;
    let totals = outcomes.iter();
    let longest = totals
        .map(|outcome| outcome.kernel_instructions_per_io)
        .fold(1.0, f64::max);
    for (index, outcome) in outcomes.iter().enumerate() {
        let top = TITLE + index as i32 * (BAR + GAP);
        let middle = top + BAR / 2;
        let total = outcome.kernel_instructions_per_io;
        let cost = outcome.driver_cost;
        let floor = scaled(total - cost, longest);
        bar(area, LEFT, top, floor, BAR, GREY)?;
        let colour = colour(outcomes, outcome);
        bar(area, LEFT + floor, top, scaled(cost, longest), BAR, colour)?;
        text(area, &outcome.setting, (LEFT - 10, middle), 18, HPos::Right)?;
        let mut label = whole(total);
        if !outcome.is_floor() {
            label += &format!(" (driver {}", whole(cost));
            if let Some(ratio) = outcome.ratio_to_c {
                label += &format!(", {ratio:.2} of C");
            }
            label.push(')');
        }
        let end = LEFT + scaled(total, longest) + 8;
        text(area, &label, (end, middle), 16, HPos::Left)?;
    }
    Ok(())
}

fn draw_functions(area: &Area<'_>, drivers: &[&Outcome], names: &[String], group: i32) -> Drawn {
    let title = "Where they are spent: instructions per I/O over null_blk, by function";
    text(area, title, (MARGIN, MARGIN), 22, HPos::Left)?;
    let mut x = LEFT;
    for (index, outcome) in drivers.iter().enumerate() {
        bar(area, x, TITLE, 14, 14, PALETTE[index % PALETTE.len()])?;
        text(area, &outcome.setting, (x + 20, TITLE + 7), 16, HPos::Left)?;
        x += 40 + 10 * outcome.setting.chars().count() as i32;
    }
    let longest = names
        .iter()
        .flat_map(|name| drivers.iter().map(|outcome| over(outcome, name)))
        .fold(1.0, f64::max);
    for (row, name) in names.iter().enumerate() {
        let top = TITLE + LEGEND + row as i32 * group;
        let middle = top + (group - GAP) / 2;
        text(area, shortened(name), (LEFT - 10, middle), 14, HPos::Right)?;
        for (index, outcome) in drivers.iter().enumerate() {
            let value = over(outcome, name);
            let top = top + index as i32 * THIN_BAR;
            let length = scaled(value, longest);
            bar(
                area,
                LEFT,
                top,
                length,
                THIN_BAR - 1,
                PALETTE[index % PALETTE.len()],
            )?;
            if value >= 0.5 {
                let end = (LEFT + length + 5, top + THIN_BAR / 2);
                text(area, &whole(value), end, 10, HPos::Left)?;
            }
        }
    }
    Ok(())
}

/// Drivers have the same colour in both parts.
fn colour(outcomes: &[Outcome], outcome: &Outcome) -> RGBColor {
    let mut drivers = outcomes.iter();
    let before = drivers
        .by_ref()
        .take_while(|other| other.setting != outcome.setting)
        .filter(|other| !other.is_floor())
        .count();
    PALETTE[before % PALETTE.len()]
}

/// The functions that cost most in any driver.
fn dearest(drivers: &[&Outcome]) -> Vec<String> {
    let mut costs = BTreeMap::<&str, f64>::new();
    for function in drivers.iter().flat_map(|outcome| &outcome.profile) {
        let over = function.over_null_blk;
        let most = costs.entry(&function.function).or_default();
        *most = most.max(over);
    }
    let mut names: Vec<(&str, f64)> = costs.into_iter().collect();
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names = names.into_iter().take(FUNCTIONS);
    names.map(|(name, _)| name.to_owned()).collect()
}

fn over(outcome: &Outcome, name: &str) -> f64 {
    let mut profile = outcome.profile.iter();
    let function = profile.find(|function| function.function == name);
    function.map_or(0.0, |function| function.over_null_blk)
}

/// The length of a bar in pixels.
fn scaled(value: f64, longest: f64) -> i32 {
    let room = f64::from(WIDTH as i32 - LEFT - RIGHT);
    (value.max(0.0) / longest * room).round() as i32
}

/// Of the path of a Rust function its last two parts, with the module.
fn shortened(name: &str) -> &str {
    let mut colons = name.rmatch_indices("::").map(|(index, _)| index);
    match colons.nth(1) {
        Some(index) if !name.starts_with('<') => &name[index + 2..],
        _ => name,
    }
}

fn bar(area: &Area<'_>, x: i32, y: i32, width: i32, height: i32, colour: RGBColor) -> Drawn {
    let corners = [(x, y), (x + width, y + height)];
    area.draw(&Rectangle::new(corners, colour.filled()))
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), size: i32, side: HPos) -> Drawn {
    let style = ("sans-serif", size)
        .into_text_style(area)
        .pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_their_end() {
        assert_eq!(shortened("kfree"), "kfree");
        assert_eq!(shortened("queue::drain [m]"), "queue::drain [m]");
        assert_eq!(shortened("a::queue::Queue::drain [m]"), "Queue::drain [m]");
        assert_eq!(shortened("<a::B as c::D>::e"), "<a::B as c::D>::e");
    }

    #[test]
    fn bars_share_a_scale() {
        assert_eq!(scaled(0.0, 10.0), 0);
        assert_eq!(scaled(-1.0, 10.0), 0);
        assert_eq!(scaled(5.0, 10.0) * 2, scaled(10.0, 10.0));
    }
}
