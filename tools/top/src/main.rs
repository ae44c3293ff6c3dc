// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Shows live what the driver does on the machine on which it runs, as iostat does for disks.
//!
//! A [`snapshot`] of all counters is read every interval; what happened between two of them is a
//! [`report`] of [`change`]s, whose [`figure`]s are shown as a [`table`] or as [`json`].

mod change;
mod figure;
mod json;
mod options;
mod output;
mod report;
mod screen;
mod snapshot;
mod table;

use anyhow::{Context, Result};
use clap::Parser;
use options::Options;
use output::Output;
use report::Report;
use snapshot::Source;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Instant;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vbr-top: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let source = Source::new("/", &options.disks);
    source.check()?;
    let stop = stop_signal()?;
    let mut output = Output::new(options);
    let mut earlier = source.read()?;
    let mut due = Instant::now();
    let mut left = options.count;
    while left != Some(0) {
        // After a delay, the next interval is a whole one again.
        due = (due + options.interval).max(Instant::now());
        if is_stopped(&stop, due) {
            break;
        }
        let later = source.read()?;
        output.write(&Report::between(&earlier, &later))?;
        earlier = later;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Receives when somebody wants the program to end, so that it leaves the terminal in order.
fn stop_signal() -> Result<Receiver<()>> {
    let (sender, receiver) = channel();
    let handler = move || {
        // Nobody receives any more if the program ends already.
        let _ = sender.send(());
    };
    ctrlc::set_handler(handler).context("cannot handle signals")?;
    Ok(receiver)
}

/// Waits until `due`; `true` if the program is to end.
fn is_stopped(stop: &Receiver<()>, due: Instant) -> bool {
    let time = due.saturating_duration_since(Instant::now());
    stop.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

/// Whoever reads the output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
