// SPDX-License-Identifier: GPL-2.0

//! `vbr run`: the C driver and ours on the same disk in the same boot.

mod checks;
mod configuration;
mod fio;
mod kprobes;
mod measure;
mod metric;
mod options;
mod picture;
mod record;
mod run;
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
}

fn main() -> ExitCode {
    let Command::Run(options) = Arguments::parse().command;
    match run::run(&options) {
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
