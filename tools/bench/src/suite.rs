// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! `vbr bench`: all scenarios, one after the other, and what they show.
//!
//! What is measured stands in a file ([`catalogue`]). Figures of three kinds are never mixed:
//! counts and times come from runs in which settings take turns ([`alternate`]), instructions from
//! a guest with a plugin ([`cost`]). Whatever was measured is in one record ([`results`]), from
//! which tables, pictures and the report are made, now or later.

mod alternate;
mod catalogue;
mod cost;
mod device;
mod environment;
mod extent;
mod goal;
mod guest;
mod job;
mod options;
mod pictures;
mod reference;
mod report;
mod results;
mod steps;
mod tables;

pub use options::{BenchOptions, ReportOptions};

use crate::metric::Kind;
use crate::suite::catalogue::{Catalogue, Scenario};
use crate::suite::environment::Environment;
use crate::suite::extent::Extent;
use crate::suite::guest::Guest;
use crate::suite::reference::Reference;
use crate::suite::results::{Measured, Results};
use anyhow::{bail, Context, Result};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use measuring::Progress;
use std::fs;
use std::path::Path;
use std::time::Instant;
use vm::Accel;

/// Name of the record in the folder for results, and of that of the quick form.
const RECORD: &str = "bench.json";
const QUICK_RECORD: &str = "bench-quick.json";

/// Measures, prints and writes the results.
pub fn bench(options: &BenchOptions) -> Result<()> {
    let catalogue = Catalogue::read(options.catalogue.as_deref())?;
    let scenarios = options.scenarios(&catalogue)?;
    if options.list {
        for scenario in scenarios {
            println!("{:16} {}", scenario.name, scenario.title);
        }
        return Ok(());
    }
    let folder = vm::Environment::from_env()?.results;
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder for results {}", folder.display()))?;
    let record = folder.join(if options.quick { QUICK_RECORD } else { RECORD });
    let mut results = match options.update && record.exists() {
        true => Results::read(&record)?,
        false => Results::default(),
    };
    let extents: Vec<Extent> = scenarios.iter().map(|s| options.extent(s)).collect();
    let steps = std::iter::zip(&scenarios, &extents).map(|(s, extent)| steps(s, *extent));
    let mut progress = Progress::new(steps.sum());
    let mut failures = Vec::new();
    for (scenario, extent) in std::iter::zip(&scenarios, &extents) {
        let started = Instant::now();
        match measure(&catalogue, scenario, *extent, options.accel, &mut progress) {
            Ok(mut measured) => {
                measured.duration_s = started.elapsed().as_secs_f64();
                results.put(measured);
            }
            // What else there is to measure is not lost by it.
            Err(error) => {
                failures.push(error.context(format!("in the scenario {}", scenario.name)))
            }
        }
        results.goals = judge(&catalogue, &results, options.quick);
        results.write(&record)?;
    }
    progress.finish();
    for failure in &failures {
        eprintln!("error: {failure:#}");
    }
    for measured in &results.scenarios {
        if scenarios.iter().any(|s| s.name == measured.name) {
            println!("\n{}\n", measured.title);
            for table in tables::all(measured, UTF8_HORIZONTAL_ONLY) {
                println!("{table}\n");
            }
        }
    }
    if !results.goals.is_empty() {
        println!("{}", tables::goals(&results, UTF8_HORIZONTAL_ONLY));
    }
    println!("Written: {}", record.display());
    if !options.quick {
        publish(&results, &folder)?;
    }
    if !failures.is_empty() {
        bail!(
            "{} of {} scenarios could not be measured. What the others have measured is written; \
             measure the rest with --update --scenario NAME.",
            failures.len(),
            scenarios.len()
        );
    }
    match options.quick {
        true => check_drift(options, &results),
        false => Ok(()),
    }
}

