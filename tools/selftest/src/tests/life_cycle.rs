// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Load, unload, bind, unbind, plug and unplug, at any moment, without a leak or a hang.

use crate::fio;
use crate::guest::{expect, secs, BUS_DRIVER, DEBUGFS, PARAMETERS};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use std::time::Duration;
use vm::{Backend, Disk, Driver, Vm};

const DISK: &str = "disk";

/// Shell functions: `settled` waits until a disk is there, `nothing_left` demands that of an
/// unloaded driver nothing is left, `free_kib` prints the memory that is free but for caches, with
/// the pages that each CPU keeps at hand.
const FUNCTIONS: &str = "
    settled() { for try in $(seq 100); do test -b /dev/$1 && return; sleep 0.05; done; \
                echo no /dev/$1; exit 1; }
    nothing_left() { for path in $(ls -d /sys/block/vd* /sys/kernel/debug/virtio_blk_rs \
                /sys/module/virtio_blk_rs /sys/bus/virtio/drivers/virtio_blk_rs /dev/vd* \
                2>/dev/null); do echo $path is left; exit 1; done
                if grep -e '-req\\.' /proc/interrupts; then echo an interrupt is left; exit 1; fi; }
    free_kib() { sync; echo 3 >/proc/sys/vm/drop_caches; sleep 0.3; \
                awk '/^(MemFree|Buffers|Cached|SReclaimable):/ { sum += $2 } \
                /^ +count:/ { sum += 4 * $2 } END { print sum }' /proc/meminfo /proc/zoneinfo; }
    slab_kib() { awk '/^SUnreclaim:/ { print $2 }' /proc/meminfo; }
";

pub fn groups() -> Vec<Group> {
    let guest = |_: &Lab| {
        let disk = Disk::new(DISK, Backend::ram(64 << 20));
        Ok(Vm::builder().disk(disk))
    };
    let idle = Group::new("life-cycle")
        .without_driver()
        .guest(guest)
        .shared("load and unload, idle", load_and_unload)
        .shared("bind and unbind, idle", bind_and_unbind)
        .shared("unload at once after load", unload_at_once)
        .shared("an open disk outlives its device", open_disk);
    let busy = Group::new("life-cycle")
        .without_driver()
        .guest(guest)
        .shared("unload under I/O is refused, then works", unload_under_io)
        .shared("unbind under I/O fails the I/O and ends", unbind_under_io)
        .shared("unplug under I/O fails the I/O and ends", unplug_under_io);
    // A tag set of that depth would be missed after a few cycles.
    let deep = Group::new("life-cycle")
        .without_driver()
        .guest(|_| {
            let disk = Disk::new(DISK, Backend::ram(64 << 20)).queue_size(1024);
            Ok(Vm::builder().disk(disk))
        })
        .shared(
            "a probe that fails after any step leaves nothing",
            failed_probes,
        );
    vec![idle, busy, deep]
}

/// Cycles of a test without I/O.
fn idle_cycles(lab: &Lab) -> u32 {
    lab.scale(50, 200)
}

/// Cycles of a test with I/O, which takes longer to start than all else.
fn busy_cycles(lab: &Lab) -> u32 {
    lab.scale(20, 200)
}

/// The limit for `cycles` of something that takes well below two seconds.
fn limit(cycles: u32) -> Duration {
    Duration::from_secs(60) + Duration::from_secs(4) * cycles
}

/// Runs `body` in a loop and demands that memory does not shrink: after cycles for warming up, by
/// less than what the tags of a single queue take, over all cycles.
fn cycle(vm: &Vm, cycles: u32, body: &str) -> Result<()> {
    let text = vm.sh_for(
        limit(cycles),
        &format!(
            "{FUNCTIONS}
             body() {{ {body}
             }}
             for n in $(seq 5); do body; done
             echo before $(free_kib) $(slab_kib)
             for n in $(seq {cycles}); do body; done
             echo after $(free_kib) $(slab_kib)"
        ),
    )?;
    let numbers = |word: &str| -> Result<(i64, i64)> {
        let line = text.lines().find_map(|line| line.strip_prefix(word));
        let mut numbers = line
            .into_iter()
            .flat_map(str::split_whitespace)
            .map(str::parse);
        let mut next = || numbers.next().context("a number is missing");
        Ok((next()??, next()??))
    };
    let ((free, slab), (free_after, slab_after)) = (numbers("before ")?, numbers("after ")?);
    let (lost, grown) = (free - free_after, slab_after - slab);
    let cycles = i64::from(cycles);
    // A queue's requests take more than 128 KiB, the smallest object in a slab 8 bytes: what is
    // tolerated is noise of the page allocator's and the slabs' own caches.
    ensure!(
        lost < 4096 + 16 * cycles && grown < 512 + 2 * cycles,
        "after {cycles} cycles {lost} KiB of memory are lost, {grown} KiB of them in slabs"
    );
    Ok(())
}

