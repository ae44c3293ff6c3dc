// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Where things are: the variables that `scripts/enter` sets.

use anyhow::{bail, Context, Result};
use std::env;
use std::path::{Path, PathBuf};

/// File name of the agent's program.
const AGENT: &str = "vbr-agent";

/// File name of the programmable device.
const DEVICE: &str = "vbr-device";

/// The places that the guest is made from.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The guest's root file system (`VBR_SYSROOT`).
    pub sysroot: PathBuf,
    /// Release of the guest's kernel, as `uname -r` prints it (`VBR_KERNEL`).
    pub kernel: String,
    /// The kernel's image (`VBR_VMLINUZ`).
    pub vmlinuz: PathBuf,
    /// The Rust driver, which need not be built (`VBR_MODULE`).
    pub module: PathBuf,
    /// What is kept between runs (`VBR_CACHE`).
    pub cache: PathBuf,
    /// Where results go (`VBR_RESULTS`).
    pub results: PathBuf,
    /// The guest's init, built beside this program.
    pub agent: PathBuf,
}

impl Environment {
    /// Reads the variables and checks that the guest can be made from them.
    pub fn from_env() -> Result<Self> {
        let environment = Self {
            sysroot: path("VBR_SYSROOT")?,
            kernel: variable("VBR_KERNEL")?,
            vmlinuz: path("VBR_VMLINUZ")?,
            module: path("VBR_MODULE")?,
            cache: path("VBR_CACHE")?,
            results: path("VBR_RESULTS")?,
            agent: find_program(AGENT)?,
        };
        let modules = environment
            .sysroot
            .join("usr/lib/modules")
            .join(&environment.kernel);
        for needed in [&environment.vmlinuz, &modules] {
            if !needed.exists() {
                bail!(
                    "{} does not exist. Prepare the sysroot with `make setup`.",
                    needed.display()
                );
            }
        }
        Ok(environment)
    }

    /// The programmable device, which needs to be built only if it is used.
    pub(crate) fn device(&self) -> Result<PathBuf> {
        find_program(DEVICE)
    }
}

fn variable(name: &str) -> Result<String> {
    env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .with_context(|| {
            format!(
                "The environment variable {name} is not set. Start this program with `make`, or as \
             `scripts/enter PROGRAM...`, which sets it."
            )
        })
}

fn path(name: &str) -> Result<PathBuf> {
    variable(name).map(PathBuf::from)
}

/// Looks beside this program, and above it because test programs lie in a folder of their own.
fn find_program(name: &str) -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find this program's own path")?;
    let target = env::var_os("CARGO_TARGET_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    let beside = program.ancestors().skip(1).take(2).map(Path::to_path_buf);
    beside
        .chain([target.join("release"), target.join("debug")])
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("The program {name} is not built. Build it with `make tools`."))
}
