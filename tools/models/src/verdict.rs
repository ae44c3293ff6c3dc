// SPDX-License-Identifier: GPL-2.0

//! What tests demand of explorations: that nothing is violated, or that a certain thing is.

use crate::driver::completion::Handler;
use crate::explore::{explore, Coverage, Scenario};
use crate::fault::Fault;
use crate::mutants::{Bug, Mutant};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// What a set of explorations has met: see [`Coverage`].
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the fields are those of Coverage")]
pub struct Met {
    pub executions: u64,
    pub passes: u64,
    pub repeats: u64,
    pub again_ends: u64,
    pub rests: u64,
    pub budget_ends: u64,
    pub late_ends: u64,
    pub timer_fires: u64,
    pub timer_completions: u64,
    pub hastened: u64,
    pub empty_interrupts: u64,
    pub signals: u64,
}

impl Met {
    fn add(&mut self, coverage: &Coverage) {
        self.executions += coverage.executions.load(Relaxed);
        self.passes += coverage.passes.load(Relaxed);
        self.repeats += coverage.repeats.load(Relaxed);
        self.again_ends += coverage.again_ends.load(Relaxed);
        self.rests += coverage.rests.load(Relaxed);
        self.budget_ends += coverage.budget_ends.load(Relaxed);
        self.late_ends += coverage.late_ends.load(Relaxed);
        self.timer_fires += coverage.timer_fires.load(Relaxed);
        self.timer_completions += coverage.timer_completions.load(Relaxed);
        self.hastened += coverage.hastened.load(Relaxed);
        self.empty_interrupts += coverage.empty_interrupts.load(Relaxed);
        self.signals += coverage.signals.load(Relaxed);
    }
}

/// Explores all `scenarios`, demands that the properties hold, and tells what was met.
pub fn assert_holds(what: &str, scenarios: impl IntoIterator<Item = Scenario>) -> Met {
    let start = Instant::now();
    let mut met = Met::default();
    for scenario in scenarios {
        match explore(&scenario, Handler::new) {
            Ok(coverage) => met.add(&coverage),
            Err(violation) => panic!("{violation}\nin {scenario:#?}"),
        }
    }
    println!("{what}: {met:?} in {:.1} s", start.elapsed().as_secs_f64());
    met
}

/// Demands that `scenario` holds with a healthy protocol, and with `bug` ends with `symptom`.
pub fn assert_bug_caught(bug: Bug, scenario: &Scenario, symptom: &str) {
    let outcome = explore(scenario, || Mutant::new(Bug::None));
    assert!(
        outcome.is_ok(),
        "{bug:?}: the healthy copy fails: {:?}",
        outcome.err()
    );
    let outcome = explore(scenario, move || Mutant::new(bug));
    assert_caught(&format!("{bug:?}"), outcome, symptom);
}

/// Demands that `scenario` holds with nothing broken, and with `fault` ends with `symptom`.
pub fn assert_fault_caught(fault: Fault, scenario: Scenario, symptom: &str) {
    let outcome = explore(&scenario, Handler::new);
    assert!(
        outcome.is_ok(),
        "{fault:?}: the healthy model fails: {:?}",
        outcome.err()
    );
    let faulty = Scenario {
        fault: Some(fault),
        ..scenario
    };
    assert_caught(
        &format!("{fault:?}"),
        explore(&faulty, Handler::new),
        symptom,
    );
}

fn assert_caught<T>(what: &str, outcome: Result<T, String>, symptom: &str) {
    let Err(violation) = outcome else {
        panic!("{what}: not caught");
    };
    assert!(
        violation.contains(symptom),
        "{what}: caught as something else: {violation}"
    );
}
