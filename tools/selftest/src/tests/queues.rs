// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How many queues a disk has, and which CPU uses which.

use crate::fio;
use crate::guest::{expect, read, secs};
use crate::lab::Lab;
use crate::qmp;
use crate::suite::Group;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use vm::{Backend, Disk, Driver, Vm};

/// CPUs of the machine with more CPUs than queues.
const CPUS: u32 = 8;

pub fn groups() -> Vec<Group> {
    let fewer_cpus = Group::new("queues")
        .guest(|_| Ok(Vm::builder().vcpus(2).disk(eight())))
        .shared(
            "8 queues and 2 CPUs: two queues, the others unused",
            |_, vm| only_used(vm, 2),
        )
        .shared("I/O goes on over stop and cont", stop_and_cont);
    let one_online = Group::new("queues").alone(
        "8 queues and maxcpus=1: I/O works on the CPU that is online",
        maxcpus,
    );
    let more_cpus = Group::new("queues").guest(|_| {
        let disks = [1, 3, 5].map(|n| Disk::new(&odd_id(n), Backend::null(64 << 20)).num_queues(n));
        let vm = Vm::builder().vcpus(CPUS);
        Ok(disks.into_iter().fold(vm, |vm, disk| vm.disk(disk)))
    });
    let more_cpus = [1, 3, 5].into_iter().fold(more_cpus, |group, queues| {
        group.shared(
            format!("{CPUS} CPUs share {queues} of the device's queues, each a live one"),
            move |_, vm| every_cpu(vm, queues),
        )
    });
    vec![fewer_cpus, one_online, more_cpus]
}

fn eight() -> Disk {
    Disk::new("eight", Backend::ram(64 << 20)).num_queues(8)
}

fn odd_id(queues: u16) -> String {
    format!("queues{queues}")
}

/// Case 8: as many queues as CPUs are set up, and the device never sees the others kicked.
fn only_used(vm: &Vm, queues: u16) -> Result<()> {
    let name = vm.block_device("eight")?;
    let found = vm.sh(&format!("ls /sys/block/{name}/mq | wc -l"))?;
    expect(
        "the number of hardware queues",
        found.trim(),
        queues.to_string().as_str(),
    )?;
    fio::run(
        vm,
        secs(60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randread --bs=4k --size=16m --numjobs=2 \
             --ioengine=libaio --iodepth=32 --cpus_allowed=0,1 --cpus_allowed_policy=split"
        ),
    )?;
    for queue in 0..8 {
        let status = qmp::queue_status(vm, "eight", queue)?;
        let (ring, seen) = (&status["vring-desc"], &status["last-avail-idx"]);
        let used = queue < queues;
        ensure!(
            (*ring != 0) == used && (*seen != 0) == used,
            "queue {queue}, to be {}, is {status}",
            if used { "used" } else { "unused" }
        );
    }
    Ok(())
}

/// Case 8: when QEMU goes on it looks at every queue, as if all had been kicked.
fn stop_and_cont(lab: &Lab, vm: &Vm) -> Result<()> {
    let name = vm.block_device("eight")?;
    let seconds = lab.scale(4, 60);
    let fio = fio::start(vm, secs(seconds + 60), &fio::verified(&name, seconds))?;
    for _ in 0..lab.scale(10, 100) {
        vm.monitor().execute("stop", json!({}))?;
        std::thread::sleep(std::time::Duration::from_millis(100));
        vm.monitor().execute("cont", json!({}))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let report = fio.finish()?;
    ensure!(report.writes > 0, "fio wrote nothing");
    Ok(())
}

/// Case 8: the second CPU exists but never comes online.
fn maxcpus(lab: &Lab) -> Result<()> {
    let vm = lab.boot(
        Vm::builder()
            .vcpus(2)
            .kernel_argument("maxcpus=1")
            .disk(eight()),
    )?;
    expect(
        "the CPUs online",
        read(&vm, "/sys/devices/system/cpu/online")?.as_str(),
        "0",
    )?;
    vm.load(Driver::Rust, "")?;
    let name = vm.block_device("eight")?;
    let queues = vm.counters("eight")?.len();
    ensure!(
        (1..=2).contains(&queues),
        "there are {queues} queues for one or two CPUs"
    );
    fio::run(
        &vm,
        secs(60),
        &format!(
            "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=8m --ioengine=libaio \
             --iodepth=32 --verify=crc32c"
        ),
    )?;
    vm.shutdown()
}

/// Case 9: a request from each CPU goes through the queue to which the CPU is mapped.
fn every_cpu(vm: &Vm, queues: u16) -> Result<()> {
    let disk = odd_id(queues);
    let name = vm.block_device(&disk)?;
    let before = vm.counters(&disk)?;
    expect("the number of queues", before.len(), queues.into())?;
    let mut right = vec![0; queues.into()];
    let mut seen = 0;
    for (queue, right) in right.iter_mut().enumerate() {
        let list = read(vm, &format!("/sys/block/{name}/mq/{queue}/cpu_list"))?;
        for cpu in list.split(',') {
            let cpu: u32 = cpu
                .trim()
                .parse()
                .with_context(|| format!("the CPUs {list:?}"))?;
            // A different number a CPU tells queues apart.
            let reads = 10 + u64::from(cpu);
            vm.sh(&format!(
                "taskset -c {cpu} dd if=/dev/{name} of=/dev/null bs=4k count={reads} iflag=direct \
                 status=none"
            ))?;
            *right += reads;
            seen += 1;
        }
    }
    expect("the number of CPUs with a queue", seen, CPUS)?;
    let after = vm.counters(&disk)?;
    let done = after
        .iter()
        .zip(&before)
        .map(|(a, b)| a.completions - b.completions);
    expect("what the queues have completed", done.collect(), right)
}
