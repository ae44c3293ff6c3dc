// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The results as text.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::report::Outcome;

/// Functions of each profile that are printed; the JSON file has more.
const PRINTED_FUNCTIONS: usize = 15;

/// The table of all settings.
pub fn settings(outcomes: &[Outcome]) -> Table {
    let mut table = new(&[
        "setting",
        "kernel instr/IO",
        "spread",
        "driver cost",
        "of C",
        "IRQ/1,000 IO",
        "passes",
    ]);
    for outcome in outcomes {
        let passes = outcome.passes.iter();
        let passes: Vec<String> = passes
            .map(|pass| whole(pass.kernel_instructions_per_io))
            .collect();
        table.add_row([
            outcome.setting.clone(),
            whole(outcome.kernel_instructions_per_io),
            format!("±{:.2} %", outcome.spread_percent),
            whole(outcome.driver_cost),
            outcome
                .ratio_to_c
                .map_or("–".into(), |ratio| format!("{ratio:.3}")),
            format!("{:.1}", outcome.irq_per_kio),
            passes.join(" "),
        ]);
    }
    table
}

/// The table of one setting's functions.
pub fn functions(outcome: &Outcome) -> Table {
    let mut table = new(&["function", "instr/IO", "over null_blk"]);
    for function in outcome.profile.iter().take(PRINTED_FUNCTIONS) {
        table.add_row([
            function.function.clone(),
            format!("{:.1}", function.instructions_per_io),
            format!("{:.1}", function.over_null_blk),
        ]);
    }
    table
}

fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Without decimals, with thousands set apart.
pub fn whole(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if number <= -0.5 {
        format!("-{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(whole(6810.4), "6,810");
        assert_eq!(whole(999.6), "1,000");
        assert_eq!(whole(12.0), "12");
        assert_eq!(whole(-1234567.0), "-1,234,567");
        assert_eq!(whole(-0.2), "0");
    }
}
