// SPDX-License-Identifier: GPL-2.0

//! Counts the guest instructions that each driver spends on an I/O: `make cost`.
//!
//! One guest is booted under TCG with a plugin that counts instructions. In it the same job runs on
//! null_blk, on the C driver and on ours with each setting, in several passes that alternate.
//! What a driver costs is the difference to null_blk, which fio, io_uring and the block layer
//! cost as well. The method is explained in Documentation/cost.rst.

mod chart;
mod guest;
mod job;
mod measure;
mod options;
mod profile;
mod report;
mod settings;
mod statistics;
mod symbols;
mod table;
mod windows;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use vm::Driver;

use crate::guest::Guest;
use crate::job::Job;
use crate::options::Options;
use crate::report::{Environment, Outcome, Report};
use crate::statistics::{median, spread_percent};

fn main() -> Result<()> {
    let options = Options::parse();
    let settings = options.settings()?;
    let jobs = measure::jobs(&settings, options.passes);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}")?;
    let progress = ProgressBar::new(jobs).with_style(style);
    progress.set_message("booting the guest");
    progress.enable_steady_tick(Duration::from_millis(200));

    let rust = settings.iter().any(|s| s.driver == Some(Driver::Rust));
    let mut guest = Guest::boot(|name| options.disk(name), rust, options.profile)?;
    let results = measure::all(&mut guest, &settings, &options, &progress)?;
    let environment = environment(&guest, &options, &results.tick)?;
    guest.shutdown()?;
    progress.finish_and_clear();

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
        job: Job::new(options.ios).command("DEVICE"),
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
    chart::draw(report, &svg)?;

    for outcome in report
        .settings
        .iter()
        .filter(|outcome| !outcome.profile.is_empty())
    {
        println!("{}\n{}\n", outcome.setting, table::functions(outcome));
    }
    println!("{}", table::settings(report));
    println!("Results: {} and {}", json.display(), svg.display());
    Ok(())
}
