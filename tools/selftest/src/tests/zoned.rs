// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Zoned disks, on the programmable device: what the guest says about zones is what the device
//! says, and what the C driver says.

mod append;
mod lies;
mod states;

use crate::fio;
use crate::guest::{expect, read, secs, wait_until};
use crate::lab::Lab;
use crate::suite::Group;
use crate::tests::device;
use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use vm::{Backend, DeviceConfig, Disk, Driver, Vm};

/// A disk with all that zones can have: conventional ones, less room than size, a short one at the
/// end, limits.
const DISK: &str = "zoned";

/// A disk with sequential zones only, and no limits.
const PLAIN: &str = "plain";

/// Sectors of a zone: 1 MiB.
const ZONE: u64 = 2048;

/// How much of a zone of [`DISK`] can be written.
const CAPACITY: u64 = 1792;

/// How many zones a disk has.
const ZONES: u64 = 32;

/// How many of those of [`DISK`] are conventional.
const CONVENTIONAL: u64 = 2;

pub fn groups() -> Vec<Group> {
    let comparison = Group::new("zoned")
        .without_driver()
        .guest(|_| Ok(guest()))
        .shared("all values are the C driver's", same_as_c);
    let zoned = Group::new("zoned")
        .guest(|_| Ok(guest()))
        .shared("data of sequential writes is kept", |lab, vm| {
            [DISK, PLAIN]
                .iter()
                .try_for_each(|disk| data(lab, vm, disk))
        })
        .shared("writes off the write pointer fail", off_the_pointer);
    let zoned = states::add_to(zoned);
    let zoned = append::add_to(zoned);
    vec![comparison, zoned, lies::group()]
}

fn guest() -> vm::VmBuilder {
    [(DISK, true), (PLAIN, false)]
        .into_iter()
        .fold(Vm::builder().vcpus(2), |vm, (id, is_full)| {
            vm.disk(Disk::new(id, Backend::device(config(is_full))).num_queues(2))
        })
}

fn config(is_full: bool) -> DeviceConfig {
    let sectors = format!("sectors={ZONE}");
    if is_full {
        let ram = DeviceConfig::ram((ZONES * ZONE - ZONE / 2) * 512);
        ram.zoned(&[
            &sectors,
            &format!("capacity={CAPACITY}"),
            &format!("conventional={CONVENTIONAL}"),
            "max-open=4",
            "max-active=6",
            "write-granularity=4096",
        ])
    } else {
        DeviceConfig::ram(ZONES * ZONE * 512).zoned(&[&sectors])
    }
}

/// Plugs a disk in, and waits until the guest's kernel has found it.
fn plug(vm: &Vm, id: &str, config: DeviceConfig) -> Result<()> {
    vm.plug(Disk::new(id, Backend::device(config)))?;
    wait_until(&format!("{id} is found"), secs(30), || {
        Ok(vm.virtio_device(id).is_ok())
    })
}

/// The zones as the device has them.
fn zones(vm: &Vm, disk: &str) -> Result<Vec<Value>> {
    let answer = vm.device(disk)?.ask(&json!({"command": "zones"}))?;
    let zones = answer["zones"].as_array().cloned();
    zones.with_context(|| format!("the device has no zones: {answer}"))
}

/// Demands that the device has found nothing to complain about, that nothing failed unless it was
/// meant to, and that the driver was told of everything.
fn expect_good(vm: &Vm, disk: &str) -> Result<()> {
    let unknown = vm.device(disk)?.total()?.unsupported;
    expect("unknown requests", unknown, 0)?;
    device::expect_good(vm, disk)
}

/// Makes all zones empty.
fn reset(vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let first = if disk == DISK { CONVENTIONAL * ZONE } else { 0 };
    vm.sh(&format!("blkzone reset -o {first} /dev/{name}"))?;
    Ok(())
}

/// What user space sees of the zones of a disk.
fn values(vm: &Vm, disk: &str) -> Result<String> {
    let name = vm.block_device(disk)?;
    vm.sh(&format!(
        "set -e
         cd /sys/block/{name}/queue
         grep . zoned nr_zones chunk_sectors zone_append_max_bytes max_open_zones \
             max_active_zones zone_write_granularity logical_block_size physical_block_size \
             minimum_io_size optimal_io_size discard_max_bytes write_zeroes_max_bytes
         blockdev --getsize64 --getss --getpbsz --getiomin --getioopt /dev/{name}
         blkzone report /dev/{name}
         blkzone capacity -o {ZONE} -c 3 /dev/{name}"
    ))
}

