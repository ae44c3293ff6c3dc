// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What QEMU knows about a disk.

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};
use vm::Vm;

/// The statistics of a disk in QEMU: what has really reached the device.
pub fn block_stats(vm: &Vm, disk: &str) -> Result<Value> {
    let all = vm.monitor().execute("query-blockstats", json!({}))?;
    let found = all.as_array().and_then(|all| {
        all.iter().find(|one| {
            // The device's name, with what is above and below it on some buses.
            let name = one["qdev"].as_str().unwrap_or_default();
            name.split('/').any(|part| part == disk)
        })
    });
    let found = found.with_context(|| format!("QEMU has no statistics of {disk}: {all}"))?;
    Ok(found["stats"].clone())
}

/// One of the statistics, a count.
pub fn block_count(vm: &Vm, disk: &str, name: &str) -> Result<u64> {
    block_stats(vm, disk)?[name]
        .as_u64()
        .with_context(|| format!("QEMU's statistics of {disk} have no {name}"))
}

/// The state of a virtqueue as QEMU sees it.
pub fn queue_status(vm: &Vm, disk: &str, queue: u16) -> Result<Value> {
    let path = virtio_path(vm, disk)?;
    vm.monitor().execute(
        "x-query-virtio-queue-status",
        json!({"path": path, "queue": queue}),
    )
}

/// The descriptors of an entry of a virtqueue's available ring.
pub fn queue_element(vm: &Vm, disk: &str, queue: u16, index: u16) -> Result<Value> {
    let path = virtio_path(vm, disk)?;
    vm.monitor().execute(
        "x-query-virtio-queue-element",
        json!({"path": path, "queue": queue, "index": index}),
    )
}

/// The virtio device of a disk; with virtio-pci it is a child of the device that has the name.
fn virtio_path(vm: &Vm, disk: &str) -> Result<String> {
    let all = vm.monitor().execute("x-query-virtio", json!({}))?;
    let paths = all.as_array().into_iter().flatten();
    for path in paths.filter_map(|device| device["path"].as_str()) {
        let name = path.trim_end_matches("/virtio-backend");
        if name.ends_with(&format!("/{disk}")) {
            return Ok(path.to_owned());
        }
    }
    bail!("QEMU has no virtio device called {disk}: {all}")
}
