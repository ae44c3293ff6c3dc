// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The kernel ends while disks are busy: it ends in seconds, and leaves devices that are quiet.

use crate::fio;
use crate::guest::{expect, expect_settled, secs, set, wait_for_reboot, wait_for_requests};
use crate::lab::{Lab, SLOW_GROUP};
use crate::qmp;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use vm::{Backend, Disk, Vm, VmBuilder};

/// A disk on which 32 requests take a while.
const SLOW: &str = "slow";

const FAST: &str = "fast";

/// What a machine may take to shut down on a busy host.
const SOON: Duration = Duration::from_secs(20);

/// Loads another kernel without an initramfs, and starts it: kexec_file_load(2), reboot(2).
const KEXEC: &str = r#"
    open(my $kernel, "<", $ARGV[0]) or die "$ARGV[0]: $!\n";
    my $line = "$ARGV[1]\0";
    syscall(320, fileno($kernel), -1, length($line), $line, 4) == 0 or die "load: $!\n";
    syscall(169, 0xfee1dead, 672274793, 0x45584543, 0);
    die "start: $!\n";
"#;

pub fn groups() -> Vec<Group> {
    let group = Group::new("reboot")
        .alone("power off under I/O resets the devices", |lab| {
            quiet_at_the_end(lab, "poweroff")
        })
        .alone("reboot under I/O resets the devices", |lab| {
            quiet_at_the_end(lab, "reboot")
        })
        .alone("another kernel is started under I/O", kexec)
        .alone("the machine is reset under I/O", machine_reset);
    vec![group]
}

fn guest(lab: &Lab) -> Result<VmBuilder> {
    Ok(Vm::builder()
        .vcpus(2)
        .qemu_arguments(SLOW_GROUP)
        .disk(Disk::new(SLOW, lab.throttled(64 << 20)?).num_queues(2))
        .disk(Disk::new(FAST, Backend::ram(64 << 20)).num_queues(2)))
}

/// Starts jobs on both disks, whose requests wait for timers.
fn make_busy(lab: &Lab, vm: &Vm) -> Result<Vec<fio::Running>> {
    let mut loads = Vec::new();
    for disk in [SLOW, FAST] {
        let name = vm.block_device(disk)?;
        if lab.is_ours() {
            set(vm, &name, &[("coalesce_usecs", "100000")])?;
        }
        loads.push(fio::start_endless(vm, &name)?);
        wait_for_requests(vm, disk, 100)?;
    }
    Ok(loads)
}

/// QEMU stops the machine at the moment at which the guest has done what it wanted to do, and tells
/// what became of the devices.
fn quiet_at_the_end(lab: &Lab, way: &str) -> Result<()> {
    let vm = lab.boot(guest(lab)?)?;
    vm.load(lab.driver(), "")?;
    let loads = make_busy(lab, &vm)?;
    let actions = json!({"reboot": "shutdown", "shutdown": "pause"});
    vm.monitor().execute("set-action", actions)?;
    let started = Instant::now();
    let last = vm.spawn(secs(60), &format!("busybox {way} -f"))?;
    vm.monitor().wait_for_event("SHUTDOWN")?;
    ensure!(
        started.elapsed() < SOON,
        "the guest took {:?} to {way}",
        started.elapsed()
    );
    vm.check()?;
    for disk in [SLOW, FAST] {
        for queue in 0..2 {
            // A device that was reset knows of no ring.
            let status = qmp::queue_status(&vm, disk, queue)?;
            let ring = status["vring-desc"].as_u64();
            expect(&format!("the ring of {disk}"), ring, Some(0))?;
        }
    }
    // They wait for a guest that has ended.
    drop((loads, last));
    Ok(())
}

/// The second kernel is told nothing of the first one's rings, and finds its memory as it should.
fn kexec(lab: &Lab) -> Result<()> {
    let vm = lab.boot(guest(lab)?)?;
    let kernel = vm.environment().kernel.clone();
    let line = vm.sh("cat /proc/cmdline")?;
    for round in 0..lab.scale(1, 10) {
        vm.load(lab.driver(), "")?;
        let loads = make_busy(lab, &vm)?;
        vm.sh("echo 'second kernel' >/dev/kmsg")?;
        let last = vm.spawn(
            secs(60),
            &format!(
                "cat >/tmp/kexec.pl <<'END'\n{KEXEC}\nEND\n\
                 exec perl /tmp/kexec.pl /usr/lib/modules/{kernel}/vmlinuz '{}'",
                line.trim()
            ),
        )?;
        vm.wait_for_boot(secs(120))
            .with_context(|| format!("in round {round}"))?;
        drop((loads, last));
        let log = vm.dmesg()?;
        ensure!(
            !log.contains("second kernel"),
            "the first kernel is still running"
        );
        works_again(lab, &vm)?;
        vm.unload(lab.driver())?;
    }
    vm.shutdown()
}

/// Case 54: the machine is reset at any moment, as by its button.
fn machine_reset(lab: &Lab) -> Result<()> {
    let vm = lab.boot(guest(lab)?.reboots())?;
    for _ in 0..lab.scale(2, 20) {
        vm.load(lab.driver(), "")?;
        let loads = make_busy(lab, &vm)?;
        vm.monitor().execute("system_reset", json!({}))?;
        wait_for_reboot(&vm)?;
        drop(loads);
    }
    works_again(lab, &vm)?;
    vm.shutdown()
}

/// Both disks do verified I/O in a kernel that has just started.
fn works_again(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(lab.driver(), "")?;
    for disk in [SLOW, FAST] {
        let name = vm.block_device(disk)?;
        let job = format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=1m --ioengine=libaio \
             --iodepth=32 --verify=crc32c"
        );
        fio::run(vm, secs(60), &job)?;
        expect_settled(lab, vm, disk)?;
    }
    Ok(())
}
