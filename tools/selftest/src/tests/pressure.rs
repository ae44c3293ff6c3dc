// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Load beyond what rings hold: nothing stalls and nothing is lost.

use crate::fio;
use crate::guest::{expect, expect_idle, secs, total};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Result};
use std::time::{Duration, Instant};
use vm::{Backend, Disk, Vm};

/// Disks of the large machine.
const DISKS: usize = 16;

pub fn groups() -> Vec<Group> {
    let many = Group::new("pressure")
        .guest(|_| {
            let disks =
                (0..DISKS).map(|n| Disk::new(&many_id(n), Backend::null(64 << 20)).num_queues(4));
            let vm = Vm::builder().vcpus(4);
            Ok(disks.fold(vm, |vm, disk| vm.disk(disk)))
        })
        .shared("16 disks with 4 queues: every request ends", sixteen_disks);
    let tiny = Group::new("pressure")
        .guest(|_| {
            let disk = |id, indirect| {
                Disk::new(id, Backend::ram(64 << 20))
                    .queue_size(4)
                    .indirect_desc(indirect)
            };
            Ok(Vm::builder()
                .disk(disk("tiny", false))
                .disk(disk("tiny-indirect", true)))
        })
        .shared(
            "a ring of 4 under 4 jobs of depth 64 never stalls",
            |lab, vm| tiny_ring(lab, vm, "tiny"),
        )
        .shared(
            "a ring of 4 with indirect descriptors never stalls",
            |lab, vm| tiny_ring(lab, vm, "tiny-indirect"),
        )
        .shared("elevators change under buffered writes", elevators);
    let bounce = Group::new("pressure")
        .guest(|lab| {
            // A device that is slower than the guest, so that all requests are in flight.
            let disk = Disk::new("bounce", lab.throttled(128 << 20)?)
                .property("iommu_platform", true)
                .property("disable-legacy", "on");
            // 8 MiB of bounce buffers for 32 requests of 1 MiB.
            Ok(Vm::builder()
                .disk(disk)
                .qemu_arguments(["-object", "throttle-group,id=slow,x-bps-total=33554432"])
                .kernel_argument("swiotlb=4096,force"))
        })
        .shared("bounce buffers that run out are waited for", bounce_buffers);
    vec![many, tiny, bounce]
}

fn many_id(index: usize) -> String {
    format!("many{index}")
}

/// Case 14: a batched interrupt path once lost requests. Reads at full depth and writes with fsync
/// on all disks, again and again; afterwards the driver has completed what the block layer counts.
fn sixteen_disks(lab: &Lab, vm: &Vm) -> Result<()> {
    let names: Vec<_> = (0..DISKS)
        .map(|n| vm.block_device(&many_id(n)))
        .collect::<Result<_>>()?;
    // Merged requests would make counting vain.
    vm.sh("for file in /sys/block/vd*/queue/nomerges; do echo 2 >$file || exit 1; done")?;
    let deadline = Instant::now() + Duration::from_secs(lab.scale(20, 600));
    let mut rounds = 0;
    while rounds < 2 || Instant::now() < deadline {
        let mut jobs = String::from("--bs=4k --size=64m --time_based --runtime=1");
        for (index, name) in names.iter().enumerate() {
            // A machine of this size under TCG does not need four jobs on every disk to be busy.
            let (rw, numjobs) = match (index + rounds) % 4 {
                0 => ("--rw=randread --ioengine=libaio --iodepth=128", 4),
                1 => ("--rw=randwrite --ioengine=psync --fsync=1", 2),
                2 => ("--rw=randread --ioengine=io_uring --iodepth=128", 1),
                _ => ("--rw=randwrite --ioengine=libaio --iodepth=32 --fsync=8", 1),
            };
            jobs += &format!(" --name={name} --filename=/dev/{name} --numjobs={numjobs} {rw}");
        }
        let report = fio::run(vm, secs(120), &jobs)?;
        ensure!(
            report.reads > 0 && report.writes > 0,
            "fio did nothing: {report:?}"
        );
        rounds += 1;
    }
    for (index, name) in names.iter().enumerate() {
        let disk = many_id(index);
        expect_idle(vm, &disk)?;
        // Reads, writes of eight sectors, and flushes. (The count of writes is of no use: the block
        // layer counts an fsync there as well, and serves several by one flush.)
        let ended = vm.sh(&format!(
            "awk '{{ print $1 + $7 / 8 + $16 }}' /sys/block/{name}/stat"
        ))?;
        let completions = total(vm, &disk)?.completions.to_string();
        expect(
            &format!("what {name} has completed"),
            completions.as_str(),
            ended.trim(),
        )?;
    }
    Ok(())
}

