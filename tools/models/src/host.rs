// SPDX-License-Identifier: GPL-2.0

//! The host of a loom model: a device on a thread of its own, which completes every request and
//! raises the interrupt whenever the rules ask for it.

use crate::explore::{Coverage, Observer, Scenario};
use crate::line::{Line, Work, DONE, SIGNAL};
use crate::virtqueue::{Device, Taken};

/// Runs the device until all requests of `scenario` are completed.
pub fn run(
    scenario: &Scenario,
    mut device: Box<dyn Device>,
    irq: &Line,
    kick: &Line,
    work: &Work,
    observer: &Observer,
) {
    let mut left = usize::from(scenario.requests);
    while left > 0 {
        let batch = take_batch(&mut *device, scenario);
        if batch.is_empty() {
            kick.wait();
            continue;
        }
        left -= batch.len();
        for &taken in &batch {
            observer.completed.lock().unwrap().push(taken.request);
            device.complete(taken);
        }
        if device.must_signal() {
            Coverage::count(&observer.coverage.signals);
            irq.raise(SIGNAL);
        }
    }
    // Whoever takes what is raised here ends the model, if nobody else does.
    work.end(1);
    irq.raise(DONE);
}

fn take_batch(device: &mut dyn Device, scenario: &Scenario) -> Vec<Taken> {
    let mut batch = Vec::new();
    while batch.len() < scenario.batch {
        match device.take() {
            Some(taken) => batch.push(taken),
            None => break,
        }
    }
    if scenario.reverse {
        batch.reverse();
    }
    batch
}
