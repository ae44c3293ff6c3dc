// SPDX-License-Identifier: GPL-2.0

//! The model can fail: every deliberate defect, in the protocol or around it, is found.

use models::driver::completion::{Plan, Rearm};
use models::driver::suppress::Suppress::{self, Delayed, Loop, Off};
use models::explore::{Cpu, Scenario, Timer};
use models::fault::Fault;
use models::mutants::Bug;
use models::verdict::{assert_bug_caught, assert_fault_caught};
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
        plans: vec![mode.plan()],
        preemptions: Some(2),
        ..Scenario::default()
    }
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
            plans: vec![Loop.plan(), Off.plan()],
            budget: 1,
            ..scenario(Loop, event_idx)
        };
        assert_bug_caught(Bug::ForgetsCallbacksOff, &switching, "callbacks on: false");
    }
}

#[test]
fn a_visit_goes_on_until_nothing_is_found() {
    for scenario in rings(scenario(Loop, true)) {
        assert_fault_caught(Fault::VisitEndsEarly, scenario.clone(), "lost wakeup");
        assert_bug_caught(Bug::AgainIsQuiescence, &scenario, "callbacks on: false");
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

/// In a packed ring, only a pass of another mode begins to ask for signals at certain buffers. Then
/// nothing is looked at once more.
fn off_after_loop() -> Scenario {
    let off = Plan {
        rearm: Rearm::Next,
        ..Off.plan()
    };
    Scenario {
        plans: vec![Loop.plan(), off],
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
        for &mode in Suppress::ALL {
            let scenario = scenario(mode, event_idx);
            assert_fault_caught(Fault::LateAcknowledge, scenario, "lost wakeup");
        }
    }
}

/// A scenario whose signals wait, on a ring that can count. No timer runs out.
fn waiting(rearm: Rearm) -> Scenario {
    Scenario {
        plans: vec![Plan {
            disable: true,
            rearm,
        }],
        ..scenario(Loop, true)
    }
}

/// The same with a timer.
fn timed(rearm: Rearm) -> Scenario {
    Scenario {
        timer: Timer::RunsOut,
        requests: 2,
        upfront: 2,
        ..waiting(rearm)
    }
}

/// The last of three requests is urgent, and submitted by another CPU. No timer runs out.
fn urgent(rearm: Rearm) -> Scenario {
    Scenario {
        urgent: 2,
        upfront: 2,
        submitter: Cpu::Other,
        ..waiting(rearm)
    }
}

/// The same on the rings that can be silenced from the start. A packed ring with EVENT_IDX cannot,
/// after an interrupt, before callbacks have been enabled once.
fn rings(scenario: Scenario) -> Vec<Scenario> {
    let flags = |format| Scenario {
        layout: Layout {
            format,
            event_idx: false,
            ..scenario.layout
        },
        ..scenario.clone()
    };
    vec![
        scenario.clone(),
        flags(Format::Split),
        flags(Format::Packed),
    ]
}

#[test]
fn a_signal_ahead_must_be_asked_for_as_carefully_as_any() {
    let next = waiting(Rearm::Ahead(1));
    assert_bug_caught(Bug::AheadRecheckIgnored, &next, "lost wakeup");
    assert_fault_caught(Fault::AheadWithoutFence, next.clone(), "lost wakeup");
    assert_fault_caught(Fault::AheadLooksOneTooFar, next, "lost wakeup");
    for count in [1, 2] {
        let timed = timed(Rearm::Ahead(count));
        assert_bug_caught(Bug::AheadTooFar, &timed, "another wish");
        assert_fault_caught(Fault::AheadTooFar, timed, "another wish");
    }
}

#[test]
fn the_timer_must_be_armed_and_come_to_rest() {
    for rearm in [Rearm::Timer, Rearm::Ahead(2)] {
        for timed in rings(timed(rearm)) {
            assert_fault_caught(Fault::TimerForgotten, timed.clone(), "lost wakeup");
            assert_bug_caught(Bug::LateForNothing, &timed, "late for nothing");
        }
        // One request after the other, so that each interrupt is on its own.
        let single = Scenario {
            layout: Layout {
                size: 1,
                ..Layout::default()
            },
            requests: 3,
            upfront: 1,
            ..timed(rearm)
        };
        assert_fault_caught(Fault::TimerStartedMeanwhileIsLost, single, "lost wakeup");
    }
}

#[test]
fn late_is_neither_on_nor_off() {
    for rearm in [Rearm::Timer, Rearm::Ahead(2)] {
        let mut timed = timed(rearm);
        for plan in &mut timed.plans {
            plan.disable = false;
        }
        assert_bug_caught(Bug::LateIsOn, &timed, "callbacks on: false");
    }
    for mut timed in formats(timed(Rearm::Timer)) {
        timed.plans[0].disable = false;
        assert_bug_caught(Bug::LateWithCallbacksOn, &timed, "callbacks on: true");
    }
}

#[test]
fn urgent_requests_must_be_cared_for() {
    for urgent in [Rearm::Timer, Rearm::Ahead(3)]
        .map(urgent)
        .into_iter()
        .flat_map(rings)
    {
        assert_bug_caught(Bug::NeverHastens, &urgent, "lost wakeup");
        assert_bug_caught(Bug::HastenRecheckIgnored, &urgent, "lost wakeup");
        let symptom = "lost wakeup";
        assert_fault_caught(Fault::HastenedPassForgotten, urgent.clone(), symptom);
        assert_fault_caught(Fault::UrgentWaits, urgent, symptom);
    }
}
