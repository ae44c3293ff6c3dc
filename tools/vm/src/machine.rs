// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A running guest.

use crate::accel::Chosen;
use crate::agent_client::{AgentClient, Output, Pending};
use crate::builder::VmBuilder;
use crate::command_line::{index_in_transport, Sockets};
use crate::console::{Console, Trouble};
use crate::devices::Devices;
use crate::disk::Disk;
use crate::environment::Environment;
use crate::process::Supervised;
use crate::qmp::Monitor;
use crate::root::Root;
use crate::run_dir::RunDir;
use crate::virtiofs::{self, Access};
use anyhow::{anyhow, bail, Context, Result};
use serde_json::json;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time limit of a script that names none.
const SCRIPT_LIMIT: Duration = Duration::from_secs(60);

/// How long a guest may take to power off.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(30);

/// Lines of the console in an error.
const TAIL: usize = 60;

/// A guest that is running. Dropping it kills it.
///
/// The fields are dropped in this order: first QEMU, last the folder that it uses.
pub struct Vm {
    qemu: Mutex<Supervised>,
    _shares: Vec<Supervised>,
    monitor: Monitor,
    agent: AgentClient,
    console: Arc<Console>,
    disks: Mutex<Vec<Disk>>,
    devices: Devices,
    chosen: Chosen,
    environment: Environment,
    boot_time: Duration,
    command_line: String,
    run_dir: RunDir,
}

impl Vm {
    /// Starts to describe a guest.
    pub fn builder() -> VmBuilder {
        VmBuilder::default()
    }

    pub(crate) fn boot(
        builder: VmBuilder,
        environment: Environment,
        chosen: Chosen,
    ) -> Result<Self> {
        let started = Instant::now();
        let run_dir = RunDir::new(&environment.cache)?;
        copy(&environment.agent, &run_dir.job().join("agent"))?;
        if environment.module.exists() {
            copy(&environment.module, &run_dir.job().join(MODULE))?;
        }
        let log = builder
            .console_log
            .clone()
            .unwrap_or_else(|| run_dir.console());
        let console = Console::create(&log, builder.tolerated.clone())
            .with_context(|| format!("cannot log the console to {}", log.display()))?;

        let initramfs = builder.root.initramfs(&environment, run_dir.path())?;
        let mut shares = (Vec::new(), Vec::new());
        if builder.root == Root::Share {
            let folders = [
                (environment.sysroot.clone(), Access::ReadOnly),
                (run_dir.job(), Access::ReadWrite),
            ];
            for (folder, access) in folders {
                let (daemon, socket) = virtiofs::share(&folder, access)?;
                shares.0.push(daemon);
                shares.1.push(socket);
            }
        }
        let (monitor, qemu_monitor) = UnixStream::pair()?;
        let (agent, qemu_agent) = UnixStream::pair()?;
        let sockets = Sockets {
            monitor: qemu_monitor.into(),
            agent: qemu_agent.into(),
            shares: shares.1,
        };
        let devices = Devices::default();
        for disk in &builder.disks {
            devices.start(&environment, &run_dir, disk)?;
        }
        let line = builder.command_line(
            &environment,
            &chosen,
            console.path(),
            initramfs.as_deref(),
            sockets,
            &devices,
        )?;
        let command_line = line.to_string();
        let mut command = line.into_command()?;
        let errors = run_dir.job().with_file_name("qemu.log");
        command
            .stdout(Stdio::null())
            .stderr(fs::File::create(&errors)?);
        let mut qemu = Supervised::spawn(command)?;

        let explain = |error: anyhow::Error, qemu: &mut Supervised| {
            let words = fs::read_to_string(&errors).unwrap_or_default();
            let end = qemu.wait_for(Duration::from_millis(100));
            let end = end.map(|status| format!(" ({status})")).unwrap_or_default();
            error.context(format!(
                "the guest did not boot under {}{end}\n{words}",
                chosen.name()
            ))
        };
        let monitor = Monitor::connect(monitor).map_err(|error| explain(error, &mut qemu))?;
        let agent = AgentClient::new(agent)?;
        let hello = agent
            .wait_for_hello(builder.boot_timeout, &console)
            .map_err(|error| explain(error, &mut qemu))?;
        if hello.kernel != environment.kernel {
            bail!(
                "the guest runs {} instead of {}. VBR_VMLINUZ and VBR_KERNEL must belong together.",
                hello.kernel,
                environment.kernel
            );
        }
        let vm = Self {
            qemu: Mutex::new(qemu),
            _shares: shares.0,
            monitor,
            agent,
            console: Arc::new(console),
            disks: Mutex::new(builder.disks),
            devices,
            chosen,
            environment,
            boot_time: started.elapsed(),
            command_line,
            run_dir,
        };
        if builder.microvm {
            vm.sh("modprobe virtio_mmio")?;
        }
        Ok(vm)
    }

