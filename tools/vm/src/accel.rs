// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Chooses how the guest's processor is made: by KVM if it truly works here, else by TCG.
//!
//! /dev/kvm may exist and still be unable to run a stock kernel, as in nested guests of
//! paravirtual hosts: QEMU then hangs or stops with an assertion. So KVM counts as working only
//! after the real kernel has booted with it to our agent. The answer is remembered.

use crate::environment::Environment;
use crate::machine::Vm;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

/// How long the guest may take to boot with KVM; one that works takes two seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accel {
    /// KVM if it works, else TCG.
    #[default]
    Auto,
    /// The host's processor.
    Kvm,
    /// QEMU's translator, which works everywhere.
    Tcg,
}

impl FromStr for Accel {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "kvm" => Ok(Self::Kvm),
            "tcg" => Ok(Self::Tcg),
            _ => bail!("{text:?} is no accelerator. Choose auto, kvm or tcg."),
        }
    }
}

impl fmt::Display for Accel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}

/// The accelerator in use and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Whether it is KVM.
    pub kvm: bool,
    /// Why, as the end of a sentence such as "The guest runs under TCG, because ...".
    pub because: String,
}

impl Chosen {
    /// `kvm` or `tcg`.
    pub fn name(&self) -> &'static str {
        if self.kvm {
            "kvm"
        } else {
            "tcg"
        }
    }

    /// QEMU's arguments. Under TCG the full set of features (`max`) panics the stock kernel
    /// while it patches its own text.
    pub(crate) fn arguments(&self) -> [&'static str; 4] {
        if self.kvm {
            ["-accel", "kvm", "-cpu", "host"]
        } else {
            ["-accel", "tcg", "-cpu", "qemu64"]
        }
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}, because {}",
            self.name().to_uppercase(),
            self.because
        )
    }
}

/// Decides, by a test boot if the answer is not known yet.
pub fn choose(wanted: Accel, environment: &Environment) -> Result<Chosen> {
    let because = |kvm, because: &str| {
        Ok(Chosen {
            kvm,
            because: because.to_owned(),
        })
    };
    match wanted {
        Accel::Tcg => because(false, "it was asked for"),
        Accel::Kvm => because(true, "it was asked for"),
        Accel::Auto => match fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm")
        {
            Err(error) => because(false, &format!("/dev/kvm cannot be opened: {error}")),
            Ok(_) => remembered_or_probed(environment),
        },
    }
}

fn remembered_or_probed(environment: &Environment) -> Result<Chosen> {
    // Guests of one program boot at the same time; one probe is enough for all.
    static PROBE: Mutex<()> = Mutex::new(());
    let _guard = PROBE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());

    let file = environment.cache.join("accel");
    let key = key(environment)?;
    let mut answers: BTreeMap<String, Chosen> = fs::read(&file)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    if let Some(chosen) = answers.get(&key) {
        return Ok(chosen.clone());
    }
    eprintln!(
        "Trying whether KVM works here (at most {} s) ...",
        PROBE_LIMIT.as_secs()
    );
    let chosen = probe();
    answers.insert(key, chosen.clone());
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, serde_json::to_vec_pretty(&answers)?)
        .and_then(|()| fs::rename(&temporary, &file))
        .with_context(|| format!("cannot remember the answer in {}", file.display()))?;
    Ok(chosen)
}

/// Everything that the answer depends on.
fn key(environment: &Environment) -> Result<String> {
    let version = Command::new(crate::command_line::QEMU)
        .arg("--version")
        .output()
        .context("cannot ask QEMU for its version")?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.lines().next().unwrap_or_default();
    let host = rustix::system::uname();
    let host = host.release().to_string_lossy();
    Ok(format!(
        "guest {}, {version}, host {host}",
        environment.kernel
    ))
}

fn probe() -> Chosen {
    let boot = Vm::builder()
        .accel(Accel::Kvm)
        .boot_timeout(PROBE_LIMIT)
        .boot();
    let (kvm, because) = match boot.and_then(Vm::shutdown) {
        Ok(()) => (true, "a test boot with KVM worked".to_owned()),
        Err(error) => {
            // The causes end with the console's log, of which the first line says nothing.
            let causes = error
                .chain()
                .filter_map(|cause| cause.to_string().lines().next().map(str::to_owned));
            let causes: Vec<String> = causes.take(2).collect();
            (
                false,
                format!("a test boot with KVM failed: {}", causes.join(", ")),
            )
        }
    };
    Chosen { kvm, because }
}