/// Case 17: a queue that is stopped because the ring is full must be started again, always.
fn tiny_ring(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let before = total(vm, disk)?;
    let seconds = lab.scale(6, 600);
    let report = fio::run(
        vm,
        secs(seconds + 60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randrw --bsrange=4k-64k --size=16m \
             --offset_increment=16m --numjobs=4 --iodepth=64 --ioengine=io_uring --verify=crc32c \
             --time_based --runtime={seconds}"
        ),
    )?;
    ensure!(report.transfers() > 1000, "fio did but {report:?}");
    let did = &total(vm, disk)? - &before;
    if disk == "tiny" {
        ensure!(
            did.ring_full_stops > 0,
            "the ring was never full, so this has tested nothing"
        );
    }
    expect_idle(vm, disk)
}

/// Case 19: buffered writes while the elevator changes, on a ring of 4.
fn elevators(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("tiny")?;
    vm.sh("modprobe mq-deadline; modprobe kyber-iosched; modprobe bfq")?;
    let seconds = lab.scale(8, 300);
    let switch = vm.spawn(
        secs(seconds + 60),
        &format!(
            "count=0; end=$((SECONDS + {seconds})); while test $SECONDS -lt $end; do \
             for elevator in mq-deadline none kyber bfq; do \
             echo $elevator >/sys/block/{name}/queue/scheduler || exit 1; \
             grep -q \"\\[$elevator\\]\" /sys/block/{name}/queue/scheduler || exit 1; \
             count=$((count + 1)); done; done; \
             echo none >/sys/block/{name}/queue/scheduler; echo $count"
        ),
    )?;
    let rounds = vm.sh_for(
        secs(seconds + 120),
        &format!(
            "head -c 24M /dev/urandom >/tmp/data; end=$((SECONDS + {seconds})); count=0
             while test $SECONDS -lt $end; do
                 dd if=/tmp/data of=/dev/{name} bs=64k conv=fsync status=none || exit 1
                 dd if=/dev/{name} bs=1M count=24 iflag=direct status=none | \
                     cmp /tmp/data - || exit 1
                 count=$((count + 1))
             done; echo $count"
        ),
    )?;
    let switches: u32 = switch.wait_ok()?.trim().parse()?;
    ensure!(switches >= 8, "the elevator changed but {switches} times");
    ensure!(rounds.trim() != "0", "no data was written");
    expect_idle(vm, "tiny")
}

/// Case 18: mapping fails while nothing of this disk need be in flight, so only trying again helps.
fn bounce_buffers(lab: &Lab, vm: &Vm) -> Result<()> {
    let features = vm.features("bounce")?;
    ensure!(
        features
            .iter()
            .any(|name| name == "VIRTIO_F_ACCESS_PLATFORM"),
        "the device's memory is not translated: {features:?}"
    );
    let name = vm.block_device("bounce")?;
    // A request that is larger than all buffers together could never be served.
    vm.sh(&format!("echo 2 >/sys/block/{name}/queue/nomerges"))?;
    let size = lab.scale(48, 1024);
    fio::run(
        vm,
        secs(300),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=1m --size=64m --io_size={size}m \
             --iodepth=32 --ioengine=libaio --verify=crc32c"
        ),
    )?;
    let log = vm.sh("dmesg | grep -c 'swiotlb buffer is full' || true")?;
    ensure!(
        log.trim() != "0",
        "the buffers never ran out, so this has tested nothing"
    );
    expect_idle(vm, "bounce")
}
