// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the driver and the kernel have counted, at one moment.

use anyhow::{bail, ensure, Context, Result};
use counters::{Interrupts, QueueFile};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The folder that debugfs has for the driver.
const FOLDER: &str = "sys/kernel/debug/virtio_blk_rs";

/// All counters.
#[derive(Debug)]
pub struct Snapshot {
    /// When they were read.
    pub at: Instant,
    /// The same, for people.
    pub time: SystemTime,
    /// By the names of the disks.
    pub disks: BTreeMap<String, Disk>,
}

/// The counters of a disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// Another number means that the driver was bound anew, and that all counters began at 0.
    pub generation: u64,
    /// By the numbers of the queues.
    pub queues: BTreeMap<u32, QueueFile>,
    /// What the kernel has counted.
    pub interrupts: Interrupts,
}

/// Where counters are read.
#[derive(Debug)]
pub struct Source {
    root: PathBuf,
    disks: Vec<String>,
}

impl Source {
    /// The files below `root`, which is `/` but in tests. Only `disks` count, or all if it is
    /// empty.
    pub fn new(root: impl Into<PathBuf>, disks: &[String]) -> Self {
        Self {
            root: root.into(),
            disks: disks.to_vec(),
        }
    }

    /// Fails, saying why, if there is nothing to show.
    pub fn check(&self) -> Result<()> {
        let folder = self.root.join(FOLDER);
        let names = match names_in(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                bail!("{} may only be read by root", folder.display())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                ensure!(
                    self.root.join("sys/module/virtio_blk_rs").is_dir(),
                    "the driver is not loaded. Load it with `modprobe virtio_blk_rs`, or `insmod` \
                     and the module's path."
                );
                bail!(
                    "{} does not exist: debugfs is not mounted. Mount it with `mount -t debugfs \
                     none /sys/kernel/debug`.",
                    folder.display()
                )
            }
            Err(error) => return Err(error).context(format!("cannot read {}", folder.display())),
        };
        ensure!(
            !names.is_empty(),
            "the driver is loaded, but no disk is bound to it. A virtio device that has another \
             driver is to be unbound from it first; see /sys/bus/virtio/drivers."
        );
        for disk in &self.disks {
            ensure!(
                names.contains(disk),
                "the driver has no disk called {disk}; it has: {}",
                names.join(", ")
            );
        }
        Ok(())
    }

    /// Reads all counters. A disk that vanishes meanwhile is left out.
    pub fn read(&self) -> Result<Snapshot> {
        let at = Instant::now();
        let time = SystemTime::now();
        let path = self.root.join("proc/interrupts");
        let interrupts =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut disks = BTreeMap::new();
        // After the last disk the folder itself may go, with the driver.
        for name in names_in(&self.root.join(FOLDER)).unwrap_or_default() {
            if !self.disks.is_empty() && !self.disks.contains(&name) {
                continue;
            }
            if let Some(disk) = self.read_disk(&name, &interrupts)? {
                disks.insert(name, disk);
            }
        }
        Ok(Snapshot { at, time, disks })
    }

    fn read_disk(&self, name: &str, interrupts: &str) -> Result<Option<Disk>> {
        let folder = self.root.join(FOLDER).join(name);
        let (Ok(metadata), Ok(files)) = (fs::metadata(&folder), names_in(&folder)) else {
            return Ok(None);
        };
        let mut disk = Disk {
            generation: metadata.ino(),
            ..Disk::default()
        };
        for file in files {
            let Some(number) = file.strip_prefix("queue").and_then(|n| n.parse().ok()) else {
                continue;
            };
            let path = folder.join(file);
            let Ok(text) = fs::read_to_string(&path) else {
                return Ok(None);
            };
            let queue = QueueFile::parse(&text)
                .with_context(|| format!("{} is not understood", path.display()))?;
            disk.queues.insert(number, queue);
        }
        if let Some(device) = self.virtio_device(name) {
            disk.interrupts = Interrupts::parse(interrupts, &device);
        }
        Ok(Some(disk))
    }

    /// The virtio device of a disk, such as `virtio3`, by which the kernel names its interrupts.
    fn virtio_device(&self, disk: &str) -> Option<String> {
        let link = self.root.join("sys/block").join(disk).join("device");
        let target = fs::read_link(link).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

fn names_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A machine with the files of one disk of two queues.
    fn machine() -> TempDir {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path();
        let folder = root.join(FOLDER).join("vdc");
        for path in [&folder, &root.join("proc"), &root.join("sys/block/vdc")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(folder.join("queue0"), "kicks 3\n").unwrap();
        fs::write(folder.join("queue10"), "kicks 5\n").unwrap();
        fs::write(folder.join("queue10_history"), "1 2 3 4\n").unwrap();
        fs::write(folder.join("status"), "suppress loop\n").unwrap();
        symlink("../../bus/virtio7", root.join("sys/block/vdc/device")).unwrap();
        let interrupts = "   CPU0\n 25:  9  PCI-MSIX-0000:00:02.0  1-edge  virtio7-req.0\n";
        fs::write(root.join("proc/interrupts"), interrupts).unwrap();
        machine
    }

    fn refusal(machine: &TempDir, disks: &[String]) -> String {
        let source = Source::new(machine.path(), disks);
        source.check().unwrap_err().to_string()
    }

    #[test]
    fn queues_and_interrupts_of_a_disk_are_read() {
        let machine = machine();
        let source = Source::new(machine.path(), &[]);
        source.check().unwrap();
        let snapshot = source.read().unwrap();
        let disk = &snapshot.disks["vdc"];
        let kicks = |(number, queue): (&u32, &QueueFile)| (*number, queue.value("kicks").unwrap());
        let queues: Vec<_> = disk.queues.iter().map(kicks).collect();
        assert_eq!(queues, [(0, 3), (10, 5)]);
        assert_eq!(disk.interrupts.requests(), 9);
    }

    #[test]
    fn disks_are_chosen() {
        let machine = machine();
        let chosen = ["vdc".to_owned()];
        let source = Source::new(machine.path(), &chosen);
        source.check().unwrap();
        assert_eq!(source.read().unwrap().disks.len(), 1);
        let other = ["vda".to_owned()];
        assert!(refusal(&machine, &other).contains("vda; it has: vdc"));
        let source = Source::new(machine.path(), &other);
        assert!(source.read().unwrap().disks.is_empty());
    }

    #[test]
    fn what_is_missing_is_said() {
        let machine = machine();
        let folder = machine.path().join(FOLDER);
        fs::remove_dir_all(folder.join("vdc")).unwrap();
        assert!(refusal(&machine, &[]).contains("no disk is bound"));
        fs::remove_dir(&folder).unwrap();
        assert!(refusal(&machine, &[]).contains("the driver is not loaded"));
        fs::create_dir_all(machine.path().join("sys/module/virtio_blk_rs")).unwrap();
        assert!(refusal(&machine, &[]).contains("debugfs is not mounted"));
        // When the driver goes later, there is only nothing to show.
        let source = Source::new(machine.path(), &[]);
        assert!(source.read().unwrap().disks.is_empty());
    }

    #[test]
    fn a_disk_that_is_bound_anew_is_another_generation() {
        let machine = machine();
        let source = Source::new(machine.path(), &[]);
        let before = source.read().unwrap().disks["vdc"].generation;
        assert_eq!(source.read().unwrap().disks["vdc"].generation, before);
        let folder = machine.path().join(FOLDER);
        fs::rename(folder.join("vdc"), machine.path().join("old")).unwrap();
        fs::create_dir(folder.join("vdc")).unwrap();
        assert_ne!(source.read().unwrap().disks["vdc"].generation, before);
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_file() {
        let machine = machine();
        let queue = machine.path().join(FOLDER).join("vdc/queue0");
        fs::write(queue, "kicks many\n").unwrap();
        let error = Source::new(machine.path(), &[]).read().unwrap_err();
        assert!(format!("{error:#}").contains("vdc/queue0"), "{error:#}");
    }
}
