// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The host's end of the line to the guest's agent.

use crate::console::Console;
use agent::{Hello, Reply, Request, Work, STATUS_TIMED_OUT};
use anyhow::{anyhow, bail, Context, Result};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a waiting caller looks at the console.
const LOOK: Duration = Duration::from_millis(250);

/// How much longer than the guest's own limit the host waits for the reply.
const GRACE: Duration = Duration::from_secs(20);

/// Lines of the console in an error.
const TAIL: usize = 40;

/// How a script ended and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status; 128 + N for signal N; 124 if its time was up.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Whether the script succeeded.
    pub fn success(&self) -> bool {
        self.status == 0
    }
}

type Waiting = Arc<Mutex<Option<HashMap<u64, Sender<Reply>>>>>;

/// A connection over which several scripts may run at the same time.
#[derive(Debug)]
pub struct AgentClient {
    writer: Mutex<UnixStream>,
    waiting: Waiting,
    next_id: Mutex<u64>,
    hello: Receiver<Hello>,
}

/// A script that is running in the guest.
#[derive(Debug)]
pub struct Pending {
    reply: Receiver<Reply>,
    console: Arc<Console>,
    script: String,
    limit: Duration,
    deadline: Instant,
}

impl AgentClient {
    /// Starts to listen on `socket`.
    pub fn new(socket: UnixStream) -> Result<Self> {
        let reader = BufReader::new(socket.try_clone()?);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (hello_sender, hello) = channel();
        let waiting_reader = Arc::clone(&waiting);
        std::thread::spawn(move || {
            read_all(reader, &hello_sender, &waiting_reader);
            // Dropping the senders tells everybody who still waits that no reply will come.
            *lock(&waiting_reader) = None;
        });
        Ok(Self {
            writer: Mutex::new(socket),
            waiting,
            next_id: Mutex::new(1),
            hello,
        })
    }

    /// Waits until the agent is ready.
    pub fn wait_for_hello(&self, limit: Duration, console: &Console) -> Result<Hello> {
        wait(&self.hello, Instant::now() + limit, console)
            .with_context(|| format!("the guest's agent did not report within {limit:?}"))
    }

    /// Starts `script`, which the guest kills after `limit`.
    pub fn start(&self, script: &str, limit: Duration, console: Arc<Console>) -> Result<Pending> {
        let (sender, reply) = channel();
        let id = self.new_id();
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.insert(id, sender),
            None => bail!("the guest is gone\n{}", console.tail(TAIL)),
        };
        self.send(&Request {
            id,
            work: Work::Shell {
                sh: script.to_owned(),
                timeout_s: limit.as_secs_f64(),
            },
        })?;
        let deadline = Instant::now() + limit + GRACE;
        Ok(Pending {
            reply,
            console,
            script: script.to_owned(),
            limit,
            deadline,
        })
    }

    /// Asks the guest to power off.
    pub fn power_off(&self) -> Result<()> {
        self.send(&Request {
            id: self.new_id(),
            work: Work::PowerOff { poweroff: true },
        })
    }

    fn new_id(&self) -> u64 {
        let mut next_id = lock(&self.next_id);
        *next_id += 1;
        *next_id
    }

    fn send(&self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        lock(&self.writer)
            .write_all(&line)
            .context("cannot write to the guest's agent")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn read_all(mut reader: BufReader<UnixStream>, hello: &Sender<Hello>, waiting: &Waiting) {
    let mut line = String::new();
    while matches!(reader.read_line(&mut line), Ok(length) if length > 0) {
        if let Ok(reply) = serde_json::from_str::<Reply>(&line) {
            let sender = lock(waiting)
                .as_mut()
                .and_then(|waiting| waiting.remove(&reply.id));
            // The caller may have given up waiting.
            let _ = sender.map(|sender| sender.send(reply));
        } else if let Ok(message) = serde_json::from_str::<Hello>(&line) {
            // After a reboot nothing is left of the scripts that ran before.
            if let Some(waiting) = lock(waiting).as_mut() {
                waiting.clear();
            }
            let _ = hello.send(message);
        }
        line.clear();
    }
}

impl Pending {
    /// Waits for the script to end, however it ends.
    pub fn wait(self) -> Result<Output> {
        let reply = wait(&self.reply, self.deadline, &self.console)
            .with_context(|| format!("no reply to the script {:?}", self.script))?;
        Ok(Output {
            status: reply.status,
            stdout: reply.stdout,
            stderr: reply.stderr,
        })
    }

    /// Waits for the script to end and demands that it succeeds.
    pub fn wait_ok(self) -> Result<String> {
        let (script, limit) = (self.script.clone(), self.limit);
        let output = self.wait()?;
        let end = match output.status {
            0 => return Ok(output.stdout),
            STATUS_TIMED_OUT => format!("was killed after {limit:?}"),
            status => format!("ended with status {status}"),
        };
        Err(anyhow!("{}{}", output.stdout, output.stderr)
            .context(format!("the script {script:?} {end}")))
    }
}

/// Waits for a message, but no longer than the guest lives.
fn wait<T>(messages: &Receiver<T>, deadline: Instant, console: &Console) -> Result<T> {
    loop {
        match messages.recv_timeout(LOOK) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Disconnected) => {
                bail!(
                    "the guest is gone; its console ends with:\n{}",
                    console.tail(TAIL)
                )
            }
            Err(RecvTimeoutError::Timeout) if console.trouble().panicked => {
                // The rest of the panic message is worth waiting for.
                std::thread::sleep(LOOK);
                bail!("the guest's kernel panicked:\n{}", console.tail(TAIL))
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                bail!(
                    "time is up; the guest's console ends with:\n{}",
                    console.tail(TAIL)
                )
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
