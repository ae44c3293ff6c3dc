// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Counts what the C driver does not count itself: kicks and drains.
//!
//! Probes on the transport's notify function and on `virtqueue_disable_cb()`, which the C driver
//! calls once for each drain, count by the name of the virtqueue. The virtio core calls both
//! through the same path for every driver, so the method is checked on ours, which counts by
//! itself. Probes change the timing, so they are set in runs of their own, of which only the
//! number of calls for an interrupt is used.

use anyhow::{bail, Context, Result};
use vm::Vm;

/// The folder of our probes below tracefs.
const EVENTS: &str = "/sys/kernel/tracing/events/vbr";

/// Functions through which a transport notifies the device; each has the virtqueue as `vq`.
const NOTIFY: [&str; 4] = [
    "vp_notify",
    "vp_notify_with_data",
    "vm_notify",
    "vm_notify_with_data",
];

/// The function that the C driver calls before each drain; it has the virtqueue as `_vq`.
const DISABLE: &str = "virtqueue_disable_cb";

/// The probes in a guest.
pub struct Kprobes<'a> {
    vm: &'a Vm,
    notify: Vec<String>,
}

/// Calls for the request queues of the disk under test, the only virtio disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// Notifications of the device.
    pub notify: u64,
    /// Calls of `virtqueue_disable_cb()`.
    pub disable: u64,
}

impl<'a> Kprobes<'a> {
    /// Defines the probes; they cost nothing until they are set.
    pub fn define(vm: &'a Vm) -> Result<Self> {
        let mut notify = Vec::new();
        for function in NOTIFY {
            if vm
                .sh(&format!("grep -cw {function} /proc/kallsyms || true"))?
                .trim()
                != "0"
            {
                define(vm, function, "vq")?;
                notify.push(function.to_owned());
            }
        }
        if notify.is_empty() {
            bail!("the guest's kernel has none of the known functions that notify a device");
        }
        define(vm, DISABLE, "_vq")?;
        Ok(Self { vm, notify })
    }

    /// Sets the probes, with all counts at zero.
    pub fn start(&self) -> Result<()> {
        self.trigger("hist:keys=name")
    }

    /// Removes the probes and returns their counts.
    pub fn stop(&self) -> Result<Calls> {
        let mut calls = Calls {
            notify: 0,
            disable: self.hits(DISABLE)?,
        };
        for function in &self.notify {
            calls.notify += self.hits(function)?;
        }
        self.trigger("!hist:keys=name")?;
        Ok(calls)
    }

    fn trigger(&self, trigger: &str) -> Result<()> {
        for function in self.notify.iter().map(String::as_str).chain([DISABLE]) {
            self.vm
                .sh(&format!("echo '{trigger}' > {EVENTS}/{function}/trigger"))
                .with_context(|| format!("cannot set the probe on {function}"))?;
        }
        Ok(())
    }

    fn hits(&self, function: &str) -> Result<u64> {
        Ok(request_queue_hits(
            &self.vm.sh(&format!("cat {EVENTS}/{function}/hist"))?,
        ))
    }
}

fn define(vm: &Vm, function: &str, argument: &str) -> Result<()> {
    vm.sh(&format!(
        "echo 'p:vbr/{function} {function} name={argument}->name:string' \
         >> /sys/kernel/tracing/kprobe_events"
    ))
    .with_context(|| format!("cannot define a probe on {function}"))?;
    Ok(())
}

/// Sums the counts of the virtqueues called `req.N` in the text of a `hist` file.
fn request_queue_hits(text: &str) -> u64 {
    let counts = text.lines().filter_map(|line| {
        let (key, count) = line.split_once("hitcount:")?;
        key.contains("{ name: req.")
            .then(|| count.trim().parse::<u64>().ok())?
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_request_queues_of_disks_count() {
        let text = "# trigger info: hist:keys=name:vals=hitcount:sort=hitcount:size=2048\n\
                    { name: requests.0                  } hitcount:       1504\n\
                    { name: req.0                       } hitcount:       5689\n\
                    { name: req.1                       } hitcount:         11\n\
                    \nTotals:\n    Hits: 7204\n";
        assert_eq!(request_queue_hits(text), 5700);
        assert_eq!(request_queue_hits("Totals:\n    Hits: 0\n"), 0);
    }
}
