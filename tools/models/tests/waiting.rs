// SPDX-License-Identifier: GPL-2.0

//! The completion protocol under loom where signals wait: none is asked for, or one some buffers
//! ahead, and a timer bounds the wait. In no interleaving does a request wait for ever, or an
//! urgent one for the timer; and the timer comes to rest. See protocol.rs for the rest.

use models::driver::completion::{Plan, Rearm};
use models::driver::suppress::Suppress;
use models::explore::{Cpu, Scenario, Timer};
use models::verdict::assert_holds;
use models::virtqueue::{Format, Hint, Layout};

const NO_BUDGET: u32 = u32::MAX;

const fn plan(rearm: Rearm) -> Plan {
    Plan {
        disable: true,
        rearm,
    }
}

/// Callbacks stay on while the first interrupt drains the ring.
const fn plan_of_off(rearm: Rearm) -> Plan {
    Plan {
        disable: false,
        rearm,
    }
}

/// All requests are there from the start, the device completes one at a time.
fn scenario(requests: u16, plan: Plan, layout: Layout) -> Scenario {
    Scenario {
        layout,
        requests,
        upfront: requests,
        plans: vec![plan],
        timer: Timer::RunsOut,
        preemptions: Some(2),
        ..Scenario::default()
    }
}

/// Rings of both formats, with and without EVENT_IDX.
fn layouts() -> [Layout; 4] {
    let layout = |format, event_idx| Layout {
        format,
        event_idx,
        ..Layout::default()
    };
    [
        layout(Format::Split, true),
        layout(Format::Split, false),
        layout(Format::Packed, true),
        layout(Format::Packed, false),
    ]
}

/// The ring that can count.
fn counting() -> Layout {
    layouts()[0]
}

/// What asks for a late signal, with each ring on which it is something of its own.
fn lazy() -> impl Iterator<Item = (Plan, Layout)> {
    let rearms = [Rearm::Timer, Rearm::Ahead(1), Rearm::Ahead(2)];
    rearms.into_iter().flat_map(|rearm| {
        let rings = layouts().into_iter();
        let rings = rings.filter(move |layout| rearm == Rearm::Timer || layout.event_idx);
        let rings =
            rings.filter(move |layout| rearm == Rearm::Timer || layout.format == Format::Split);
        rings.flat_map(move |layout| [plan(rearm), plan_of_off(rearm)].map(|plan| (plan, layout)))
    })
}

#[test]
fn two_requests() {
    let scenarios = lazy().map(|(plan, layout)| scenario(2, plan, layout));
    let met = assert_holds("two requests", scenarios);
    assert!(met.timer_completions > 0, "{met:?}");
    assert!(met.timer_fires > met.late_ends / 2, "{met:?}");
}

#[test]
fn three_requests_with_budgets() {
    let scenarios = lazy().filter(|(plan, _)| plan.disable);
    let scenarios = scenarios.flat_map(|(plan, layout)| {
        [2, NO_BUDGET].map(|budget| Scenario {
            budget,
            ..scenario(3, plan, layout)
        })
    });
    let met = assert_holds("three requests", scenarios);
    assert!(met.late_ends > 0 && met.budget_ends > 0, "{met:?}");
}

#[test]
fn hints_while_callbacks_are_off() {
    let rearms = [Rearm::Next, Rearm::Quiescent, Rearm::Timer, Rearm::Ahead(2)];
    let scenarios = rearms.into_iter().flat_map(|rearm| {
        [Hint::Avail, Hint::Behind].map(|hint| {
            let layout = Layout { hint, ..counting() };
            scenario(2, plan(rearm), layout)
        })
    });
    assert_holds("hints", scenarios);
}

/// What is asked for ahead and is in flight needs no timer.
#[test]
fn a_signal_that_was_asked_for_comes_without_the_timer() {
    let starts = [0, u16::MAX, u16::MAX - 1];
    let scenarios = starts.into_iter().flat_map(|start| {
        [plan, plan_of_off].map(|plan| Scenario {
            timer: Timer::Never,
            preemptions: Some(3),
            ..scenario(
                3,
                plan(Rearm::Ahead(1)),
                Layout {
                    start,
                    ..counting()
                },
            )
        })
    });
    let met = assert_holds("no timer", scenarios);
    assert!(met.late_ends > 0 && met.repeats > 0, "{met:?}");
}

