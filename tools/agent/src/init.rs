// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What an init must do: mount the kernel's file systems, reap orphans, power off.

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use rustix::process::WaitOptions;
use rustix::system::RebootCommand;
use std::{fs, path::Path};

/// File systems that every script may rely on: type, mount point, options.
const REQUIRED: [(&str, &str, &str); 5] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/run", "mode=755"),
];

/// File systems that depend on the kernel's configuration or on a module.
const OPTIONAL: [(&str, &str, &str); 3] = [
    ("debugfs", "/sys/kernel/debug", ""),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("configfs", "/sys/kernel/config", ""),
];

/// Kernel settings that make trouble show up early and completely.
const SETTINGS: [(&str, &str); 3] = [
    // A request that is lost shows as a hung task; the default of 120 s outlives most tests.
    ("/proc/sys/kernel/hung_task_timeout_secs", "30"),
    ("/proc/sys/kernel/hung_task_warnings", "-1"),
    ("/proc/sys/kernel/kptr_restrict", "0"),
];

/// Makes the system usable for scripts.
pub fn prepare() -> Result<()> {
    for (kind, target, options) in REQUIRED {
        mount(kind, target, options).with_context(|| format!("cannot mount {kind} on {target}"))?;
    }
    use_console().context("cannot open /dev/console")?;
    // A module in the stock kernel; without it only null_blk cannot be set up.
    let _ = std::process::Command::new("modprobe")
        .args(["-q", "configfs"])
        .status();
    for (kind, target, options) in OPTIONAL {
        if Path::new(target).is_dir() {
            if let Err(error) = mount(kind, target, options) {
                eprintln!("agent: {target} stays empty: {error}");
            }
        }
    }
    for (path, value) in SETTINGS {
        if let Err(error) = fs::write(path, value) {
            eprintln!("agent: cannot write {value} to {path}: {error}");
        }
    }
    fs::create_dir_all("/dev/shm")?;
    mount("tmpfs", "/dev/shm", "mode=1777").context("cannot mount /dev/shm")
}

fn mount(kind: &str, target: &str, options: &str) -> Result<()> {
    let options = std::ffi::CString::new(options)?;
    rustix::mount::mount(kind, target, kind, MountFlags::empty(), options.as_c_str())?;
    Ok(())
}

/// The kernel finds no /dev/console before devtmpfs is there, so init starts without one.
fn use_console() -> Result<()> {
    let console = rustix::fs::open("/dev/console", OFlags::RDWR, Mode::empty())?;
    rustix::stdio::dup2_stdin(&console)?;
    rustix::stdio::dup2_stdout(&console)?;
    rustix::stdio::dup2_stderr(&console)?;
    Ok(())
}

/// Collects every child that ends, until the one with the number `pid` has ended.
pub fn reap_until(pid: u32) -> Result<()> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((child, _))) if child.as_raw_nonzero().get() as u32 == pid => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the server"),
        }
    }
}

/// Writes back what is dirty and switches the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    loop {
        if let Err(error) = rustix::system::reboot(RebootCommand::PowerOff) {
            eprintln!("agent: cannot power off: {error}");
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
