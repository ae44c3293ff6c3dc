// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Where tests get guests and files from.

use anyhow::{Context, Result};
use serde_json::json;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use vm::{Backend, Driver, Vm, VmBuilder};

/// What makes QEMU's throttle group for [`Lab::throttled`] in which 32 requests take a while.
pub const SLOW_GROUP: [&str; 2] = ["-object", "throttle-group,id=slow,x-iops-total=400"];

/// Lines of a guest's console in a report.
const TAIL: usize = 60;

/// The place in which the tests of one group work.
pub struct Lab {
    name: String,
    long: bool,
    driver: Driver,
    cache: PathBuf,
    logs: PathBuf,
    consoles: Mutex<Vec<PathBuf>>,
    files: Mutex<Vec<Arc<Scratch>>>,
}

/// A sparse file without a name: whatever way a program ends, nothing stays behind.
pub struct Scratch {
    /// For looking at the content, or changing it behind the guest.
    pub file: File,
}

impl Scratch {
    /// The path under which QEMU, which must not outlive this program, finds the file.
    pub fn path(&self) -> PathBuf {
        let (id, number) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{id}/fd/{number}"))
    }

    /// A disk in this file.
    pub fn backend(&self) -> Backend {
        Backend::file(self.path())
    }
}

impl Lab {
    /// A lab for the group `name`. Consoles are logged below the results.
    pub fn new(name: &str, long: bool, driver: Driver) -> Result<Self> {
        let variable = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).with_context(|| {
                format!("The variable {name} is not set. Run the tests with `make test`.")
            })
        };
        let logs = variable("VBR_RESULTS")?.join("selftest");
        fs::create_dir_all(&logs)
            .with_context(|| format!("cannot create the folder {}", logs.display()))?;
        Ok(Self {
            name: name.to_owned(),
            long,
            driver,
            cache: variable("VBR_CACHE")?,
            logs,
            consoles: Mutex::default(),
            files: Mutex::default(),
        })
    }

    /// Chooses between the size for every day and the full one.
    pub fn scale<T>(&self, short: T, long: T) -> T {
        if self.long {
            long
        } else {
            short
        }
    }

    /// The driver under test.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Whether the driver under test is ours, which can be asked for more.
    pub fn is_ours(&self) -> bool {
        self.driver == Driver::Rust
    }

    /// Makes a folder that goes when the caller lets go of it.
    pub fn folder(&self) -> Result<TempDir> {
        tempfile::tempdir_in(&self.cache)
            .with_context(|| format!("cannot create a folder in {}", self.cache.display()))
    }

    /// Makes a sparse file of `size` bytes that lives as long as the lab.
    pub fn scratch(&self, size: u64) -> Result<Arc<Scratch>> {
        let file = tempfile::tempfile_in(&self.cache)
            .with_context(|| format!("cannot create a file in {}", self.cache.display()))?;
        file.set_len(size)
            .with_context(|| format!("cannot make a sparse file of {size} bytes"))?;
        let scratch = Arc::new(Scratch { file });
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(Arc::clone(&scratch));
        Ok(scratch)
    }

    /// A disk of `size` bytes in a sparse file, as slow as QEMU's throttle group `slow` makes it.
    pub fn throttled(&self, size: u64) -> Result<Backend> {
        Ok(Backend::Blockdev(json!({
            "driver": "throttle",
            "throttle-group": "slow",
            "file": {"driver": "file", "filename": self.scratch(size)?.path()},
        })))
    }

    /// Boots a guest whose console ends up in the report if the test fails. What is tested is not
    /// the boot: on a busy host an emulated guest may stall early in it, so there are two tries.
    pub fn boot(&self, guest: VmBuilder) -> Result<Vm> {
        self.try_to_boot(guest.clone()).or_else(|err| {
            eprintln!("# {}: booting once more, because {err:#}", self.name);
            self.try_to_boot(guest)
        })
    }

    fn try_to_boot(&self, guest: VmBuilder) -> Result<Vm> {
        // Groups may have the same name.
        static LAST_NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        let log = self.logs.join(format!("{}-{number}.log", self.name));
        self.consoles().push(log.clone());
        guest.console_log(log).boot()
    }

    /// The end of the console of the guest that was booted last, and its log.
    pub fn last_console(&self) -> Option<(PathBuf, String)> {
        let log = self.consoles().last()?.clone();
        let bytes = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        Some((log, tail))
    }

    /// Removes the consoles' logs.
    pub fn remove_logs(&self) {
        for log in self.consoles().drain(..) {
            // Without a guest there is no log.
            let _ = fs::remove_file(log);
        }
    }

    fn consoles(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.consoles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
