// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Runs one script with a time limit and collects what it wrote.

use agent::{Reply, STATUS_TIMED_OUT};
use anyhow::{Context, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process_group, pidfd_open, Pid, PidfdFlags, Signal};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Status of a script that could not be started, as the shell has it for a missing command.
const STATUS_NOT_STARTED: i32 = 127;

/// Runs `script` and always has an answer, even if it cannot be started.
pub fn run(id: u64, script: &str, limit: Duration) -> Reply {
    match try_run(script, limit) {
        Ok((status, stdout, stderr)) => Reply {
            id,
            status,
            stdout,
            stderr,
        },
        Err(error) => Reply {
            id,
            status: STATUS_NOT_STARTED,
            stdout: String::new(),
            stderr: format!("agent: {error:#}\n"),
        },
    }
}

fn try_run(script: &str, limit: Duration) -> Result<(i32, String, String)> {
    // Files instead of pipes: a child left in the background cannot keep the reply from ending.
    let mut stdout = unnamed_file()?;
    let mut stderr = unnamed_file()?;
    let mut child = Command::new("/bin/bash")
        .args(["-c", script])
        .current_dir("/tmp")
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", "/tmp")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0)
        .spawn()
        .context("cannot start bash")?;
    let pid = Pid::from_child(&child);
    let in_time = ends_within(pid, limit)?;
    if !in_time {
        // The group may be gone by now; the wait below tells.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().context("cannot wait for bash")?;
    let status = if in_time {
        status_number(status)
    } else {
        STATUS_TIMED_OUT
    };
    Ok((status, content(&mut stdout)?, content(&mut stderr)?))
}

fn unnamed_file() -> Result<File> {
    use rustix::fs::{memfd_create, MemfdFlags};
    let file = memfd_create("script-output", MemfdFlags::CLOEXEC)?;
    Ok(File::from(file))
}

/// Waits without polling, so that a measured guest is left alone.
fn ends_within(pid: Pid, limit: Duration) -> Result<bool> {
    let process = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch bash")?;
    let limit = Timespec::try_from(limit)?;
    let mut events = [PollFd::new(&process, PollFlags::IN)];
    Ok(poll(&mut events, Some(&limit)).context("cannot wait for bash")? > 0)
}

fn status_number(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => STATUS_NOT_STARTED,
    }
}

fn content(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
