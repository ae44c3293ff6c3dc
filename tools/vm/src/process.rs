// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Child processes that never outlive this program.
//!
//! Three nets below each other: dropping a [`Supervised`] kills its process group; SIGINT, SIGTERM
//! and SIGHUP kill all groups that are registered; and if this program is killed so that neither
//! can run, the kernel kills the children (PR_SET_PDEATHSIG).

use anyhow::{Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{channel, Sender};
use std::sync::{LazyLock, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

/// Exit status of a program that SIGINT has ended, as shells have it.
const STATUS_INTERRUPTED: i32 = 130;

/// How long a killed process may take to disappear before it is left to the kernel. A hanging
/// /dev/kvm can hold one for ever.
const PATIENCE: Duration = Duration::from_secs(5);

type Cleanup = Box<dyn FnOnce() + Send>;

/// What is to be undone when a signal ends the program.
#[derive(Default)]
struct Registry {
    groups: Vec<Pid>,
    cleanups: Vec<(u64, Cleanup)>,
    last_key: u64,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A child process in a process group of its own.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    group: Pid,
}

impl Supervised {
    /// Starts `command`.
    pub fn spawn(command: Command) -> Result<Self> {
        install_signal_handler();
        let program = command.get_program().to_string_lossy().into_owned();
        let child = launch(command).with_context(|| {
            format!("cannot start {program}. It belongs to the sysroot: run `make setup`.")
        })?;
        let group = Pid::from_child(&child);
        registry().groups.push(group);
        Ok(Self { child, group })
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the process to end by itself.
    pub fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.ended() {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                status => return status,
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // It may end by itself at this moment; the wait below tells.
            let _ = kill_process_group(self.group, Signal::KILL);
            self.wait_for(PATIENCE);
        }
        registry().groups.retain(|group| *group != self.group);
    }
}

/// Something to do when a signal ends the program; forgotten when dropped.
#[derive(Debug)]
pub struct OnSignal(u64);

impl OnSignal {
    /// Registers `cleanup`, which runs after all children have been killed.
    pub fn new(cleanup: impl FnOnce() + Send + 'static) -> Self {
        install_signal_handler();
        let mut registry = registry();
        registry.last_key += 1;
        let key = registry.last_key;
        registry.cleanups.push((key, Box::new(cleanup)));
        Self(key)
    }
}

impl Drop for OnSignal {
    fn drop(&mut self) {
        registry().cleanups.retain(|(key, _)| *key != self.0);
    }
}

fn install_signal_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let installed = ctrlc::set_handler(|| {
            // The lock stays held, so that no thread starts another child.
            let mut registry = registry();
            for group in &registry.groups {
                let _ = kill_process_group(*group, Signal::KILL);
            }
            for (_, cleanup) in registry.cleanups.drain(..) {
                cleanup();
            }
            eprintln!("\nInterrupted: the guest has been switched off.");
            std::process::exit(STATUS_INTERRUPTED);
        });
        if let Err(error) = installed {
            eprintln!("warning: cannot handle signals ({error}); the kernel will still clean up.");
        }
    });
}

/// Starts a process from a thread that lives as long as the program: the kernel sends the parent
/// death signal when the *thread* that started the child ends.
fn launch(command: Command) -> Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static LAUNCHER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, answer) in jobs {
                command.process_group(0);
                // SAFETY: Between fork and exec only async-signal-safe code may run; prctl(2) is
                // one system call that neither allocates nor locks.
                unsafe {
                    command.pre_exec(|| {
                        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                        Ok(())
                    });
                }
                // If nobody waits for the answer any more, the child goes with its sender.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (sender, answer) = channel();
    LAUNCHER
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .send((command, sender))
        .context("the launcher thread has ended")?;
    Ok(answer.recv().context("the launcher thread has ended")??)
}
