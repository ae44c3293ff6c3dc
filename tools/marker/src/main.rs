// SPDX-License-Identifier: GPL-2.0

//! Runs in the guest, and puts a job between two markers.

use std::env;
use std::ffi::OsString;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use marker::Edge;

const USAGE: &str = "\
usage: vbr-marker run COMMAND [ARGUMENT]...   count what COMMAND executes
       vbr-marker spin COUNT                  count what passing time costs beside a loop of COUNT turns";

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let (mode, rest) = words.split_first().unzip();
    let rest = rest.unwrap_or_default();
    match (mode.and_then(|mode| mode.to_str()), rest) {
        (Some("run"), [program, arguments @ ..]) => run(program, arguments),
        (Some("spin"), [count]) => match count.to_str().and_then(|count| count.parse().ok()) {
            Some(count) => spin(count),
            None => {
                eprintln!("vbr-marker: {count:?} is no number from 0 to {}", u64::MAX);
                ExitCode::from(2)
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Exits as the command does, so that a failed job is not taken for a cheap one. The start of the
/// command counts, in every configuration alike.
fn run(program: &OsString, arguments: &[OsString]) -> ExitCode {
    Edge::Begin.execute();
    let status = Command::new(program).args(arguments).status();
    Edge::End.execute();

    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => {
                eprintln!("vbr-marker: {program:?} died of signal {signal:?}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            eprintln!("vbr-marker: cannot start {program:?}: {error}");
            ExitCode::from(127)
        }
    }
}

/// The kernel's instructions are those that passing time costs any job: its timer's ticks, and
/// the switches to a process that looks every 10 ms whether the job has ended, as fio's does.
fn spin(count: u64) -> ExitCode {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
        });
        Edge::Begin.execute();
        for turn in 0..count {
            black_box(turn);
        }
        Edge::End.execute();
        done.store(true, Ordering::Relaxed);
    });
    ExitCode::SUCCESS
}
