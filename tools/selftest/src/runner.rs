// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Runs groups of tests, several guests at a time, and reports each test when it ends.

use crate::lab::Lab;
use crate::options::Options;
use crate::suite::{Body, Group, Test};
use crate::tap::{Failure, Outcome, Report};
use anyhow::{anyhow, Context, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use vm::Vm;

/// Runs all tests; `true` if all have passed.
pub fn run(groups: Vec<Group>, options: &Options) -> Result<bool> {
    let started = Instant::now();
    let count = groups.iter().map(|group| group.tests.len()).sum();
    println!("{}", Report::head(count));
    let mut report = Report::default();
    let queue = Mutex::new(groups.into_iter());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.next()
    };
    let (sender, outcomes) = channel();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(group) = next() {
                    run_group(&group, options, &sender);
                }
            });
        }
        drop(sender);
        for outcome in outcomes {
            println!("{}", report.add(&outcome));
        }
    });
    println!("# {:.0} s", started.elapsed().as_secs_f64());
    println!("{}", report.sum());
    Ok(report.is_good())
}

fn run_group(group: &Group, options: &Options, outcomes: &Sender<Outcome>) {
    let mut guest = None;
    let mut all_good = true;
    let lab = Lab::new(&group.name, options.long, options.driver());
    for (index, test) in group.tests.iter().enumerate() {
        let started = Instant::now();
        let is_last = index + 1 == group.tests.len();
        let result = match &lab {
            Ok(lab) => run_test(group, test, lab, &mut guest, is_last),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        all_good &= result.is_ok();
        let failure = result.err().map(|error| Failure {
            reason: format!("{error:#}"),
            console: lab.as_ref().ok().and_then(Lab::last_console),
        });
        let outcome = Outcome {
            name: format!("{}/{}", group.name, test.name),
            took: started.elapsed(),
            failure,
        };
        // The receiver lives as long as all threads.
        let _ = outcomes.send(outcome);
    }
    if let (true, false, Ok(lab)) = (all_good, options.keep_logs, &lab) {
        lab.remove_logs();
    }
}

/// Runs a test. The group's guest is powered off after the last one, and after one that failed.
fn run_test(
    group: &Group,
    test: &Test,
    lab: &Lab,
    guest: &mut Option<Vm>,
    is_last: bool,
) -> Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| match &test.body {
        Body::Alone(function) => function(lab),
        Body::Shared(function) => {
            let vm = match guest {
                Some(vm) => vm,
                None => guest.insert(boot(group, lab)?),
            };
            let result = function(lab, vm);
            // Trouble in the kernel explains more than what the test has noticed.
            vm.check()?;
            result
        }
    }));
    let result = result.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or(panic.downcast_ref::<&str>().copied());
        Err(anyhow!(
            "the test panicked: {}",
            words.unwrap_or("no message")
        ))
    });
    match (result.is_ok() && !is_last, guest.take()) {
        (true, kept) => {
            *guest = kept;
            result
        }
        (false, Some(vm)) if result.is_ok() => vm.shutdown(),
        (false, _) => result,
    }
}

fn boot(group: &Group, lab: &Lab) -> Result<Vm> {
    let describe = group.guest.as_ref();
    let describe = describe.with_context(|| format!("group {} has no guest", group.name))?;
    let vm = lab.boot(describe(lab)?)?;
    if let Some(parameters) = &group.driver {
        vm.load(lab.driver(), parameters)?;
    }
    Ok(vm)
}