    /// Runs a script, demands that it succeeds and that the kernel is not in trouble, and returns
    /// its standard output.
    pub fn sh(&self, script: &str) -> Result<String> {
        self.sh_for(SCRIPT_LIMIT, script)
    }

    /// As [`Self::sh`], for a script that takes up to `limit`.
    pub fn sh_for(&self, limit: Duration, script: &str) -> Result<String> {
        let stdout = self.spawn(limit, script)?.wait_ok();
        // Trouble in the kernel explains a failure better than what the script says.
        self.check()?;
        stdout
    }

    /// Runs a script that may fail.
    pub fn try_sh(&self, limit: Duration, script: &str) -> Result<Output> {
        self.spawn(limit, script)?.wait()
    }

    /// Starts a script that runs beside others; it is killed after `limit`.
    pub fn spawn(&self, limit: Duration, script: &str) -> Result<Pending> {
        self.agent.start(script, limit, Arc::clone(&self.console))
    }

    /// QEMU's monitor.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// What the kernel has complained about since the boot.
    pub fn trouble(&self) -> Trouble {
        self.console.trouble()
    }

    /// Fails if the kernel has complained.
    pub fn check(&self) -> Result<()> {
        let trouble = self.trouble();
        match trouble.lines.first() {
            None => Ok(()),
            Some(first) => Err(anyhow!("its console ends with:\n{}", self.console_tail())
                .context(format!("the guest's kernel is in trouble: {first}"))),
        }
    }

    /// The last lines of the console.
    pub fn console_tail(&self) -> String {
        self.console.tail(TAIL)
    }

    /// Where the console is logged.
    pub fn console_log(&self) -> &Path {
        self.console.path()
    }

    /// The host's path of the folder that the guest sees as `/mnt`.
    pub fn job_dir(&self) -> PathBuf {
        self.run_dir.job()
    }

    /// The accelerator in use.
    pub fn accel(&self) -> &Chosen {
        &self.chosen
    }

    /// Time from the start of QEMU until the agent reported.
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// What the guest was made from.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The folder of this guest.
    pub(crate) fn run_dir(&self) -> &RunDir {
        &self.run_dir
    }

    /// The programmable devices.
    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }

    /// QEMU's command line, for the record.
    pub fn command_line(&self) -> &str {
        &self.command_line
    }

    /// QEMU's version, such as `QEMU 11.1.3 (Debian 1:11.1.3+ds-1)`.
    pub fn qemu_version(&self) -> Result<String> {
        let version = self.monitor.execute("query-version", json!({}))?;
        let part = |name: &str| version["qemu"][name].as_u64().unwrap_or_default();
        let package = version["package"].as_str().unwrap_or_default().trim();
        let number = format!("{}.{}.{}", part("major"), part("minor"), part("micro"));
        Ok(format!("QEMU {number} ({package})").replace(" ()", ""))
    }

    /// The process number of QEMU.
    pub fn qemu_id(&self) -> u32 {
        self.lock_qemu().id()
    }

    /// The disk called `id` with its number among those of the same transport.
    pub(crate) fn find_disk(&self, id: &str) -> Result<(Disk, usize)> {
        let disks = self.lock_disks();
        let index = disks.iter().position(|disk| disk.id == id);
        let index = index.with_context(|| format!("the guest has no disk called {id}"))?;
        Ok((disks[index].clone(), index_in_transport(&disks, index)))
    }

    /// The guest's disks, those that were unplugged among them: their slots are not used again.
    pub(crate) fn lock_disks(&self) -> MutexGuard<'_, Vec<Disk>> {
        self.disks
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until a guest that reboots, or starts another kernel, is there again. What ran in it
    /// has ended.
    pub fn wait_for_boot(&self, limit: Duration) -> Result<()> {
        self.agent.wait_for_hello(limit, &self.console)?;
        Ok(())
    }

    /// Powers the guest off and fails if the kernel has complained or does not end.
    pub fn shutdown(self) -> Result<()> {
        self.check()?;
        self.agent.power_off()?;
        self.wait_for_end(POWER_OFF_LIMIT)
    }

    /// Waits until the guest has powered itself off, and fails if the kernel has complained or does
    /// not end.
    pub fn wait_for_end(self, limit: Duration) -> Result<()> {
        let end = self.lock_qemu().wait_for(limit);
        self.check()?;
        match end {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("QEMU ended with {status}\n{}", self.console_tail()),
            None => bail!(
                "the guest did not power off within {limit:?}\n{}",
                self.console_tail()
            ),
        }
    }

    fn lock_qemu(&self) -> MutexGuard<'_, Supervised> {
        self.qemu
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// File name of the Rust driver in the job share.
pub(crate) const MODULE: &str = "virtio_blk_rs.ko";

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