fn load_and_unload(lab: &Lab, vm: &Vm) -> Result<()> {
    cycle(
        vm,
        idle_cycles(lab),
        "insmod /mnt/virtio_blk_rs.ko || exit 1
         settled vda
         dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct status=none || exit 1
         rmmod virtio_blk_rs || exit 1
         nothing_left",
    )
}

fn bind_and_unbind(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::Rust, "")?;
    let device = vm.virtio_device(DISK)?;
    cycle(
        vm,
        idle_cycles(lab),
        &format!(
            "settled vda
             dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct status=none || exit 1
             echo {device} >{BUS_DRIVER}/unbind || exit 1
             test ! -e /sys/block/vda -a ! -e {DEBUGFS}/vda || exit 1
             if grep -e '-req\\.' /proc/interrupts; then exit 1; fi
             echo {device} >{BUS_DRIVER}/bind || exit 1"
        ),
    )?;
    vm.unload(Driver::Rust)
}

/// The scan for partitions may still be running.
fn unload_at_once(lab: &Lab, vm: &Vm) -> Result<()> {
    let cycles = lab.scale(20, 200);
    vm.sh_for(
        limit(cycles),
        &format!(
            "{FUNCTIONS}
             for n in $(seq {cycles}); do
                 insmod /mnt/virtio_blk_rs.ko && rmmod virtio_blk_rs || exit 1
             done
             nothing_left"
        ),
    )?;
    Ok(())
}

/// Each step of the probe is undone, and the device can be used afterwards. The driver says how
/// many steps there are: the last that it accepts fails as well.
fn failed_probes(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::Rust, "")?;
    let device = vm.virtio_device(DISK)?;
    let fail = format!("{PARAMETERS}/fail_probe");
    let steps: u32 = vm
        .sh(&format!(
            "for n in $(seq 99); do echo $n >{fail} || break; last=$n; done 2>/dev/null
             echo $last"
        ))?
        .trim()
        .parse()?;
    ensure!(steps > 5, "a probe has but {steps} steps");
    vm.sh(&format!("echo {device} >{BUS_DRIVER}/unbind"))?;
    let before = vm.dmesg()?.matches("on purpose").count();
    let cycles = lab.scale(20, 200);
    cycle(
        vm,
        cycles,
        &format!(
            "for step in $(seq {steps}); do
                 echo $step >{fail} || exit 1
                 if echo {device} >{BUS_DRIVER}/bind; then exit 1; fi 2>/dev/null
                 for path in /sys/block/vda {DEBUGFS}/vda /dev/vda; do
                     test ! -e $path || {{ echo $path is left after step $step; exit 1; }}
                 done
                 if grep -e '-req\\.' /proc/interrupts; then exit 1; fi
             done
             echo 0 >{fail}
             echo {device} >{BUS_DRIVER}/bind || exit 1
             settled vda
             dd if=/dev/vda of=/dev/null bs=64k count=4 iflag=direct status=none || exit 1
             echo {device} >{BUS_DRIVER}/unbind"
        ),
    )?;
    let failed = vm.dmesg()?.matches("on purpose").count() - before;
    // As many as there are in the log, which forgets.
    ensure!(failed >= steps as usize, "but {failed} probes have failed");
    vm.unload(Driver::Rust)
}

