// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Runs a command in the guest between two markers: `vbr-marker fio job.fio`.
//!
//! It exits as the command does, so that a failed job is not taken for a cheap one. The start of
//! the command counts, in every configuration alike.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};

use marker::Edge;

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: vbr-marker COMMAND [ARGUMENT]...");
        return ExitCode::from(2);
    };

    Edge::Begin.execute();
    let status = Command::new(&program).args(words).status();
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
