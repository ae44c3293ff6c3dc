// SPDX-License-Identifier: GPL-2.0

//! The model can fail: every deliberate defect, in the protocol or around it, is found.

use models::driver::completion::Handler;
use models::driver::suppress::Suppress::{self, Delayed, Loop, Off};
use models::explore::{explore, Cpu, Scenario};
use models::fault::Fault;
use models::mutants::{Bug, Mutant};
use models::virtqueue::{Format, Layout};

/// Three requests, of which the device completes one at a time.
fn scenario(mode: Suppress, event_idx: bool) -> Scenario {
    Scenario {
        layout: Layout {
            event_idx,
            ..Layout::default()
        },
        requests: 3,
        upfront: 3,
        modes: vec![mode],
        preemptions: Some(2),
        ..Scenario::default()
    }
}

/// Demands that `outcome` is a violation that says one of `symptoms`.
fn assert_caught<T>(what: &str, outcome: Result<T, String>, symptoms: &[&str]) {
    let Err(violation) = outcome else {
        panic!("{what}: not caught");
    };
    let known = symptoms.iter().any(|symptom| violation.contains(symptom));
    assert!(known, "{what}: caught as something else: {violation}");
}

fn assert_bug_caught(bug: Bug, scenario: &Scenario, symptom: &str) {
    let outcome = explore(scenario, || Mutant::new(Bug::None));
    assert!(
        outcome.is_ok(),
        "{bug:?}: the healthy copy fails: {:?}",
        outcome.err()
    );
    let outcome = explore(scenario, move || Mutant::new(bug));
    assert_caught(&format!("{bug:?}"), outcome, &[symptom]);
}

fn assert_fault_caught(fault: Fault, scenario: Scenario, symptom: &str) {
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
        &[symptom],
    );
}

#[test]
fn ignoring_the_recheck_loses_a_wakeup() {
    for event_idx in [false, true] {
        for mode in [Loop, Delayed] {
            let scenario = scenario(mode, event_idx);
            assert_bug_caught(Bug::RecheckIgnored, &scenario, "lost wakeup");
        }
        let scenario = scenario(Delayed, event_idx);
        assert_bug_caught(Bug::DelayedRecheckIgnored, &scenario, "lost wakeup");
    }
}

#[test]
fn disabling_after_the_drain_loses_a_wakeup() {
    // With EVENT_IDX the ring would hide it: after an interrupt it does not even try to disable.
    let scenario = scenario(Loop, false);
    assert_bug_caught(Bug::DisabledAfterDrain, &scenario, "lost wakeup");
}

#[test]
fn going_idle_with_callbacks_off_is_seen_at_once() {
    for event_idx in [false, true] {
        for mode in [Loop, Delayed] {
            let scenario = scenario(mode, event_idx);
            assert_bug_caught(Bug::NeverEnabled, &scenario, "callbacks on: false");
        }
        let switching = Scenario {
            modes: vec![Loop, Off],
            budget: 1,
            ..scenario(Loop, event_idx)
        };
        assert_bug_caught(Bug::ForgetsCallbacksOff, &switching, "callbacks on: false");
    }
}

#[test]
fn budgets_must_be_kept_and_continued() {
    for event_idx in [false, true] {
        let scenario = Scenario {
            budget: 2,
            ..scenario(Loop, event_idx)
        };
        assert_bug_caught(Bug::BudgetIgnored, &scenario, "over budget");
        assert_bug_caught(Bug::BudgetIsQuiescence, &scenario, "lost wakeup");
        assert_bug_caught(Bug::LosesBufferAtBudget, &scenario, "lost wakeup");
        assert_fault_caught(Fault::ContinuationForgotten, scenario, "lost wakeup");
    }
}

#[test]
fn order_and_number_of_completions_are_checked() {
    let scenario = scenario(Loop, true);
    assert_bug_caught(Bug::Reversed, &scenario, "another order");
    assert_fault_caught(Fault::DeviceRepeats, scenario, "double completion");
}

#[test]
fn a_poller_must_look_again_when_it_ends() {
    let scenario = Scenario {
        continuation: Cpu::Other,
        budget: 1,
        ..scenario(Loop, true)
    };
    assert_fault_caught(Fault::PollerDoesNotLookAgain, scenario, "lost wakeup");
}

#[test]
fn a_wakeup_lost_before_the_end_is_found() {
    let scenario = Scenario {
        requests: 3,
        upfront: 2,
        submitter: Cpu::Other,
        ..scenario(Loop, true)
    };
    assert_bug_caught(Bug::RecheckIgnored, &scenario, "lost wakeup");
}

/// The same in a ring of either format.
fn formats(scenario: Scenario) -> [Scenario; 2] {
    [Format::Split, Format::Packed].map(|format| Scenario {
        layout: Layout {
            format,
            ..scenario.layout
        },
        ..scenario.clone()
    })
}

/// In a packed ring, only a pass of another mode begins to ask for signals at certain buffers.
fn off_after_loop() -> Scenario {
    Scenario {
        modes: vec![Loop, Off],
        ..scenario(Off, true)
    }
}

#[test]
fn every_barrier_of_the_driver_is_needed() {
    for event_idx in [false, true] {
        for looping in formats(scenario(Loop, event_idx)) {
            assert_fault_caught(Fault::EnableWithoutFence, looping.clone(), "lost wakeup");
            assert_fault_caught(Fault::LookBeforeEnable, looping.clone(), "lost wakeup");
            let symptom = "Causality violation";
            assert_fault_caught(Fault::GetBufWithoutReadBarrier, looping, symptom);
        }
        for delayed in formats(scenario(Delayed, event_idx)) {
            assert_fault_caught(Fault::DelayedWithoutFence, delayed, "lost wakeup");
        }
    }
    for off in formats(off_after_loop()) {
        assert_fault_caught(Fault::RearmWithoutFence, off, "lost wakeup");
    }
}

#[test]
fn asking_for_the_wrong_signal_is_seen_at_once() {
    for delayed in formats(scenario(Delayed, true)) {
        assert_fault_caught(Fault::DelayedTooFar, delayed, "callbacks on: false");
    }
    for off in formats(off_after_loop()) {
        assert_fault_caught(Fault::GetBufDoesNotRearm, off, "callbacks on: false");
    }
}

#[test]
fn every_barrier_of_the_device_is_needed() {
    for event_idx in [false, true] {
        for mode in [Loop, Delayed] {
            for scenario in formats(scenario(mode, event_idx)) {
                assert_fault_caught(Fault::DeviceWithoutFence, scenario.clone(), "lost wakeup");
                let symptom = "Causality violation";
                assert_fault_caught(Fault::DeviceWithoutWriteBarrier, scenario, symptom);
            }
        }
    }
}

#[test]
fn an_interrupt_acknowledged_late_is_lost() {
    for event_idx in [false, true] {
        for mode in Suppress::ALL {
            let scenario = scenario(mode, event_idx);
            assert_fault_caught(Fault::LateAcknowledge, scenario, "lost wakeup");
        }
    }
}