#[test]
fn a_device_that_completes_out_of_order_and_signals_for_two() {
    let scenarios = lazy().map(|(plan, layout)| Scenario {
        batch: 2,
        reverse: true,
        preemptions: Some(1),
        ..scenario(4, plan, layout)
    });
    assert_holds("batches of the device", scenarios);
}

#[test]
fn a_full_ring_that_is_refilled_after_each_pass() {
    let scenarios = lazy().map(|(plan, layout)| Scenario {
        upfront: 2,
        preemptions: Some(1),
        ..scenario(4, plan, Layout { size: 2, ..layout })
    });
    assert_holds("refilled ring", scenarios);
}

/// Every change between two ways to wait, or from or to a way not to.
fn changes() -> impl Iterator<Item = (Plan, Plan)> {
    let lazy = [Rearm::Timer, Rearm::Ahead(2)].map(plan);
    let others = Suppress::ALL.iter().map(|suppress| suppress.plan());
    let others: Vec<_> = others.chain(lazy).collect();
    lazy.into_iter().flat_map(move |lazy| {
        let others = others
            .clone()
            .into_iter()
            .filter(move |other| *other != lazy);
        others.flat_map(move |other| [(lazy, other), (other, lazy)])
    })
}

#[test]
fn a_plan_that_changes_from_pass_to_pass() {
    let scenarios = changes().flat_map(|(from, to)| {
        layouts().map(|layout| Scenario {
            plans: vec![from, to],
            budget: 2,
            preemptions: Some(1),
            ..scenario(3, from, layout)
        })
    });
    assert_holds("alternating plans", scenarios);
}

#[test]
fn a_plan_that_another_cpu_changes() {
    let scenarios = changes().map(|(from, to)| Scenario {
        switch_to: Some(to),
        preemptions: Some(1),
        ..scenario(2, from, counting())
    });
    assert_holds("concurrent change of plan", scenarios);
}

/// Another CPU submits the last of three requests, which is urgent. No timer runs out.
fn urgent(plan: Plan, layout: Layout) -> Scenario {
    Scenario {
        upfront: 2,
        submitter: Cpu::Other,
        urgent: 2,
        timer: Timer::Never,
        ..scenario(3, plan, layout)
    }
}

#[test]
fn an_urgent_request_does_not_wait_for_the_timer() {
    // The two before it may wait, so the device completes them together.
    let scenarios = lazy().map(|(plan, layout)| urgent(plan, layout));
    let met = assert_holds("urgent", scenarios);
    assert!(met.hastened > 0, "{met:?}");
}

#[test]
fn an_urgent_request_may_meet_the_timer() {
    let scenarios = lazy().map(|(plan, layout)| Scenario {
        upfront: 1,
        requests: 2,
        urgent: 1,
        timer: Timer::RunsOut,
        preemptions: Some(1),
        ..urgent(plan, layout)
    });
    let met = assert_holds("urgent and timer", scenarios);
    assert!(met.hastened > 0 && met.timer_fires > 0, "{met:?}");
}

#[test]
fn urgent_requests_only() {
    let scenarios = lazy().map(|(plan, layout)| Scenario {
        urgent: 0,
        timer: Timer::Never,
        ..scenario(3, plan, layout)
    });
    let met = assert_holds("urgent only", scenarios);
    assert_eq!(met.late_ends, 0);
}

#[test]
fn a_pass_without_an_interrupt_on_another_cpu() {
    let scenarios = lazy().map(|(plan, layout)| Scenario {
        rescue: true,
        preemptions: Some(1),
        ..scenario(2, plan, layout)
    });
    assert_holds("rescue", scenarios);
}

#[test]
fn a_poller_on_another_cpu_goes_on() {
    let plans = [Rearm::Timer, Rearm::Ahead(2)].map(plan);
    let scenarios = plans.into_iter().map(|plan| Scenario {
        continuation: Cpu::Other,
        budget: 2,
        preemptions: Some(1),
        ..scenario(3, plan, counting())
    });
    let met = assert_holds("poller", scenarios);
    assert!(met.budget_ends > 0 && met.late_ends > 0, "{met:?}");
}
