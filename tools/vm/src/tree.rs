// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Folders that become a guest's root file system, made from the sysroot.

use crate::environment::Environment;
use crate::machine::MODULE;
use anyhow::{bail, Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What tests call in a guest that has no sysroot.
const PROGRAMS: &[&str] = &[
    "awk",
    "basename",
    "bash",
    "blockdev",
    "busybox",
    "cat",
    "cmp",
    "cp",
    "cut",
    "date",
    "dd",
    "dirname",
    "dmesg",
    "e2fsck",
    "find",
    "fio",
    "grep",
    "head",
    "insmod",
    "kill",
    "ls",
    "lsmod",
    "mkdir",
    "mkfifo",
    "mkfs.ext4",
    "mkswap",
    "mktemp",
    "modprobe",
    "mv",
    "readlink",
    "rm",
    "rmmod",
    "rtcwake",
    "sed",
    "seq",
    "setpci",
    "sh",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "strace",
    "stty",
    "sync",
    "tail",
    "taskset",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "uniq",
    "wc",
];

/// Modules of the stock kernel that tests load there.
const MODULES: &[&str] = &[
    "kernel/drivers/acpi/button.ko",
    "kernel/drivers/block/virtio_blk.ko",
    "kernel/drivers/virtio/virtio_mmio.ko",
    "kernel/fs/configfs/configfs.ko",
];

/// Where Debian has programs.
const PROGRAM_FOLDERS: [&str; 2] = ["/usr/bin", "/usr/sbin"];

/// Folders that a running system mounts something on.
const MOUNT_POINTS: [&str; 6] = ["dev", "mnt", "proc", "run", "sys", "tmp"];

/// Names that Debian keeps for what has moved below /usr.
const MOVED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Parts of the sysroot that build things instead of running them, in `usr`.
const NOT_FOR_RUNNING: &[&str] = &[
    "include",
    "lib/gcc",
    "lib/git-core",
    "lib/llvm-19",
    "lib/modules",
    "lib/rustlib",
    "lib/x86_64-linux-gnu/qemu",
    "libexec/gcc",
    "libexec/git-core",
    "share/qemu",
    "share/seabios",
    "src",
];

/// A folder with the content of a file system.
pub struct Tree(PathBuf);

impl Tree {
    /// An empty tree in a new folder.
    pub fn new(folder: &Path) -> Result<Self> {
        fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder.to_owned()))
    }

    /// The programs that tests call, with the libraries and modules that they need.
    pub fn tools(folder: &Path, environment: &Environment) -> Result<Self> {
        let tree = Self::new(folder)?;
        tree.skeleton(environment)?;
        let programs = PROGRAMS
            .iter()
            .map(|name| find_program(name))
            .collect::<Result<Vec<_>>>()?;
        for program in programs.iter().cloned().chain(libraries(&programs)?) {
            tree.copy(&program, &program.to_string_lossy())?;
        }
        let modules = format!("usr/lib/modules/{}", environment.kernel);
        let source = environment.sysroot.join(&modules);
        for entry in fs::read_dir(&source)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("modules.") {
                tree.copy(&source.join(&name), &format!("{modules}/{name}"))?;
            }
        }
        for module in MODULES {
            let compressed = ["", ".xz", ".zst"].map(|end| format!("{module}{end}"));
            let found = compressed.iter().find(|name| source.join(name).exists());
            // Whether something is a module is up to the kernel's configuration.
            if let Some(name) = found {
                tree.copy(&source.join(name), &format!("{modules}/{name}"))?;
            }
        }
        Ok(tree)
    }

    /// The sysroot without what is for building: a Debian that runs.
    ///
    /// The files are hard links where the sysroot and `folder` are on the same file system.
    pub fn system(folder: &Path, environment: &Environment) -> Result<Self> {
        let tree = Self::new(folder)?;
        tree.skeleton(environment)?;
        let mut rsync = Command::new("rsync");
        rsync
            .args(["--archive", "--hard-links", "--link-dest"])
            .arg(&environment.sysroot);
        for part in NOT_FOR_RUNNING {
            rsync.arg(format!("--exclude=/usr/{part}"));
        }
        for pattern in [
            "*.a",
            "libLLVM*",
            "libclang*",
            "librustc*",
            "libstd-*",
            "/usr/bin/*-19",
        ] {
            rsync.arg(format!("--exclude={pattern}"));
        }
        for part in ["etc", "usr", "var"] {
            rsync.arg(environment.sysroot.join(part));
        }
        run(rsync.arg(folder).stdin(Stdio::null()), "rsync")?;
        Ok(tree)
    }

    /// What every system has: names, mount points, and the agent and the Rust driver in `/mnt`.
    fn skeleton(&self, environment: &Environment) -> Result<()> {
        for name in MOVED {
            self.folder(&format!("usr/{name}"))?;
            symlink(format!("usr/{name}"), self.0.join(name))?;
        }
        for name in MOUNT_POINTS {
            self.folder(name)?;
        }
        self.copy(&environment.agent, "mnt/agent")?;
        if environment.module.exists() {
            self.copy(&environment.module, &format!("mnt/{MODULE}"))?;
        }
        Ok(())
    }

    /// Makes a folder.
    pub fn folder(&self, name: &str) -> Result<()> {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(())
    }

    /// Copies a file, not a link to it, to the path `name`.
    pub fn copy(&self, file: &Path, name: &str) -> Result<()> {
        let target = self.0.join(name.trim_start_matches('/'));
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(file, &target)
            .with_context(|| format!("cannot copy {} to {}", file.display(), target.display()))?;
        Ok(())
    }

    /// Writes the tree into an archive that the kernel unpacks at its start.
    pub fn archive(&self, archive: &Path) -> Result<()> {
        let list = archive.with_extension("list");
        let mut names = File::create(&list)?;
        self.list(&self.0, &mut names)?;
        run(
            Command::new("cpio")
                .args(["--quiet", "--create", "--format=newc"])
                .current_dir(&self.0)
                .stdin(File::open(&list)?)
                .stdout(File::create(archive)?),
            "cpio",
        )?;
        fs::remove_file(list)?;
        Ok(())
    }

    /// Makes an ext4 with the content of the tree in the file `image`, whose size it keeps.
    pub fn ext4(&self, image: &Path) -> Result<()> {
        let mut command = Command::new("mke2fs");
        command
            .args([
                "-q",
                "-F",
                "-t",
                "ext4",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
            ])
            .arg("-d")
            .args([&self.0, image])
            .stdin(Stdio::null());
        run(&mut command, "mke2fs")
    }

    /// Removes the folder.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.0).with_context(|| format!("cannot remove {}", self.0.display()))
    }

    fn list(&self, folder: &Path, names: &mut File) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(&self.0)?;
            writeln!(names, "{}", name.display())?;
            if path.symlink_metadata()?.is_dir() {
                self.list(&path, names)?;
            }
        }
        Ok(())
    }
}

fn find_program(name: &str) -> Result<PathBuf> {
    let places = PROGRAM_FOLDERS.map(|folder| Path::new(folder).join(name));
    let found = places.into_iter().find(|path| path.exists());
    found.with_context(|| format!("the sysroot has no program {name}; run `make setup`"))
}

/// The libraries that programs are linked with.
fn libraries(programs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    // It fails if one of them needs none, and goes on with the others.
    let output = Command::new("ldd")
        .args(programs)
        .stdin(Stdio::null())
        .output()
        .context("cannot start ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.lines().flat_map(str::split_whitespace);
    let mut libraries: Vec<_> = words
        .filter(|word| word.starts_with('/') && word.contains(".so"))
        .map(PathBuf::from)
        .collect();
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

fn run(command: &mut Command, name: &str) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}: {words}", output.status);
    }
    Ok(())
}
