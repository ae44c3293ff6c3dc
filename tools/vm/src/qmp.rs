// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! QEMU's monitor: JSON objects, one a line, as QEMU's "QMP" reference has them.
//!
//! Commands are named and take JSON. A crate with a type for each of QEMU's thousand commands and
//! events exists, but costs more to compile than all the rest of the tools together.

use anyhow::{bail, Context, Result};
use serde::Deserialize;
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

/// Longest time that QEMU takes for a command on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the monitor that several threads may use.
pub struct Monitor(Mutex<Connection>);

struct Connection {
    reader: BufReader<UnixStream>,
    events: Vec<Value>,
}

/// A line from QEMU that is the answer to a command.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Success {
        #[serde(rename = "return")]
        value: Value,
    },
    Failure {
        error: Refusal,
    },
}

#[derive(Deserialize)]
struct Refusal {
    desc: String,
}

impl Monitor {
    /// Greets QEMU on `socket`.
    pub(crate) fn connect(socket: UnixStream) -> Result<Self> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Connection {
            reader: BufReader::new(socket),
            events: Vec::new(),
        };
        connection
            .read_line()
            .context("QEMU's monitor does not answer")?;
        connection.execute("qmp_capabilities", json!({}))?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Runs one command and returns its result:
    /// `execute("block_resize", json!({"node-name": node, "size": size}))`.
    pub fn execute(&self, command: &str, arguments: Value) -> Result<Value> {
        self.lock().execute(command, arguments)
    }

    /// Waits for the next event called `name` and returns its data. Events that came before are
    /// not forgotten until they are asked for.
    pub fn wait_for_event(&self, name: &str) -> Result<Value> {
        self.lock().wait_for_event(name)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Connection {
    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = json!({"execute": command, "arguments": arguments});
        writeln!(self.reader.get_ref(), "{request}").context("cannot write to QEMU's monitor")?;
        loop {
            let message = self.read_line()?;
            if message.get("event").is_some() {
                self.events.push(message);
                continue;
            }
            match serde_json::from_value(message).context("QEMU's answer is not understood")? {
                Answer::Success { value } => return Ok(value),
                Answer::Failure { error } => {
                    bail!(
                        "QEMU refused {command} {}: {}",
                        request["arguments"],
                        error.desc
                    )
                }
            }
        }
    }

    fn wait_for_event(&mut self, name: &str) -> Result<Value> {
        loop {
            if let Some(index) = self.events.iter().position(|event| event["event"] == name) {
                return Ok(self.events.remove(index)["data"].take());
            }
            let message = self
                .read_line()
                .with_context(|| format!("no event {name} came"))?;
            self.events.push(message);
        }
    }

    fn read_line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self
            .reader
            .read_line(&mut line)
            .context("QEMU's monitor is silent")?
            == 0
        {
            bail!("QEMU has closed its monitor");
        }
        serde_json::from_str(&line).with_context(|| format!("QEMU's monitor sent {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A monitor whose QEMU has already said everything.
    fn monitor(lines: &str) -> Result<(Monitor, UnixStream)> {
        let (ours, mut qemu) = UnixStream::pair().unwrap();
        qemu.write_all(b"{\"QMP\": {}}\n{\"return\": {}}\n")
            .unwrap();
        qemu.write_all(lines.as_bytes()).unwrap();
        Ok((Monitor::connect(ours)?, qemu))
    }

    #[test]
    fn events_before_an_answer_are_kept() {
        let lines = "{\"event\": \"STOP\", \"data\": {}}\n{\"return\": {\"running\": false}}\n\
                     {\"event\": \"DEVICE_DELETED\", \"data\": {\"device\": \"d\"}}\n";
        let (monitor, _qemu) = monitor(lines).unwrap();
        let status = monitor.execute("query-status", json!({})).unwrap();
        assert_eq!(status["running"], false);
        assert_eq!(
            monitor.wait_for_event("DEVICE_DELETED").unwrap()["device"],
            "d"
        );
        assert!(monitor.wait_for_event("STOP").is_ok());
    }

    #[test]
    fn a_refusal_names_the_command_and_the_reason() {
        let lines = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such node\"}}\n";
        let (monitor, _qemu) = monitor(lines).unwrap();
        let error = monitor
            .execute("block_resize", json!({"size": 1}))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "QEMU refused block_resize {\"size\":1}: no such node"
        );
    }

    #[test]
    fn a_dead_qemu_is_an_error() {
        let (monitor, qemu) = monitor("").unwrap();
        drop(qemu);
        assert!(monitor.execute("stop", json!({})).is_err());
    }
}
