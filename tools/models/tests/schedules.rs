// SPDX-License-Identifier: GPL-2.0

//! The completion protocol under long random schedules in a single thread, with plans that change
//! at any time, arbitrary ones and those that the driver makes of its settings.

mod common;

use common::random;
use models::driver::coalesce::{Coalesce, Method};
use models::driver::completion::{End, Pass, Plan, Rearm};
use models::driver::suppress::Suppress;
use models::fault::Fault;
use models::virtqueue::{Format, Hint, Layout, Wish};
use models::world::{Choice, Pace, World};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

#[derive(Clone, Debug)]
enum Step {
    Submit(u16),
    SubmitUrgent,
    Complete(u8),
    Interrupt,
    Proceed,
    Expire,
    Rescue,
    Choose(Choice),
    Budget(u32),
}

fn plans() -> impl Strategy<Value = Plan> {
    let rearm = prop_oneof![
        Just(Rearm::Next),
        Just(Rearm::Quiescent),
        Just(Rearm::Delayed),
        Just(Rearm::Timer),
        prop_oneof![0..4u16, 0..300u16, Just(u16::MAX)].prop_map(Rearm::Ahead),
    ];
    (any::<bool>(), rearm).prop_map(|(disable, rearm)| Plan { disable, rearm })
}

fn settings() -> impl Strategy<Value = (Suppress, Coalesce)> {
    let reqs = prop_oneof![0..5u32, 0..300u32];
    let modes = prop::sample::select(Suppress::ALL.to_vec());
    let methods = prop::sample::select(Method::ALL.to_vec());
    let usecs = prop_oneof![Just(0), 1..2000u32];
    (modes, usecs, reqs, methods, 0..20u32, any::<bool>()).prop_map(
        |(suppress, usecs, reqs, method, min_in_flight, adaptive)| {
            let coalesce = Coalesce {
                usecs,
                reqs,
                method,
                min_in_flight,
                adaptive,
            };
            (suppress, coalesce)
        },
    )
}

fn choices() -> impl Strategy<Value = Choice> {
    let settings = settings().prop_map(|(suppress, coalesce)| Choice::Settings(suppress, coalesce));
    prop_oneof![plans().prop_map(Choice::Plan), settings]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..20u16).prop_map(Step::Submit),
        1 => Just(Step::SubmitUrgent),
        4 => (0..20u8).prop_map(Step::Complete),
        4 => Just(Step::Interrupt),
        2 => Just(Step::Proceed),
        2 => Just(Step::Expire),
        1 => Just(Step::Rescue),
        2 => choices().prop_map(Step::Choose),
        1 => prop_oneof![0..8u32, 0..300u32, Just(u32::MAX)].prop_map(Step::Budget),
    ];
    prop::collection::vec(step, 1..300)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let sizes = prop::sample::select(vec![1, 2, 4, 16, 256]);
    let starts = prop_oneof![Just(0), any::<u16>(), u16::MAX - 300..=u16::MAX];
    let formats = prop::sample::select(vec![Format::Split, Format::Packed]);
    let hints = prop::sample::select(vec![Hint::Core, Hint::Avail, Hint::Behind]);
    (formats, sizes, starts, any::<bool>(), hints).prop_map(
        |(format, size, start, event_idx, hint)| Layout {
            format,
            size,
            start,
            event_idx,
            hint,
        },
    )
}

/// A schedule from the first request to the last.
#[derive(Clone, Debug)]
struct Schedule {
    layout: Layout,
    choice: Choice,
    newest_first: bool,
    script: Vec<u8>,
    steps: Vec<Step>,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let counts = prop_oneof![3 => Just(0), 1 => 1..4u8];
    let scripts = prop::collection::vec(counts, 0..2000);
    (layouts(), choices(), any::<bool>(), scripts, steps()).prop_map(
        |(layout, choice, newest_first, script, steps)| Schedule {
            layout,
            choice,
            newest_first,
            script,
            steps,
        },
    )
}