fn same_as_c(_lab: &Lab, vm: &Vm) -> Result<()> {
    // A zone in each state that user space can make: empty, open in both ways, closed, full.
    let prepare = |name: &str| {
        let at = |zone: u64| (CONVENTIONAL + zone) * ZONE;
        format!(
            "set -e
             dd if=/dev/zero of=/dev/{name} bs=64k seek={} count=2 oflag=direct status=none
             dd if=/dev/zero of=/dev/{name} bs=64k seek={} count=2 oflag=direct status=none
             blkzone open -o {} -c 1 /dev/{name}
             blkzone close -o {} -c 1 /dev/{name}
             blkzone finish -o {} -c 1 /dev/{name}",
            at(0) / 128,
            at(1) / 128,
            at(2),
            at(1),
            at(3),
        )
    };
    vm.load(Driver::C, "")?;
    for disk in [DISK, PLAIN] {
        vm.sh(&prepare(&vm.block_device(disk)?))?;
    }
    let theirs = [values(vm, DISK)?, values(vm, PLAIN)?];
    vm.unload(Driver::C)?;
    vm.load(Driver::Rust, "")?;
    for (disk, theirs) in [DISK, PLAIN].into_iter().zip(theirs) {
        expect(&format!("what {disk} says"), values(vm, disk)?, theirs)?;
        let name = vm.block_device(disk)?;
        let report = vm.sh(&format!("blkzone report /dev/{name} | wc -l"))?;
        expect("zones", report.trim(), &ZONES.to_string())?;
    }
    let name = vm.block_device(DISK)?;
    for (file, right) in [
        ("zoned", "host-managed"),
        ("nr_zones", "32"),
        ("chunk_sectors", "2048"),
        ("zone_append_max_bytes", "524288"),
        ("max_open_zones", "4"),
        ("max_active_zones", "6"),
        ("zone_write_granularity", "4096"),
        ("physical_block_size", "4096"),
    ] {
        let found = read(vm, &format!("/sys/block/{name}/queue/{file}"))?;
        expect(file, found.as_str(), right)?;
    }
    vm.unload(Driver::Rust)
}

fn data(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    for (pattern, size) in [("write", "64k"), ("randwrite", "16k")] {
        reset(vm, disk)?;
        let mib = lab.scale(8, 24);
        let report = fio::run(
            vm,
            secs(300),
            &format!(
                "--name=j --filename=/dev/{name} --zonemode=zbd --rw={pattern} --bs={size} \
                 --offset={} --size={mib}m --ioengine=libaio --iodepth=8 --max_open_zones=3 \
                 --verify=crc32c",
                CONVENTIONAL * ZONE * 512
            ),
        )?;
        ensure!(report.writes > 100 && report.reads > 100, "{report:?}");
        expect("refusals", vm.device(disk)?.total()?.zone_refusals, 0)?;
        expect_good(vm, disk)?;
    }
    // A conventional zone is written in any order; a sequential one is empty after a reset.
    if disk == DISK {
        fio::run(
            vm,
            secs(60),
            &format!(
                "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size={} \
                 --ioengine=libaio --iodepth=8 --verify=crc32c",
                CONVENTIONAL * ZONE * 512
            ),
        )?;
    }
    reset(vm, disk)?;
    vm.sh(&format!(
        "dd if=/dev/{name} bs=1M skip={CONVENTIONAL} count=4 iflag=direct status=none | \
         cmp -n 4194304 - /dev/zero"
    ))?;
    expect_good(vm, disk)
}

/// The block layer refuses what it knows to be off; what it does not know the device refuses.
fn off_the_pointer(_lab: &Lab, vm: &Vm) -> Result<()> {
    // Zones that break do not get well again, so this disk is for this test alone.
    let id = "breaking";
    plug(vm, id, config(true))?;
    let name = vm.block_device(id)?;
    let fails = |sector: u64| -> Result<bool> {
        let seek = sector / 8;
        let output = vm.try_sh(
            secs(60),
            &format!("dd if=/dev/zero of=/dev/{name} bs=4k count=1 seek={seek} oflag=direct"),
        )?;
        ensure!(
            output.status == 0 || output.stderr.contains("Input/output error"),
            "the write at {sector} failed with {:?}",
            output.stderr
        );
        Ok(output.status != 0)
    };
    let start = CONVENTIONAL * ZONE;
    // After an error the block layer wants to be told the write pointer before it writes again.
    let report = |sector: u64| vm.sh(&format!("blkzone report -o {sector} -c 1 /dev/{name}"));
    let before = vm.device(id)?.total()?.zone_refusals;
    expect("a write behind the pointer fails", fails(start + 8)?, true)?;
    report(start)?;
    expect("a write at the pointer fails", fails(start)?, false)?;
    expect("the same write fails", fails(start)?, true)?;
    let told = report(start)?;
    ensure!(
        told.contains("wptr 0x000008"),
        "the zone is reported as {told}"
    );
    expect("a write that follows fails", fails(start + 8)?, false)?;
    let refused = vm.device(id)?.total()?.zone_refusals - before;
    ensure!(
        refused <= 2,
        "the device has refused {refused} of two bad writes"
    );
    // Broken zones, of which the block layer knows nothing.
    for (zone, state) in [(3, "read-only"), (4, "offline")] {
        let broken = json!({"command": "break", "zone": zone, "state": state});
        let before = vm.device(id)?.total()?.zone_refusals;
        vm.device(id)?.ask(&broken)?;
        expect(
            &format!("a write fails: {state}"),
            fails(zone * ZONE)?,
            true,
        )?;
        let refused = vm.device(id)?.total()?.zone_refusals - before;
        ensure!(
            refused > 0,
            "the device has refused nothing of a zone that is {state}"
        );
        let told = report(zone * ZONE)?;
        let right = if state == "offline" {
            "15(of)"
        } else {
            "13(ro)"
        };
        ensure!(
            told.contains(right),
            "a zone that is {state} is reported as {told}"
        );
    }
    expect_good(vm, id)?;
    vm.unplug(id)
}
