// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The folder of one guest: the share that it writes to, and its console log.

use crate::process::OnSignal;
use anyhow::{Context, Result};
use rustix::fs::{flock, open, FlockOperation, Mode, OFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder that is removed when dropped.
///
/// It is locked as long as its program lives. A process number would not tell whether it is still
/// in use: programs in different PID namespaces share the cache.
#[derive(Debug)]
pub struct RunDir {
    folder: TempDir,
    _lock: OwnedFd,
    _on_signal: OnSignal,
}

impl RunDir {
    /// Makes a new folder below `cache`, and removes those whose programs were killed.
    pub fn new(cache: &Path) -> Result<Self> {
        let parent = cache.join("run");
        fs::create_dir_all(&parent)
            .with_context(|| format!("cannot create the folder {}", parent.display()))?;
        remove_stale(&parent);
        let folder = tempfile::Builder::new()
            .prefix("vm-")
            .tempdir_in(&parent)
            .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
        let lock = try_lock(folder.path()).context("cannot lock the guest's folder")?;
        fs::create_dir(folder.path().join("job"))?;
        let doomed = folder.path().to_owned();
        let on_signal = OnSignal::new(move || {
            let _ = fs::remove_dir_all(doomed);
        });
        Ok(Self {
            folder,
            _lock: lock,
            _on_signal: on_signal,
        })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that the guest sees as [`agent::JOB_DIR`].
    pub fn job(&self) -> PathBuf {
        self.folder.path().join("job")
    }

    /// Where the console is logged.
    pub fn console(&self) -> PathBuf {
        self.folder.path().join("console.log")
    }

    /// Where the programmable device of the disk called `id` writes what it has to say.
    pub fn device_log(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("device-{id}.log"))
    }
}

fn try_lock(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let lock = open(
        folder,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // Another program may just have made this folder and not locked it yet.
        let age = entry
            .metadata()
            .ok()
            .and_then(|data| data.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age.as_secs() > 60) && try_lock(&entry.path()).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
