// SPDX-License-Identifier: GPL-2.0

//! What tests ask of a guest again and again.

use anyhow::{ensure, Context, Result};
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

/// The counters of all queues of a disk together.
pub fn total(vm: &Vm, disk: &str) -> Result<Counters> {
    let queues = vm.counters(disk)?;
    Ok(queues
        .iter()
        .fold(Counters::default(), |sum, queue| &sum + queue))
}

/// Completions of all queues of a disk of which no interrupt has told.
pub fn missed_interrupts(vm: &Vm, disk: &str) -> Result<u64> {
    let name = vm.block_device(disk)?;
    let text = vm.sh(&format!(
        "awk '/^missed_interrupts /{{ n += $2 }} END {{ print n }}' {DEBUGFS}/{name}/queue*"
    ))?;
    let count = text.trim().parse().ok();
    count.with_context(|| format!("{text:?} is no number of missed interrupts"))
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
