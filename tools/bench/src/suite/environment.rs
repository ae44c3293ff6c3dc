// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Where, when and how a scenario was measured.

use anyhow::Result;
use measuring::Host;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use vm::{Driver, Vm};

/// Everything that figures depend on beside the scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Environment {
    /// Start, UTC.
    pub date: String,
    /// How the program was called.
    pub command: String,
    /// `uname -r` of the guest.
    pub guest_kernel: String,
    /// The guest's processors.
    pub guest_vcpus: u32,
    /// QEMU's version.
    pub qemu: String,
    /// `kvm` or `tcg`.
    pub accelerator: String,
    /// fio's version.
    pub fio: String,
    /// The module.
    pub module: Module,
    /// Model of the host's processors.
    pub host_cpu: String,
    /// Their number.
    pub host_cpus: usize,
    /// The host's /proc/loadavg.
    pub host_load: String,
}

/// Which build of our driver it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Module {
    /// Its version, if it says one.
    pub version: String,
    /// The linker's hash of it.
    pub build_id: String,
    /// The commit that was checked out.
    pub commit: String,
}

impl Environment {
    /// Asks the host and the guest, in which our driver is loaded.
    pub fn ask(vm: &Vm, vcpus: u32) -> Result<Self> {
        let line = |script: &str| vm.sh(script).map(|text| text.trim().to_owned());
        let module = format!("/sys/module/{}", Driver::Rust);
        let host = Host::ask()?;
        Ok(Self {
            date: jiff::Timestamp::now()
                .round(jiff::Unit::Second)?
                .to_string(),
            command: command(std::env::args().skip(1)),
            guest_kernel: vm.environment().kernel.clone(),
            guest_vcpus: vcpus,
            qemu: vm.qemu_version()?,
            accelerator: vm.accel().name().to_owned(),
            fio: line("fio --version")?,
            module: Module {
                version: line(&format!("cat {module}/version 2>/dev/null || true"))?,
                build_id: line(&format!(
                    "tail -c 20 {module}/notes/.note.gnu.build-id 2>/dev/null | \
                     od -An -v -tx1 | tr -d ' \\n'"
                ))?,
                commit: std::env::var_os("SOURCE_DIR")
                    .and_then(|checkout| commit(Path::new(&checkout)))
                    .unwrap_or_default(),
            },
            host_cpu: host.cpu,
            host_cpus: host.cpus,
            host_load: host.load,
        })
    }
}

/// The command as `make bench` takes it; the program's own path means nothing elsewhere.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = std::iter::once("vbr".to_owned()).chain(arguments).collect();
    words.join(" ")
}

/// The commit that is checked out, without the help of git, which the sysroot lacks.
fn commit(checkout: &Path) -> Option<String> {
    let git = checkout.join(".git");
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    if let Ok(commit) = fs::read_to_string(git.join(reference)) {
        return Some(commit.trim().to_owned());
    }
    let packed = fs::read_to_string(git.join("packed-refs")).ok()?;
    let mut lines = packed.lines();
    lines.find_map(|line| Some(line.strip_suffix(reference)?.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Environment {
        /// For tests that do not care.
        pub fn unknown() -> Self {
            Self {
                date: "2026-01-01T00:00:00Z".into(),
                command: "vbr bench".into(),
                guest_kernel: "7.3".into(),
                guest_vcpus: 1,
                qemu: "QEMU 11".into(),
                accelerator: "tcg".into(),
                fio: "fio-3".into(),
                module: Module {
                    version: String::new(),
                    build_id: "abc".into(),
                    commit: "def".into(),
                },
                host_cpu: "a processor".into(),
                host_cpus: 2,
                host_load: "0 0 0".into(),
            }
        }
    }

    #[test]
    fn the_commit_is_found_loose_packed_and_detached() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        let write = |name: &str, text: &str| fs::write(git.join(name), text).unwrap();
        write("HEAD", "0123\n");
        assert_eq!(commit(folder.path()).unwrap(), "0123");
        write("HEAD", "ref: refs/heads/main\n");
        write("packed-refs", "# pack-refs\n4567 refs/heads/main\n");
        assert_eq!(commit(folder.path()).unwrap(), "4567");
        write("refs/heads/main", "89ab\n");
        assert_eq!(commit(folder.path()).unwrap(), "89ab");
    }
}
