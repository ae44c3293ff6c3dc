// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! `make cost`: what each driver costs, as a table, a picture and JSON.

mod options;

use std::fs;

use anyhow::{Context, Result};
use clap::Parser;
use cost::{chart, measure, table, Environment, Guest, Job, Outcome, Report};
use measuring::{median, spread_percent, Progress};
use vm::Driver;

use crate::options::Options;

fn main() -> Result<()> {
    let options = Options::parse();
    let settings = options.settings()?;
    let mut progress = Progress::new(options.extent().jobs(&settings));
    progress.doing("booting the guest");

    let rust = settings.iter().any(|s| s.driver == Some(Driver::Rust));
    let mut guest = Guest::boot(|name| Ok(options.disk(name)), rust, options.profile)?;
    let results = measure::all(&mut guest, &settings, options.extent(), &mut progress)?;
    let environment = environment(&guest, &options, &results.tick)?;
    guest.shutdown()?;
    progress.finish();

    publish(&Report {
        environment,
        settings: Outcome::all(&results.measured, options.top),
    })
}

fn environment(guest: &Guest, options: &Options, tick: &[f64]) -> Result<Environment> {
    let vm = guest.vm();
    Ok(Environment {
        kernel: vm.environment().kernel.clone(),
        qemu: vm.qemu_version()?,
        accelerator: vm.accel().name().to_owned(),
        qemu_command_line: vm.command_line().to_owned(),
        disk: options.disk("cost").properties().clone(),
        job: Job::new(options.ios, options.iodepth).command("DEVICE"),
        ios: options.ios,
        instructions_per_tick: median(tick),
        instructions_per_tick_spread_percent: spread_percent(tick),
    })
}

/// Prints the tables, and writes the files into the folder for results.
fn publish(report: &Report) -> Result<()> {
    let results = vm::Environment::from_env()?.results;
    fs::create_dir_all(&results).with_context(|| format!("cannot create {}", results.display()))?;
    let json = results.join("cost.json");
    fs::write(&json, report.to_json()?)
        .with_context(|| format!("cannot write {}", json.display()))?;
    let svg = results.join("cost.svg");
    chart::draw(&report.environment.kernel, &report.settings, &svg)?;

    for outcome in report
        .settings
        .iter()
        .filter(|outcome| !outcome.profile.is_empty())
    {
        println!("{}\n{}\n", outcome.setting, table::functions(outcome));
    }
    println!("{}", table::settings(&report.settings));
    println!("Results: {} and {}", json.display(), svg.display());
    Ok(())
}
