// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A guest in which a suite runs on one driver.

use crate::options::Options;
use crate::suite::{Outcome, Suite};
use anyhow::{bail, ensure, Context, Result};
use measuring::Progress;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use vm::{Backend, Disk, Driver, Vm};

/// How often the output is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Runs the script that follows with a root that can be written to, whose changes are in memory.
/// The suite is in a file system of that memory too: not all that suites do works on virtio-fs.
const WRITABLE: &str = "set -e
    modprobe overlay
    mkdir /run/root
    mount -t tmpfs -o size=90% tmpfs /run/root
    cd /run/root
    mkdir upper work root
    mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
    for folder in dev proc sys run tmp mnt; do
        mount --rbind /$folder root/$folder
    done
    cp -a /mnt/suite root/var/suite
    # What a distribution does at its start.
    ln -sf /proc/self/fd /dev/fd
    /usr/lib/systemd/systemd-udevd --daemon --resolve-names=never
    udevadm trigger --settle
    echo '127.0.0.1 localhost' >root/etc/hosts
    exec chroot root /bin/bash -c \"$1\" >/mnt/output 2>&1 </dev/null";

/// What a suite did on one driver.
pub struct Ran {
    /// What became of its tests.
    pub outcomes: Vec<Outcome>,
    /// What went wrong beyond that.
    pub trouble: Option<String>,
}

/// Runs the suite. Its output is kept among the results.
pub fn on(driver: Driver, suite: &dyn Suite, options: &Options) -> Result<Ran> {
    let mut progress = Progress::new(1);
    progress.doing(&format!("booting a guest for {driver}"));
    let (disks, folder) = (suite.disks(), tempfile::tempdir_in(options.cache()?)?);
    let mut builder = Vm::builder().vcpus(2).memory_mib(3072);
    for name in disks.names {
        let file = folder.path().join(name);
        File::create(&file)?.set_len(disks.size)?;
        let disk = Disk::new(name, Backend::file(file)).property("discard", true);
        builder = builder.disk(disk.num_queues(2).transport(disks.transport));
    }
    let vm = builder.boot()?;
    let job = vm.job_dir();
    copy(&options.built, &job.join("suite"))?;
    vm.load(driver, "")?;
    for name in disks.names {
        let got = vm.block_device(name)?;
        ensure!(got == *name, "the disk {name} is called {got}");
    }

    let limit = Duration::from_secs(60 * u64::from(options.minutes));
    let script = format!("cd /var/suite && {}", suite.script());
    let pending = vm.spawn(limit, &with_argument(WRITABLE, &script))?;
    let output = || fs::read(job.join("output")).unwrap_or_default();
    let read = || suite.parse(&String::from_utf8_lossy(&output()));
    let end = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || pending.wait());
        while !waiting.is_finished() {
            let outcomes = read();
            let last = outcomes.last();
            let last = last.map_or("the first test", |outcome| outcome.test.as_str());
            progress.doing(&format!("{driver}: {} tests, {last}", outcomes.len()));
            std::thread::sleep(LOOK);
        }
        waiting.join()
    });
    progress.finish();
    let outcomes = read();
    keep(driver, options, &output())?;
    // Its status says no more than what is read; without that, it explains why.
    if outcomes.is_empty() {
        bail!(
            "the suite ran no test on {driver}: {end:?}, {}",
            String::from_utf8_lossy(&output())
        );
    }
    let trouble = vm.check().err().map(|error| format!("{error:#}"));
    if trouble.is_none() {
        vm.shutdown()?;
    }
    Ok(Ran { outcomes, trouble })
}

/// A script whose `$1` is another one.
fn with_argument(script: &str, argument: &str) -> String {
    let quoted = argument.replace('\'', "'\\''");
    format!("set -- '{quoted}'\n{script}")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .stdin(Stdio::null())
        .status()
        .context("cannot start cp")?;
    ensure!(
        status.success(),
        "cannot copy the suite from {}: give the folder in which it was built",
        from.display()
    );
    Ok(())
}

fn keep(driver: Driver, options: &Options, output: &[u8]) -> Result<()> {
    let file = options
        .results()?
        .join(format!("{}-{driver}.log", options.name()));
    fs::write(&file, output).with_context(|| format!("cannot write {}", file.display()))
}
