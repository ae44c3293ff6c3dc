// SPDX-License-Identifier: GPL-2.0

//! The completion protocol under loom: in no interleaving of driver and device is a wakeup lost, a
//! request completed twice or out of order, a budget exceeded, or the ring called quiescent with
//! callbacks off. `cargo test -p models -- --nocapture` shows how much was explored.

use models::driver::suppress::Suppress::{self, Delayed, Loop, Off};
use models::explore::{Cpu, Scenario};
use models::verdict::assert_holds;
use models::virtqueue::{Format, Layout};

const NO_BUDGET: u32 = u32::MAX;

/// All requests are there from the start, the device completes one at a time.
fn scenario(requests: u16, mode: Suppress, event_idx: bool, budget: u32) -> Scenario {
    Scenario {
        layout: Layout {
            event_idx,
            ..Layout::default()
        },
        requests,
        upfront: requests,
        plans: vec![mode.plan()],
        budget,
        preemptions: Some(2),
        ..Scenario::default()
    }
}

/// Every mode, with each of `budgets`, with and without EVENT_IDX.
fn settings(budgets: &[u32]) -> impl Iterator<Item = (Suppress, bool, u32)> {
    Suppress::ALL.iter().flat_map(move |&mode| {
        [false, true]
            .into_iter()
            .flat_map(move |event_idx| budgets.iter().map(move |budget| (mode, event_idx, *budget)))
    })
}

/// Every change from one mode to another, with and without EVENT_IDX.
fn changes() -> impl Iterator<Item = (Suppress, Suppress, bool)> {
    let modes = Suppress::ALL;
    modes.iter().flat_map(move |&from| {
        let others = modes.iter().filter(move |to| **to != from);
        others.flat_map(move |&to| [false, true].map(|event_idx| (from, to, event_idx)))
    })
}

fn assert_two_requests_hold(event_idx: bool) {
    let budgets = [
        (Off, 1),
        (Off, NO_BUDGET),
        (Loop, 1),
        (Loop, NO_BUDGET),
        (Delayed, NO_BUDGET),
    ];
    let scenarios = budgets.map(|(mode, budget)| Scenario {
        preemptions: None,
        ..scenario(2, mode, event_idx, budget)
    });
    let met = assert_holds(&format!("two requests, event_idx {event_idx}"), scenarios);
    assert!(
        met.repeats > 0
            && met.again_ends > met.rests
            && met.rests > 0
            && met.budget_ends > 0
            && met.empty_interrupts > 0,
        "{met:?}"
    );
}

#[test]
fn two_requests_by_flags_in_every_interleaving() {
    assert_two_requests_hold(false);
}

#[test]
fn two_requests_by_event_idx_in_every_interleaving() {
    assert_two_requests_hold(true);
}

fn packed(event_idx: bool, size: u16) -> Layout {
    Layout {
        format: Format::Packed,
        size,
        event_idx,
        ..Layout::default()
    }
}

#[test]
fn two_requests_in_a_packed_ring_in_every_interleaving() {
    let scenarios = settings(&[NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        layout: packed(event_idx, 4),
        preemptions: None,
        ..scenario(2, mode, event_idx, budget)
    });
    assert_holds("two requests, packed", scenarios);
}

#[test]
fn four_requests_in_packed_rings() {
    let scenarios = settings(&[1, NO_BUDGET]).flat_map(|(mode, event_idx, budget)| {
        [(4, 4), (2, 2)].map(|(size, upfront)| Scenario {
            layout: packed(event_idx, size),
            upfront,
            ..scenario(4, mode, event_idx, budget)
        })
    });
    assert_holds("four requests, packed", scenarios);
}

#[test]
fn three_requests_with_three_preemptions() {
    let scenarios = settings(&[2, NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        preemptions: Some(3),
        ..scenario(3, mode, event_idx, budget)
    });
    assert_holds("three requests", scenarios);
}

#[test]
fn four_requests_with_every_budget() {
    let budgets = [1, 2, 3, 4, NO_BUDGET];
    let scenarios =
        settings(&budgets).map(|(mode, event_idx, budget)| scenario(4, mode, event_idx, budget));
    assert_holds("four requests", scenarios);
}

#[test]
fn a_budget_of_zero_makes_progress() {
    let scenarios = settings(&[0]).map(|(mode, event_idx, _)| scenario(3, mode, event_idx, 0));
    let met = assert_holds("budget 0", scenarios);
    assert!(
        met.budget_ends >= met.executions * 3,
        "each completion ends a pass: {met:?}"
    );
}

#[test]
fn indices_that_wrap() {
    let starts = [u16::MAX, u16::MAX - 2];
    let scenarios = settings(&[2, NO_BUDGET]).flat_map(|(mode, event_idx, budget)| {
        starts.map(|start| Scenario {
            layout: Layout {
                start,
                event_idx,
                ..Layout::default()
            },
            ..scenario(4, mode, event_idx, budget)
        })
    });
    assert_holds("wrapping indices", scenarios);
}

#[test]
fn a_device_that_completes_out_of_order_and_signals_for_two() {
    let scenarios = settings(&[1, NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        batch: 2,
        reverse: true,
        ..scenario(4, mode, event_idx, budget)
    });
    assert_holds("batches of the device", scenarios);
}

#[test]
fn a_full_ring_that_is_refilled_after_each_pass() {
    let scenarios = settings(&[1, NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        layout: Layout {
            size: 2,
            event_idx,
            ..Layout::default()
        },
        upfront: 2,
        ..scenario(4, mode, event_idx, budget)
    });
    assert_holds("refilled ring", scenarios);
}

#[test]
fn requests_that_another_cpu_submits_meanwhile() {
    let scenarios = settings(&[NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        upfront: 2,
        submitter: Cpu::Other,
        ..scenario(3, mode, event_idx, budget)
    });
    assert_holds("concurrent submission", scenarios);
}

#[test]
fn a_mode_that_changes_from_pass_to_pass() {
    let scenarios = changes().flat_map(|(from, to, event_idx)| {
        [1, 2].map(|budget| Scenario {
            plans: vec![from.plan(), to.plan()],
            ..scenario(4, from, event_idx, budget)
        })
    });
    assert_holds("alternating modes", scenarios);
}

#[test]
fn a_mode_that_another_cpu_changes() {
    let scenarios = changes().map(|(from, to, event_idx)| Scenario {
        switch_to: Some(to.plan()),
        ..scenario(3, from, event_idx, NO_BUDGET)
    });
    assert_holds("concurrent change of mode", scenarios);
}

#[test]
fn a_pass_without_an_interrupt_on_another_cpu() {
    let scenarios = settings(&[NO_BUDGET]).map(|(mode, event_idx, budget)| Scenario {
        rescue: true,
        ..scenario(2, mode, event_idx, budget)
    });
    assert_holds("rescue", scenarios);
}

#[test]
fn a_poller_on_another_cpu_goes_on() {
    let scenarios = settings(&[1]).map(|(mode, event_idx, budget)| Scenario {
        continuation: Cpu::Other,
        ..scenario(3, mode, event_idx, budget)
    });
    let met = assert_holds("poller", scenarios);
    assert!(met.budget_ends > 0, "{met:?}");
}
