// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The C driver and ours on the same disks in the same boot: `vbr run` compares the ways to
//! suppress interrupts, `vbr bench` measures all that is claimed, `vbr report` writes it down.

mod chart;
mod checks;
mod configuration;
mod fio;
mod kprobes;
mod measure;
mod meter;
mod metric;
mod options;
mod picture;
mod record;
mod run;
mod series;
mod suite;
mod summary;
mod table;
mod workload;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures virtio-blk drivers in a guest with a stock kernel.
#[derive(Parser)]
#[command(name = "vbr", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compares the C driver with ours, alternating on the same disk in the same boot.
    Run(options::RunOptions),
    /// Measures all scenarios: counts, guest cost, times, and what they show.
    Bench(suite::BenchOptions),
    /// Makes report and pictures of what `bench` has measured.
    Report(suite::ReportOptions),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Bench(options) => suite::bench(&options),
        Command::Report(options) => suite::report(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without the backtrace that a variable of the environment may ask for: the causes
            // say more.
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