/// A descriptor stays open over unbind: nothing can be read by it, the module cannot be unloaded
/// until it is closed, and the same device gets a new disk meanwhile.
fn open_disk(_lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::Rust, "")?;
    let device = vm.virtio_device(DISK)?;
    let text = vm.sh(&format!(
        "{FUNCTIONS}
         settled vda
         exec 3</dev/vda
         echo {device} >{BUS_DRIVER}/unbind || exit 1
         test $(dd bs=4k count=1 iflag=direct status=none <&3 2>/dev/null | wc -c) = 0 || \
             echo data was read
         rmmod virtio_blk_rs 2>/dev/null && echo unloaded under an open disk
         echo {device} >{BUS_DRIVER}/bind || exit 1
         for disk in /sys/block/vd*; do
             dd if=/dev/${{disk##*/}} bs=4k count=1 iflag=direct status=none >/dev/null || exit 1
         done
         exec 3<&-
         rmmod virtio_blk_rs || exit 1
         nothing_left"
    ))?;
    expect("the list of complaints", text.trim(), "")
}

/// Four readers keep the disk open and busy.
fn unload_under_io(lab: &Lab, vm: &Vm) -> Result<()> {
    cycle(
        vm,
        busy_cycles(lab),
        "insmod /mnt/virtio_blk_rs.ko || exit 1
         settled vda
         for reader in 1 2 3 4; do
             dd if=/dev/vda of=/dev/null bs=4k iflag=direct status=none & readers[$reader]=$!
         done
         sleep 0.1
         if rmmod virtio_blk_rs 2>/tmp/error; then echo unloaded under I/O; exit 1; fi
         grep -q 'in use' /tmp/error || exit 1
         kill ${readers[*]}
         wait
         rmmod virtio_blk_rs || exit 1
         nothing_left",
    )
}

/// fio has 64 requests in flight when the disk goes: it must end with an error, at once.
fn unbind_under_io(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::Rust, "")?;
    let device = vm.virtio_device(DISK)?;
    cycle(
        vm,
        busy_cycles(lab),
        &format!(
            "settled vda
             fio --name=j --filename=/dev/vda --direct=1 --thread --rw=randrw --bs=4k \
                 --ioengine=libaio --iodepth=32 --numjobs=2 --size=64m --time_based --runtime=60 \
                 --clocksource=clock_gettime --allow_file_create=0 >/tmp/fio 2>&1 &
             until test $(awk '{{ print $1 + $5 }}' /sys/block/vda/stat) -gt 500; do
                 sleep 0.05
             done
             echo {device} >{BUS_DRIVER}/unbind || exit 1
             test ! -e /sys/block/vda || exit 1
             wait $! && {{ echo fio noticed nothing; exit 1; }}
             grep -q -i -e 'error' -e 'No such device' /tmp/fio || {{ cat /tmp/fio; exit 1; }}
             echo {device} >{BUS_DRIVER}/bind || exit 1"
        ),
    )?;
    vm.unload(Driver::Rust)
}

/// The device itself goes while fio has requests in flight.
fn unplug_under_io(lab: &Lab, vm: &Vm) -> Result<()> {
    vm.load(Driver::Rust, "")?;
    for cycle in 0..lab.scale(5, 50) {
        let id = format!("plugged{cycle}");
        vm.plug(Disk::new(&id, Backend::null(64 << 20)))?;
        let name = plugged(vm)?;
        let job = format!(
            "--name=j --filename=/dev/{name} --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 \
             --size=64m --time_based --runtime=60"
        );
        let fio = fio::start(vm, secs(90), &job)?;
        vm.sh(&format!(
            "until test $(awk '{{ print $1 + $5 }}' /sys/block/{name}/stat) -gt 200; do \
             sleep 0.05; done"
        ))?;
        vm.unplug(&id)?;
        let output = fio.outcome()?;
        ensure!(
            output.status != 0,
            "fio did not notice that its disk was gone"
        );
        vm.sh(&format!("test ! -e /sys/block/{name}"))?;
    }
    vm.unload(Driver::Rust)
}

/// The disk that is not the first one.
fn plugged(vm: &Vm) -> Result<String> {
    let name = vm.sh(
        "for try in $(seq 200); do for disk in /sys/block/vd[b-z]; do \
         if test -b /dev/${disk##*/}; then echo ${disk##*/}; exit 0; fi; done; sleep 0.05; done; \
         exit 1",
    )?;
    Ok(name.trim().to_owned())
}
