// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What is on a device after the power fails is consistent, whenever it fails (case 39).
//!
//! QEMU's blklogwrites keeps a log of all that has reached the device. From it the host makes disks
//! as the guest would find them after a power failure: all that was flushed is there, and of what
//! was written since, any part. On each of them ext4 must be whole once its journal has been
//! replayed, and files must be there in the order in which they were synchronised.

mod log;

use crate::guest::secs;
use crate::lab::{Lab, Scratch};
use crate::suite::Group;
use anyhow::{bail, ensure, Context, Result};
use log::{Entry, Log};
use serde_json::json;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};
use vm::{Backend, Disk, Vm};

const DISK: &str = "logged";

/// Bytes of the disk.
const SIZE: u64 = 48 << 20;

/// Bytes of the log, most of which stay a hole.
const LOG: u64 = 2 << 30;

/// Bytes of each file.
const FILE: u64 = 20_000;

/// Writers, each with a folder of its own.
const WRITERS: usize = 2;

pub fn groups() -> Vec<Group> {
    let group = Group::new("crash").alone("ext4 is consistent at every flush", at_every_flush);
    vec![group]
}

fn at_every_flush(lab: &Lab) -> Result<()> {
    let (content, log) = (lab.scratch(SIZE)?, lab.scratch(LOG)?);
    let made = run(Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-E"])
        .arg("lazy_itable_init=0,lazy_journal_init=0")
        .arg(content.path()))?;
    ensure!(made.status.success(), "mke2fs failed: {made:?}");
    let mut before = vec![0; SIZE as usize];
    content.file.read_exact_at(&mut before, 0)?;

    write_files(lab, &content, &log)?;
    let log = Log::read(&log.file)?;
    ensure!(
        log.flushes() > 20,
        "{} flushes are too few to prove anything",
        log.flushes()
    );
    let checker = Checker {
        copy: lab.scratch(SIZE)?,
    };
    let step = (log.flushes() / lab.scale(10, 1000)).max(1);
    let mut random = fastrand::Rng::with_seed(1);
    let (mut flushed, mut pending) = (before.clone(), Vec::<&Entry>::new());
    let (mut flushes, mut checked) = (0, 0);
    for entry in &log.entries {
        if entry.is_flush() {
            flushes += 1;
            if flushes % step == 0 {
                checked += 1;
                let mut crashed = flushed.clone();
                for write in &pending {
                    if random.bool() {
                        apply(write, &mut crashed)?;
                    }
                }
                for image in [&flushed, &crashed] {
                    let verdict = checker.check(image);
                    verdict.with_context(|| format!("at flush {flushes} of {}", log.flushes()))?;
                }
            }
            for write in pending.drain(..) {
                apply(write, &mut flushed)?;
            }
        }
        pending.push(entry);
    }
    ensure!(checked >= 10, "{checked} points in time were checked");

    // The checks can fail: a device that forgets half of what was flushed is found out.
    let writes: Vec<_> = log
        .entries
        .iter()
        .filter(|entry| !entry.data.is_empty())
        .collect();
    let found = (0..5).any(|_| {
        let mut broken = before.clone();
        let mut kept = writes.iter().filter(|_| random.bool());
        let applied = kept.try_for_each(|write| apply(write, &mut broken));
        applied.is_err() || checker.check(&broken).is_err()
    });
    ensure!(found, "no check finds that half of the writes are lost");
    Ok(())
}

/// Makes files one after the other, each of which is synchronised before the next one, by several
/// writers at a time.
fn write_files(lab: &Lab, content: &Scratch, log: &Scratch) -> Result<()> {
    let file = |scratch: &Scratch| json!({"driver": "file", "filename": scratch.path()});
    let logged = json!({
        "driver": "blklogwrites",
        "file": file(content),
        "log": file(log),
    });
    let disk = Disk::new(DISK, Backend::Blockdev(logged)).num_queues(2);
    let vm = lab.boot(Vm::builder().vcpus(2).disk(disk))?;
    vm.load(lab.driver(), "")?;
    let name = vm.block_device(DISK)?;
    let count = lab.scale(40, 300);
    vm.sh_for(
        secs(300),
        &format!(
            "set -e
             mkdir -p /tmp/mnt
             busybox mount -t ext4 /dev/{name} /tmp/mnt
             writer() {{
                 mkdir /tmp/mnt/$1; sync
                 for n in $(seq {count}); do
                     head -c {FILE} /dev/urandom | \
                         dd of=/tmp/mnt/$1/$n bs=64k iflag=fullblock conv=fsync status=none
                     rm -f /tmp/mnt/$1/extra; cp /tmp/mnt/$1/$n /tmp/mnt/$1/extra
                 done
             }}
             for writer in $(seq 0 {}); do writer $writer & done
             wait
             busybox umount /tmp/mnt",
            WRITERS - 1
        ),
    )?;
    vm.unload(lab.driver())?;
    vm.shutdown()
}

/// Does to `image` what an entry of the log says.
fn apply(entry: &Entry, image: &mut [u8]) -> Result<()> {
    let end = entry.offset + entry.data.len();
    let target = image.get_mut(entry.offset..end);
    let target = target.with_context(|| format!("a write to {end} is out of the disk"))?;
    target.copy_from_slice(&entry.data);
    Ok(())
}

struct Checker {
    copy: std::sync::Arc<Scratch>,
}

impl Checker {
    /// Replays the journal, and demands that there is nothing to mend, and no file without those
    /// that were synchronised before it.
    fn check(&self, image: &[u8]) -> Result<()> {
        self.copy.file.write_all_at(image, 0)?;
        let path = self.copy.path();
        let replayed = run(Command::new("e2fsck")
            .args(["-y", "-E", "journal_only"])
            .arg(&path))?;
        let code = replayed.status.code().unwrap_or(-1);
        ensure!(code <= 1, "the journal cannot be replayed: {replayed:?}");
        let checked = run(Command::new("e2fsck").args(["-f", "-n"]).arg(&path))?;
        ensure!(
            checked.status.success(),
            "ext4 is damaged: {}",
            String::from_utf8_lossy(&checked.stdout)
        );
        for writer in 0..WRITERS {
            self.check_order(&format!("/{writer}"))?;
        }
        Ok(())
    }

    /// Files of a writer are there from the first to some last one, of which only that one may be
    /// incomplete.
    fn check_order(&self, folder: &str) -> Result<()> {
        let listed = run(Command::new("debugfs")
            .args(["-R", &format!("ls -p {folder}")])
            .arg(self.copy.path()))?;
        // /inode/mode/uid/gid/name/size/
        let mut sizes = std::collections::BTreeMap::new();
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let fields: Vec<_> = line.split('/').collect();
            if let [_, _, _, _, _, name, size, ..] = fields[..] {
                if let Ok(number) = name.parse::<usize>() {
                    sizes.insert(number, size.parse::<u64>()?);
                }
            }
        }
        let last = sizes.len();
        for (index, (number, size)) in sizes.into_iter().enumerate() {
            if number != index + 1 || (number != last && size != FILE) {
                bail!("{folder}/{number} has {size} bytes, and is number {index} of {last}");
            }
        }
        Ok(())
    }
}

fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(std::process::Stdio::null()).output();
    output.with_context(|| format!("cannot start {name}"))
}
