// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The whole of `vbr run`.

use crate::checks::Checks;
use crate::configuration::{order, Configuration};
use crate::kprobes::Kprobes;
use crate::measure::Bench;
use crate::metric::Probed;
use crate::options::{BackendKind, RunOptions};
use crate::record::{Environment, Record};
use crate::summary::Measurements;
use crate::{picture, table};
use anyhow::{bail, Context, Result};
use measuring::Progress;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vm::Vm;

/// How long the run before all others lasts. It fills caches and lets TCG translate the drivers.
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures, prints and writes the results.
pub fn run(options: &RunOptions) -> Result<()> {
    options.check()?;
    let started = Instant::now();
    let vm = boot(options)?;
    let features = Environment::features(&vm, &options.configs)?;
    let environment = Environment::new(&vm, options, features)?;

    let mut measurements = Measurements::default();
    let mut checks = Checks::default();
    measure(&vm, options, &mut measurements, &mut checks)?;
    let results = vm.environment().results.clone();
    vm.shutdown()?;

    let rows = measurements.rows(options.workload.jobs(), &options.configs);
    println!("{}", table::table(&rows));
    let notes = notes(options);
    checks
        .report()
        .iter()
        .chain(&notes)
        .for_each(|line| println!("{line}"));
    let record = Record::new(environment, &rows, &checks, started.elapsed());
    let json = results.join("run.json");
    fs::write(&json, record.to_json()?)
        .with_context(|| format!("cannot write {}", json.display()))?;
    let svg = results.join("run.svg");
    picture::draw(&svg, &rows, &record.caption())
        .with_context(|| format!("cannot write {}", svg.display()))?;
    println!("Written: {} and {}", json.display(), svg.display());
    Ok(())
}

fn boot(options: &RunOptions) -> Result<Vm> {
    let environment = vm::Environment::from_env()?;
    fs::create_dir_all(&environment.results).with_context(|| {
        format!(
            "cannot create the folder for results {}",
            environment.results.display()
        )
    })?;
    if options
        .configs
        .iter()
        .any(|c| c.driver() == vm::Driver::Rust)
        && !environment.module.exists()
    {
        bail!(
            "The driver {} is not built. Build it with `make`, or measure the C driver alone \
             with --configs c.",
            environment.module.display()
        );
    }
    let mut builder = Vm::builder()
        .vcpus(options.vcpus)
        .accel(options.accel)
        .disk(options.disk(backing_file(options, &environment)?));
    if options.keep_logs {
        builder = builder.console_log(environment.results.join("run.console.log"));
    }
    eprintln!("Booting {} ...", environment.kernel);
    let vm = builder.boot()?;
    eprintln!(
        "Booted in {:.1} s. The guest runs under {}.",
        vm.boot_time().as_secs_f64(),
        vm.accel()
    );
    Ok(vm)
}

/// The file for `--backend file`, made if the user names none.
fn backing_file(options: &RunOptions, environment: &vm::Environment) -> Result<PathBuf> {
    if let Some(file) = &options.file {
        if !file.is_file() {
            bail!(
                "The backing file {} does not exist. Create it, for example with `truncate -s 1G`.",
                file.display()
            );
        }
        return Ok(file.clone());
    }
    let path = environment.cache.join("bench.raw");
    if options.backend == BackendKind::File {
        let file = fs::File::create(&path)
            .with_context(|| format!("cannot create the backing file {}", path.display()))?;
        file.set_len(options.size)?;
    }
    Ok(path)
}

fn measure(
    vm: &Vm,
    options: &RunOptions,
    measurements: &mut Measurements,
    checks: &mut Checks,
) -> Result<()> {
    let mut bench = Bench::new(vm, options)?;
    let kprobes = Kprobes::define(vm)?;
    let jobs = options.workload.jobs();
    let configs = &options.configs;
    let probed_c = u64::from(configs.contains(&Configuration::C));
    let ours = configs
        .iter()
        .filter(|config| **config != Configuration::C)
        .count() as u64;
    let rounds = u64::from(options.rounds);
    let runs = rounds * jobs.len() as u64 * (configs.len() as u64 + probed_c);
    let mut progress = Progress::new(configs.len() as u64 + ours + runs);

    for configuration in configs {
        progress.doing(&format!("warm-up of {}", configuration.label()));
        bench.select(*configuration)?;
        bench.run(&jobs[0], WARM_UP)?;
        progress.done();
    }
    for round in 0..options.rounds {
        for (index, job) in jobs.iter().enumerate() {
            for configuration in order(configs, round, index) {
                let label = configuration.label();
                progress.doing(&format!("round {} {job} {label}", round + 1));
                bench.select(configuration)?;
                let sample = bench.run(job, options.runtime())?;
                checks.sample(configuration, job, &sample);
                measurements.add(job, configuration, &sample);
                progress.done();
                if configuration == Configuration::C {
                    progress.doing(&format!("round {} {job} {label}, kicks", round + 1));
                    kprobes.start()?;
                    let probed = Probed {
                        sample: bench.run(job, options.runtime())?,
                        calls: kprobes.stop()?,
                    };
                    measurements.add_probed(job, configuration, &sample, &probed);
                    progress.done();
                }
            }
        }
    }
    // The probes must count what our driver counts, or they count nothing of worth in C's either.
    for configuration in configs.iter().filter(|config| **config != Configuration::C) {
        progress.doing(&format!("check of the probes on {}", configuration.label()));
        bench.select(*configuration)?;
        kprobes.start()?;
        let sample = bench.run(&jobs[0], options.runtime())?;
        checks.calls(*configuration, &jobs[0], &sample, kprobes.stop()?);
        progress.done();
    }
    progress.finish();
    Ok(())
}

/// What a reader of the table must know.
fn notes(options: &RunOptions) -> Vec<String> {
    let mut notes = vec![
        "Medians over all rounds; ratios are of the same round. kIO = 1,000 I/Os; irq = interrupt."
            .to_owned(),
    ];
    if options.rounds < 6 {
        notes.push("Fewer than 6 rounds cannot give 95 % intervals: use --rounds 6.".to_owned());
    }
    notes
}