/// Runs a schedule. Whenever nothing is pending or owed, nothing waits for ever; and at the end
/// everything was seen once, in the device's order.
fn run(schedule: Schedule, fault: Option<Fault>) -> Result<(), TestCaseError> {
    let Schedule {
        layout,
        choice,
        newest_first,
        script,
        steps,
    } = schedule;
    let mut world = World::with_fault(layout, choice, Pace::EveryStep, script, fault);
    world.host.newest_first = newest_first;
    for step in steps {
        let mut pass = None;
        match step {
            Step::Submit(count) => world.submit(count),
            Step::SubmitUrgent => world.submit_urgent(),
            Step::Complete(count) => world.host.complete(count.into()),
            Step::Interrupt => pass = world.interrupt(),
            Step::Proceed => pass = world.proceed(),
            Step::Expire => pass = world.expire(),
            Step::Rescue => pass = Some(world.rescue()),
            Step::Choose(choice) => world.choice = choice,
            Step::Budget(budget) => world.budget = budget,
        }
        if let Some(pass) = pass {
            assert_pass_is_sane(pass, world.budget);
        }
        if !world.host.pending && !world.owed {
            nothing_waits_for_ever(&world)?;
        }
    }
    let in_vain = world.settle();
    prop_assert!(in_vain <= 1, "{} timers ran out for nothing", in_vain);
    prop_assert!(!world.is_urgent() && world.in_device() == 0);
    prop_assert!(matches!(world.wish(), Wish::Every | Wish::At(_)));
    prop_assert_eq!(&world.seen, &world.host.completed);
    let mut sorted = world.seen.clone();
    sorted.sort_unstable();
    sorted.dedup();
    prop_assert_eq!(sorted.len(), world.seen.len());
    Ok(())
}

/// What holds whenever the handler is idle.
fn nothing_waits_for_ever(world: &World) -> Result<(), TestCaseError> {
    let (plan, end) = world.last;
    let (unseen, in_device) = (world.unseen(), world.in_device());
    if end == End::Late {
        prop_assert!(world.timer, "late without a timer");
        prop_assert!(!world.is_urgent(), "an urgent request waits for the timer");
        if let Wish::Ahead(distance) = world.wish() {
            prop_assert!(
                unseen <= distance,
                "what was asked for is there, but no signal"
            );
        }
        return Ok(());
    }
    prop_assert_eq!(end, End::Quiescent);
    prop_assert!(unseen + in_device == 0 || world.signal_is_coming());
    if plan.rearm != Rearm::Delayed {
        prop_assert_eq!(unseen, 0);
        let next = matches!(world.wish(), Wish::Every | Wish::At(0));
        prop_assert!(next, "{:?} instead of the next", world.wish());
    }
    Ok(())
}

fn assert_pass_is_sane(pass: Pass, budget: u32) {
    assert!(
        pass.completions <= budget.max(1),
        "{pass:?}, budget {budget}"
    );
    assert!(pass.drains <= 2 * pass.completions + 1, "{pass:?}");
    match pass.end {
        End::Again => panic!("a visit is not at its end: {pass:?}"),
        End::Quiescent => {}
        End::Late => assert!(pass.completions > 0, "{pass:?}"),
        End::Budget => assert_eq!(pass.completions, budget.max(1), "{pass:?}"),
    }
}

proptest! {
    #![proptest_config(random(2000))]

    #[test]
    fn random_schedules_lose_nothing(schedule in schedules()) {
        run(schedule, None)?;
    }
}

#[test]
fn broken_rings_are_noticed() {
    for fault in [
        Fault::GetBufDoesNotRearm,
        Fault::DelayedTooFar,
        Fault::AheadTooFar,
        Fault::DeviceRepeats,
    ] {
        let broken = |schedule| run(schedule, Some(fault));
        let unshrunk = ProptestConfig {
            max_shrink_iters: 0,
            ..random(2000)
        };
        let outcome = TestRunner::new(unshrunk).run(&schedules(), broken);
        assert!(
            matches!(outcome, Err(TestError::Fail(..))),
            "{fault:?}: {outcome:?}"
        );
    }
}
