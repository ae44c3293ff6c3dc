// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Serves the host's requests on a serial port, each in a thread of its own.

use crate::{init, script};
use agent::{Hello, Request, Work, PORT, PORT_VARIABLE};
use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Says hello and works until the host closes the port.
pub fn serve() -> Result<()> {
    let port = OpenOptions::new()
        .read(true)
        .write(true)
        .open(find_port()?)?;
    let writer = Arc::new(Mutex::new(port.try_clone()?));
    send(&writer, &hello()?)?;
    for line in BufReader::new(port).lines() {
        let line = line.context("cannot read from the host")?;
        let request: Request = serde_json::from_str(&line)
            .with_context(|| format!("the host sent a line that is no request: {line}"))?;
        match request.work {
            Work::Shell { sh, timeout_s } => {
                let writer = Arc::clone(&writer);
                std::thread::spawn(move || {
                    let limit = Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6));
                    let reply = script::run(request.id, &sh, limit);
                    if let Err(error) = send(&writer, &reply) {
                        eprintln!("agent: cannot answer request {}: {error:#}", request.id);
                    }
                });
            }
            Work::PowerOff { .. } => init::power_off(),
        }
    }
    Ok(())
}

/// The port that the host has named, or else that of virtio-serial.
fn find_port() -> Result<PathBuf> {
    match std::env::var_os(PORT_VARIABLE) {
        Some(name) => {
            let port = PathBuf::from(name);
            make_transparent(&port)?;
            Ok(port)
        }
        None => find_virtio_port(),
    }
}

/// Keeps the terminal driver from interpreting what passes.
fn make_transparent(port: &Path) -> Result<()> {
    let mut stty = Command::new("stty");
    stty.args(["raw", "-echo", "-F"]).arg(port);
    let status = stty.status().context("cannot start stty")?;
    ensure!(status.success(), "stty ended with {status}");
    Ok(())
}

/// Without udev the port has no name in /dev, so look it up in sysfs.
fn find_virtio_port() -> Result<PathBuf> {
    // The port is announced by a control message, which may come after init has started.
    for _ in 0..500 {
        for entry in fs::read_dir("/sys/class/virtio-ports")
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == PORT {
                return Ok(PathBuf::from("/dev").join(entry.file_name()));
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("the guest has no virtio-serial port named {PORT}")
}

fn hello() -> Result<Hello> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let uptime = uptime.split_whitespace().next().unwrap_or_default();
    Ok(Hello {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned(),
        uptime_s: uptime.parse().context("cannot parse /proc/uptime")?,
    })
}

fn send(port: &Mutex<File>, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    // A poisoned lock only means that another reply was cut; this one is still whole.
    let mut port = port.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    port.write_all(&line).context("cannot write to the host")
}
