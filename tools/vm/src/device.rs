// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The programmable device at work: its process and its control socket.

use crate::device_config::DeviceConfig;
use crate::environment::Environment;
use crate::process::Supervised;
use crate::socket;
use ::device::{Policy, Snapshot};
use anyhow::{bail, Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use serde_json::{json, Map, Value};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Longest time that the device takes for a command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A programmable device. Dropping it kills it.
#[derive(Debug)]
pub struct Device {
    process: Mutex<Option<Supervised>>,
    socket: String,
    control: Mutex<BufReader<UnixStream>>,
}

impl Device {
    /// Starts the device of a disk with these properties, at the socket of a device that was killed
    /// if one is named; what it says goes to `log`.
    pub(crate) fn start(
        environment: &Environment,
        config: &DeviceConfig,
        properties: &Map<String, Value>,
        log: &Path,
        killed: Option<&Self>,
    ) -> Result<Self> {
        const SOCKET_FD: i32 = 3;
        const CONTROL_FD: i32 = 4;
        let (socket, address) = match killed {
            Some(device) => socket::listen_again(&device.socket)?,
            None => socket::listen()?,
        };
        let (control, control_address) = socket::listen()?;
        let mut command = Command::new(environment.device()?);
        command
            .args(config.command_line(properties))
            .arg(format!("--socket-fd={SOCKET_FD}"))
            .arg(format!("--control-fd={CONTROL_FD}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log)?);
        let mapping = |socket: std::os::unix::net::UnixListener, child_fd| FdMapping {
            parent_fd: socket.into(),
            child_fd,
        };
        command
            .fd_mappings(vec![
                mapping(socket, SOCKET_FD),
                mapping(control, CONTROL_FD),
            ])
            .context("cannot hand the sockets to the device")?;
        let process = Supervised::spawn(command)?;
        let start = || {
            let control = UnixStream::connect_addr(&control_address)
                .context("cannot connect to the device's control socket")?;
            control.set_read_timeout(Some(PATIENCE))?;
            let device = Self {
                process: Mutex::new(Some(process)),
                socket: socket::name(&address)?,
                control: Mutex::new(BufReader::new(control)),
            };
            device.set(&config.policy)?;
            Ok(device)
        };
        start().map_err(|error: anyhow::Error| {
            let words = fs::read_to_string(log).unwrap_or_default();
            error.context(format!("the programmable device did not start\n{words}"))
        })
    }

    /// The abstract address at which it listens for QEMU.
    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    /// Kills it, as if it had crashed.
    pub fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        drop(process.take());
    }

    /// Changes how it behaves, for requests on their way too.
    pub fn set(&self, policy: &Policy) -> Result<()> {
        let mut request = serde_json::to_value(policy)?;
        request["command"] = json!("set");
        self.ask(&request)?;
        Ok(())
    }

    /// What each queue has done since the start or the last reset.
    pub fn counts(&self) -> Result<Vec<Snapshot>> {
        let mut answer = self.ask(&json!({"command": "counts"}))?;
        serde_json::from_value(answer["queues"].take())
            .context("the device's counts are not understood")
    }

    /// What all queues together have done.
    pub fn total(&self) -> Result<Snapshot> {
        Ok(self.counts()?.into_iter().sum())
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) -> Result<()> {
        self.ask(&json!({"command": "reset_counts"}))?;
        Ok(())
    }

    /// Sends any command and returns the answer, unless it is an error.
    pub fn ask(&self, request: &Value) -> Result<Value> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(control.get_ref(), "{request}").context("cannot write to the device")?;
        let mut line = String::new();
        let length = control
            .read_line(&mut line)
            .context("the device is silent")?;
        if length == 0 {
            bail!("the device has closed its control socket");
        }
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the device sent {line:?}"))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => bail!("the device refused {request}: {error}"),
            None => Ok(answer),
        }
    }
}
