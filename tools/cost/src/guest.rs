// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The guest in which all settings are measured, in one boot.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use marker::Window;
use measuring::drivers;
use vm::{Accel, Disk, Driver, Interrupts, Vm, JOB_DIR};

use crate::job::Job;
use crate::settings::Setting;
use crate::symbols::Symbols;
use crate::windows::Windows;

/// The name of the disk under test.
const DISK: &str = "cost";

/// The block device of the floor.
const NULL_BLOCK: &str = "nullb0";

/// null_blk as the floor: one queue, completion within the submission.
const LOAD_FLOOR: &str = "modprobe null_blk queue_mode=2 irqmode=0 submit_queues=1 && \
                          test -b /dev/nullb0";

/// I/Os of the first job of each setting, which fills the caches and does not count.
const WARM_UP: u64 = 1_000;

/// How long a job may take on a machine that is busy with other work.
const JOB_LIMIT: Duration = Duration::from_secs(600);

/// A booted guest with the drivers loaded and the plugin counting.
pub struct Guest {
    vm: Vm,
    windows: Windows,
    device: String,
}

/// One counted piece of work.
pub struct Count {
    /// What the plugin counted.
    pub window: Window,
    /// Interrupts of the local timer meanwhile.
    pub ticks: u64,
    /// Interrupts of the disk's request queues meanwhile.
    pub interrupts: u64,
}

impl Guest {
    /// Boots the guest with `disk`, under TCG since there are no plugins elsewhere.
    pub fn boot(
        disk: impl FnOnce(&str) -> Result<Disk>,
        rust: bool,
        profile: bool,
    ) -> Result<Self> {
        let windows = Windows::new()?;
        let vm = Vm::builder()
            .accel(Accel::Tcg)
            .disk(disk(DISK)?)
            .qemu_arguments([
                "-plugin".to_owned(),
                format!(
                    "{},out={},profile={}",
                    // A comma would end the name of the file.
                    beside("libvbr_plugin.so")?
                        .display()
                        .to_string()
                        .replace(',', ",,"),
                    windows.path().display(),
                    if profile { "on" } else { "off" }
                ),
            ])
            .boot()?;
        let marker = beside("vbr-marker")?;
        std::fs::copy(&marker, vm.job_dir().join("vbr-marker"))
            .with_context(|| format!("cannot copy {} into the guest", marker.display()))?;
        vm.sh(&format!("cp {JOB_DIR}/vbr-marker /run/"))?;
        vm.sh(LOAD_FLOOR).context("cannot load null_blk")?;
        drivers::load(&vm, Driver::C, &[DISK])?;
        if rust {
            drivers::load(&vm, Driver::Rust, &[DISK])?;
        }
        let device = vm.virtio_device(DISK)?;
        Ok(Self {
            vm,
            windows,
            device,
        })
    }

    /// Binds the disk to the driver of `setting` and warms up. Returns the block device.
    pub fn select(&mut self, setting: &Setting) -> Result<String> {
        let name = self
            .bind(setting)
            .with_context(|| format!("cannot set up {setting}"))?;
        self.run(&name, &Job::new(WARM_UP, 128))?;
        Ok(name)
    }

    fn bind(&self, setting: &Setting) -> Result<String> {
        match setting.driver {
            Some(driver) => drivers::bind(&self.vm, DISK, driver, &setting.parameters),
            None => drivers::unbind(&self.vm, DISK).map(|()| NULL_BLOCK.to_owned()),
        }
    }

    /// Runs the job on a block device, counted. Returns its IOPS too.
    pub fn run(&mut self, name: &str, job: &Job) -> Result<(Count, f64)> {
        let before = self.vm.sh("cat /proc/interrupts")?;
        let command = format!("/run/vbr-marker {}", job.command(name));
        let report = self.vm.sh_for(JOB_LIMIT, &command)?;
        let after = self.vm.sh("cat /proc/interrupts")?;
        let interrupts = |text| Interrupts::parse(text, &self.device).requests();
        let count = Count {
            window: self.windows.next()?,
            ticks: ticks(&after)?.wrapping_sub(ticks(&before)?),
            interrupts: interrupts(&after).saturating_sub(interrupts(&before)),
        };
        Ok((count, job.check(&report)?))
    }

    /// The addresses of the kernel's and the loaded modules' functions.
    pub fn symbols(&self) -> Result<Symbols> {
        self.vm.sh(&format!("cp /proc/kallsyms {JOB_DIR}/"))?;
        let path = self.vm.job_dir().join("kallsyms");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Symbols::parse(&text)
    }

    /// Features of the disk that its driver has accepted.
    pub fn features(&self) -> Result<Vec<String>> {
        self.vm.features(DISK)
    }

    /// The machine itself.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Powers off; fails if the kernel has complained.
    pub fn shutdown(self) -> Result<()> {
        self.vm.shutdown()
    }
}

/// A file that cargo has built beside this program.
fn beside(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's own path")?;
    let path = program.parent().unwrap_or(Path::new("")).join(name);
    ensure!(
        path.is_file(),
        "{} is not built. Build it with `make tools`.",
        path.display()
    );
    Ok(path)
}

/// Interrupts of the local timers of all processors, in the text of /proc/interrupts.
fn ticks(interrupts: &str) -> Result<u64> {
    let mut lines = interrupts.lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| (words.next() == Some("LOC:")).then_some(words));
    Ok(line
        .context("/proc/interrupts does not count the local timer")?
        .map_while(|word| word.parse::<u64>().ok())
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_summed_over_processors() {
        let text = "      CPU0 CPU1\n  0:  1  2  IO-APIC 2-edge timer\n\
                    LOC:  30  12   Local timer interrupts\nERR:  0\n";
        assert_eq!(ticks(text).unwrap(), 42);
        assert!(ticks("ERR: 0\n").is_err());
    }
}
