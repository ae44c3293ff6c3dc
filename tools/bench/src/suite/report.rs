// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The report, in Markdown. All of it is made from the record.

use crate::suite::environment::Environment;
use crate::suite::pictures::Drawn;
use crate::suite::results::{Measured, Results};
use crate::suite::tables;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write;

/// Functions in the table of a profile.
const FUNCTIONS: usize = 25;

/// What every report says about the figures.
const METHOD: &str = "\
This report is made by `vbr report` from `bench.json`, which has the value of every round; \
[bench.rst](bench.rst) explains the method and the fields. Three kinds of figures are never mixed:

- **Counts** are quoted first: they do not depend on how busy the host is. kIO = 1,000 I/Os.
- **Guest cost** is kernel-mode guest instructions per I/O, counted by a TCG plugin, above what \
the same job costs on null_blk in the same boot.
- **Times** are only ratios to the C driver in the same boot, the settings taking turns in each \
round: the median of the ratios within a round, and the 95 % interval of that median from order \
statistics. A difference is stated only if the interval excludes 1; otherwise the table says that \
*no difference* was *shown*.

Under TCG an interrupt or a kick costs no exit from the guest. What is won in time by avoiding \
them is therefore a lower bound for hardware virtualization; counts carry over. How often a device \
interrupts depends on the machine: on some, each request has an interrupt of its own, on others \
every fourth one has.
";

/// The whole report.
pub fn markdown(results: &Results, pictures: &Drawn) -> String {
    let mut text = String::from("<!-- SPDX-License-Identifier: GPL-2.0 -->\n\n# Bench report\n\n");
    text += METHOD;
    text += "\nTo measure all of it again: `make bench`.\n";
    text += &environments(&results.scenarios);
    if !results.goals.is_empty() {
        text += "\n## What was to be shown\n\n";
        text += "The least favourable value of each figure; a verdict is *met* only if the whole \
                 interval is on the right side, unless the goal says otherwise.\n\n";
        let _ = writeln!(text, "{}", tables::goals(results, ASCII_MARKDOWN));
        text += &details(results);
    }
    for measured in &results.scenarios {
        text += &scenario(measured, pictures);
    }
    text
}

/// What is the same for scenarios that were measured in one place: names and values.
type Place = [(&'static str, String); 5];

/// Where the scenarios were measured: a table for each place, with what is the same there.
fn environments(scenarios: &[Measured]) -> String {
    let mut places: Vec<(Place, Vec<&Measured>)> = Vec::new();
    for measured in scenarios {
        let rows = place(&measured.environment);
        match places.iter_mut().find(|(known, _)| *known == rows) {
            Some((_, there)) => there.push(measured),
            None => places.push((rows, vec![measured])),
        }
    }
    let mut text = String::new();
    for (rows, there) in &places {
        let names: Vec<_> = there.iter().map(|measured| &*measured.name).collect();
        let names = match places.len() {
            1 => "all".to_owned(),
            _ => names.join(", "),
        };
        let begun = there.iter().map(|measured| &measured.environment.date);
        let _ = writeln!(text, "\n| scenarios | {names} |\n|---|---|");
        for (name, value) in rows {
            let _ = writeln!(text, "| {name} | {} |", value.trim());
        }
        let _ = writeln!(text, "| begun | {} |", begun.min().map_or("", |date| date));
    }
    text
}

fn place(environment: &Environment) -> Place {
    let module = &environment.module;
    let accelerator = environment.accelerator.to_uppercase();
    let (cpus, cpu) = (environment.host_cpus, &environment.host_cpu);
    [
        ("guest kernel", environment.guest_kernel.clone()),
        ("QEMU", format!("{}, {accelerator}", environment.qemu)),
        ("fio", environment.fio.clone()),
        ("module", format!("{} {}", module.version, module.commit)),
        ("host", format!("{cpus} × {cpu}")),
    ]
}

/// The values of each goal that has several.
fn details(results: &Results) -> String {
    let mut text = String::new();
    for shown in results.goals.iter().filter(|goal| goal.values.len() > 1) {
        let Some(scenario) = results.scenario(&shown.scenario) else {
            continue;
        };
        let _ = writeln!(text, "\n**{}** ({}):\n", shown.figure, shown.goal);
        for value in &shown.values {
            let against = match &value.against {
                Some(other) if !scenario.is_c(other) => {
                    format!(", against {}", scenario.label(other))
                }
                _ => String::new(),
            };
            let interval = match value.value.ci95 {
                Some([low, high]) => format!(" ({low:.3} to {high:.3})"),
                None => String::new(),
            };
            let _ = writeln!(
                text,
                "- {}, {}{against}: {:.3}{interval}: {}",
                scenario.label(&value.setting),
                value.cell,
                value.value.median,
                value.verdict
            );
        }
    }
    text
}

fn scenario(measured: &Measured, pictures: &Drawn) -> String {
    let mut text = format!("\n## {}\n\n", measured.title);
    if !measured.about.is_empty() {
        text += &measured.about;
        text += "\n\n";
    }
    let _ = writeln!(
        text,
        "`vbr bench --scenario {}`: {} vCPU, {} rounds{}.\n",
        measured.name,
        measured.environment.guest_vcpus,
        measured.rounds,
        match measured.cells.is_empty() {
            true => String::new(),
            false => format!(" of {} s", measured.runtime_s),
        }
    );
    for setting in measured
        .settings
        .iter()
        .filter(|s| !s.parameters.is_empty())
    {
        let knobs = setting.parameters.iter();
        let knobs: Vec<String> = knobs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let _ = writeln!(text, "- {}: `{}`", setting.label, knobs.join(" "));
    }
    for table in tables::all(measured, ASCII_MARKDOWN) {
        let _ = writeln!(text, "\n{table}");
    }
    if measured
        .cost
        .iter()
        .any(|outcome| !outcome.profile.is_empty())
    {
        let functions = tables::functions(measured, FUNCTIONS, ASCII_MARKDOWN);
        let _ = writeln!(
            text,
            "\nInstructions per I/O above null_blk, by function:\n\n{functions}"
        );
    }
    for (_, file) in pictures.iter().filter(|(name, _)| *name == measured.name) {
        let _ = writeln!(text, "\n![{}]({file})", measured.title);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Metric;
    use crate::suite::results::tests::{cell, measured};

    #[test]
    fn the_report_has_every_scenario_with_its_picture() {
        let mut results = Results::default();
        let timed = cell(Metric::Iops, &[0.9, 1.1, 1.0, 1.0, 1.0, 1.0], &[1.0; 6]);
        results.put(measured("s", vec![timed]));
        let pictures = vec![("s".to_owned(), "bench-s.svg".to_owned())];
        let text = markdown(&results, &pictures);
        for words in [
            "# Bench report",
            "## The scenario s",
            "(bench-s.svg)",
            "no difference shown",
            "vbr bench --scenario s",
            "2 × a processor",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}
