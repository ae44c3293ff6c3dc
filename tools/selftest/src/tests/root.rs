// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Debian boots from a disk that the driver is bound to in an initramfs, works, and reboots.

use crate::guest::{expect, secs, wait_for_reboot};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use std::process::{Command, Stdio};
use vm::{Disk, Driver, Environment, Root, Tree, Vm};

/// Bytes of the disk.
const SIZE: u64 = 3 << 30;

/// Makes a package, installs it as a user would, and demands that the system is sound.
const INSTALL: &str = "set -e
    cd /var/tmp
    mkdir -p p$1/DEBIAN p$1/opt
    head -c 3M /dev/urandom >p$1/opt/data$1
    printf 'Package: p%s\nVersion: 1\nArchitecture: all\nMaintainer: T <t@localhost>\n\
Description: test\n' $1 >p$1/DEBIAN/control
    dpkg-deb --build p$1 >/dev/null
    apt-get install --yes /var/tmp/p$1.deb >/var/tmp/log 2>&1 || { cat /var/tmp/log; exit 1; }
    cmp p$1/opt/data$1 /opt/data$1
    apt-get check >/dev/null
    dpkg --audit
    dpkg --verify bash fio";

pub fn groups() -> Vec<Group> {
    let group = Group::new("root").alone("Debian boots, works and reboots", boots_and_reboots);
    vec![group]
}

fn boots_and_reboots(lab: &Lab) -> Result<()> {
    let disk = lab.scratch(SIZE)?;
    let folder = lab.folder()?;
    let tree = Tree::system(&folder.path().join("root"), &Environment::from_env()?)?;
    tree.ext4(&disk.path())?;
    drop(folder);

    let vm = lab.boot(
        Vm::builder()
            .vcpus(2)
            .root(Root::Disk)
            .reboots()
            .disk(Disk::new("root", disk.backend()).num_queues(2)),
    )?;
    let rounds = lab.scale(2, 5);
    for round in 0..rounds {
        let root = vm.sh("findmnt --noheadings --output SOURCE,FSTYPE /")?;
        let words: Vec<_> = root.split_whitespace().collect();
        expect("the root file system", words, vec!["/dev/vda", "ext4"])?;
        let driver = vm.sh("basename $(readlink /sys/block/vda/device/driver)")?;
        expect("its driver", driver.trim(), Driver::Rust.name())?;
        if round > 0 {
            vm.sh("cd /var/tmp && sha256sum --quiet --check sums && dpkg --status p0 >/dev/null")?;
        }
        vm.sh_for(
            secs(300),
            "fio --name=j --directory=/var/tmp --rw=randwrite --bsrange=4k-256k --size=16m \
             --numjobs=2 --ioengine=libaio --direct=1 --iodepth=16 --verify=crc32c --fsync=32 \
             --thread --clocksource=clock_gettime --output=/dev/null",
        )?;
        vm.sh_for(secs(300), &format!("set -- {round}\n{INSTALL}"))
            .context("a package could not be installed")?;
        vm.sh("cd /var/tmp && sha256sum /opt/data* >sums && sync")?;
        if round + 1 < rounds {
            // The answer is lost with the machine.
            drop(vm.spawn(secs(60), "mount -o remount,ro / ; busybox reboot -f")?);
            wait_for_reboot(&vm)?;
        }
    }
    vm.shutdown()?;
    let check = Command::new("e2fsck")
        .args(["-p", "-f"])
        .arg(disk.path())
        .stdin(Stdio::null())
        .output()
        .context("cannot start e2fsck")?;
    // What it mends is the journal at most.
    let code = check.status.code().unwrap_or(-1);
    ensure!(code <= 1, "the file system is damaged: {check:?}");
    Ok(())
}
