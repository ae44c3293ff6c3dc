// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What tests ask of a guest again and again.

use crate::lab::Lab;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::fmt::Debug;
use std::str::FromStr;
use std::time::{Duration, Instant};
use vm::{Counters, Driver, Vm};

/// The folder of the Rust driver's counters.
pub const DEBUGFS: &str = "/sys/kernel/debug/virtio_blk_rs";

/// The folder of the Rust driver's parameters.
pub const PARAMETERS: &str = "/sys/module/virtio_blk_rs/parameters";

/// The Rust driver on the virtio bus.
pub const BUS_DRIVER: &str = "/sys/bus/virtio/drivers/virtio_blk_rs";

/// How long requests on a busy host may take that are not slow by themselves.
const PATIENCE: Duration = secs(20);

/// The modes of interrupt suppression.
pub const MODES: [&str; 3] = ["off", "loop", "delayed"];

/// A number of seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Fails, naming both, unless `got` is what it should be.
pub fn expect<T: PartialEq + Debug>(what: &str, got: T, right: T) -> Result<()> {
    ensure!(got == right, "{what} is {got:?} instead of {right:?}");
    Ok(())
}

/// A file's content without the last newline.
pub fn read(vm: &Vm, path: &str) -> Result<String> {
    Ok(vm.sh(&format!("cat {path}"))?.trim_end().to_owned())
}

/// A file's content as a number.
pub fn number<T: FromStr>(vm: &Vm, path: &str) -> Result<T> {
    let text = read(vm, path)?;
    let number = text.trim().parse().ok();
    number.with_context(|| format!("{path} holds {text:?} instead of a number"))
}

/// Unloads the driver and loads it again, so that nothing of a disk is left in memory.
pub fn reload(vm: &Vm, parameters: &str) -> Result<()> {
    vm.unload(Driver::Rust)?;
    vm.load(Driver::Rust, parameters)
}

/// The same for the driver under test, which need not be ours.
pub fn load_anew(lab: &Lab, vm: &Vm, parameters: &str) -> Result<()> {
    vm.unload(lab.driver())?;
    vm.load(lab.driver(), parameters)
}

/// Writes attributes of the disk called `name` in the guest.
pub fn set(vm: &Vm, name: &str, settings: &[(&str, &str)]) -> Result<()> {
    let script: Vec<_> = settings
        .iter()
        .map(|(knob, value)| format!("echo {value} >/sys/block/{name}/{knob} || exit 1"))
        .collect();
    vm.sh(&script.join("\n")).map(drop)
}

/// Waits until a disk has served `count` requests more.
pub fn wait_for_requests(vm: &Vm, disk: &str, count: u32) -> Result<()> {
    let name = vm.block_device(disk)?;
    let text = vm.sh_for(
        PATIENCE + secs(10),
        &format!(
            "served() {{ awk '{{ print $1 + $5 }}' /sys/block/{name}/stat; }}
             before=$(served); end=$((SECONDS + {}))
             until test $(($(served) - before)) -ge {count} -o $SECONDS -gt $end; do
                 sleep 0.02
             done
             test $SECONDS -le $end || cat /sys/block/{name}/stat /sys/block/{name}/inflight",
            PATIENCE.as_secs()
        ),
    )?;
    ensure!(
        text.is_empty(),
        "{disk} did not serve {count} requests within {PATIENCE:?}: {text}"
    );
    Ok(())
}

/// The counters of all queues of a disk together.
pub fn total(vm: &Vm, disk: &str) -> Result<Counters> {
    let queues = vm.counters(disk)?;
    Ok(queues
        .iter()
        .fold(Counters::default(), |sum, queue| &sum + queue))
}

/// Waits until a guest that was reset, or resets itself, is there again. As with any boot
/// ([`Lab::boot`](crate::lab::Lab::boot)), there are two tries.
pub fn wait_for_reboot(vm: &Vm) -> Result<()> {
    vm.wait_for_boot(secs(120)).or_else(|err| {
        eprintln!("# resetting once more, because {err:#}");
        vm.monitor().execute("system_reset", json!({}))?;
        vm.wait_for_boot(secs(120))
    })
}

/// One counter of all queues of a disk together.
pub fn sum_of(vm: &Vm, disk: &str, counter: &str) -> Result<u64> {
    let name = vm.block_device(disk)?;
    let text = vm.sh(&format!(
        "awk '/^{counter} /{{ n += $2 }} END {{ print n }}' {DEBUGFS}/{name}/queue*"
    ))?;
    let count = text.trim().parse().ok();
    count.with_context(|| format!("{text:?} is no sum of {counter}"))
}

/// Completions of all queues of a disk of which no interrupt has told.
pub fn missed_interrupts(vm: &Vm, disk: &str) -> Result<u64> {
    sum_of(vm, disk, "missed_interrupts")
}

/// Demands that the programmable device of a disk has found nothing to complain about.
pub fn expect_no_complaints(vm: &Vm, disk: &str) -> Result<()> {
    let found = vm.device(disk)?.total()?;
    let complaints = (found.bad_chains, found.bad_rings, found.io_errors);
    expect(
        "bad chains, bad rings and I/O errors",
        complaints,
        (0, 0, 0),
    )
}

/// Demands that no request of a disk is in flight, and that our driver was told of the end of each.
pub fn expect_settled(lab: &Lab, vm: &Vm, disk: &str) -> Result<()> {
    if lab.is_ours() {
        expect("missed interrupts", missed_interrupts(vm, disk)?, 0)?;
    }
    expect_idle(vm, disk)
}

/// The driver's messages while `action` ran.
pub fn log_of(vm: &Vm, action: impl FnOnce() -> Result<()>) -> Result<Vec<String>> {
    let lines = || -> Result<usize> {
        let text = vm.sh("dmesg | wc -l")?;
        text.trim()
            .parse()
            .with_context(|| format!("{text:?} is no number of lines"))
    };
    let before = lines()?;
    action()?;
    let text = vm.sh(&format!("dmesg | tail -n +{}", before + 1))?;
    // Others may say something at any time.
    let ours = text.lines().filter(|line| line.contains("virtio_blk_rs"));
    Ok(ours.map(str::to_owned).collect())
}

/// Demands that no request of a disk is in flight, for the block layer or for the driver.
pub fn expect_idle(vm: &Vm, disk: &str) -> Result<()> {
    let name = vm.block_device(disk)?;
    let inflight = read(vm, &format!("/sys/block/{name}/inflight"))?;
    let inflight: Vec<_> = inflight.split_whitespace().collect();
    expect("the number of requests in flight", inflight, vec!["0", "0"])
}

/// Tries until `condition` holds.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !condition()? {
        ensure!(
            Instant::now() < deadline,
            "waited {limit:?} in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