/// Makes report and pictures of what was measured before.
pub fn report(options: &ReportOptions) -> Result<()> {
    let folder = vm::Environment::from_env()?.results;
    let record = options.results.clone().unwrap_or(folder.join(RECORD));
    let results = Results::read(&record)?;
    let into = options.into.as_deref().unwrap_or(&folder);
    fs::create_dir_all(into)
        .with_context(|| format!("cannot create the folder {}", into.display()))?;
    publish(&results, into)?;
    if into != folder {
        let copy = into.join(RECORD);
        results.write(&copy)?;
        println!("Written: {}", copy.display());
    }
    Ok(())
}

/// Writes report and pictures.
fn publish(results: &Results, folder: &Path) -> Result<()> {
    let pictures = pictures::draw(results, folder)?;
    let path = folder.join("bench-report.md");
    fs::write(&path, report::markdown(results, &pictures))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "Written: {} and {} pictures beside it",
        path.display(),
        pictures.len()
    );
    Ok(())
}

fn steps(scenario: &Scenario, extent: Extent) -> u64 {
    if scenario.has(Kind::Cost) {
        cost::steps(scenario, extent)
    } else if scenario.has(Kind::Steps) {
        u64::from(extent.rounds) * scenario.settings.len() as u64
    } else {
        alternate::steps(scenario, extent)
    }
}

fn measure(
    catalogue: &Catalogue,
    scenario: &Scenario,
    extent: Extent,
    accel: Accel,
    progress: &mut Progress,
) -> Result<Measured> {
    progress.doing(&format!("{}: booting the guest", scenario.name));
    let measured = |environment, settings, disks| Measured {
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        about: scenario.about.clone(),
        figures: scenario.figures.iter().copied().collect(),
        environment,
        rounds: extent.rounds,
        runtime_s: extent.runtime.as_secs_f64(),
        duration_s: 0.0,
        settings,
        disks,
        cells: Vec::new(),
        cost: Vec::new(),
        steps: Vec::new(),
    };
    if scenario.has(Kind::Cost) {
        let cost = cost::measure(catalogue, scenario, extent, progress)?;
        let settings = cost::settings(catalogue, scenario)?;
        return Ok(Measured {
            cost: cost.outcomes,
            ..measured(cost.environment, settings, vec![cost.disk])
        });
    }
    let mut guest = Guest::boot(catalogue, scenario, accel)?;
    let environment = Environment::ask(guest.vm(), scenario.vcpus)?;
    let (mut cells, mut steps) = (Vec::new(), Vec::new());
    if scenario.has(Kind::Steps) {
        steps = steps::measure(&mut guest, extent.rounds, progress)?;
    } else {
        cells = alternate::measure(&mut guest, scenario, extent, progress)?;
    }
    let (settings, disks) = (guest.settings(), guest.disks().to_vec());
    guest.shutdown()?;
    Ok(Measured {
        cells,
        steps,
        ..measured(environment, settings, disks)
    })
}

/// The goals of what was measured at all; the quick form has none.
fn judge(catalogue: &Catalogue, results: &Results, quick: bool) -> Vec<goal::Shown> {
    match quick {
        true => Vec::new(),
        false => catalogue.goals.iter().map(|g| g.judge(results)).collect(),
    }
}

/// Compares the quick form's figures with the reference, or makes a new one of them.
fn check_drift(options: &BenchOptions, results: &Results) -> Result<()> {
    let path = options.reference()?;
    if options.update_reference {
        let reference = Reference::of(results);
        reference.write(&path)?;
        println!(
            "Written: {} with {} figures",
            path.display(),
            reference.len()
        );
        return Ok(());
    }
    let reference = Reference::read(&path)?;
    let drifts = reference.compare(results);
    for drift in &drifts {
        println!("drift: {drift}");
    }
    println!(
        "{} figures compared with {}",
        reference.len(),
        path.display()
    );
    if !drifts.is_empty() {
        bail!(
            "{} figures are not what they were ({}). If that is wanted, make a new reference \
             with --update-reference and commit it.",
            drifts.len(),
            path.display()
        );
    }
    Ok(())
}
