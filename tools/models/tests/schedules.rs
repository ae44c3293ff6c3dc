// SPDX-License-Identifier: GPL-2.0

//! The completion protocol under long random schedules in a single thread, and its decisions: how
//! often it drains, and how many signals it costs.

use models::driver::completion::{End, Pass};
use models::driver::suppress::Suppress::{self, Delayed, Loop, Off};
use models::fault::Fault;
use models::virtqueue::{Format, Layout};
use models::world::{Pace, World};
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

#[derive(Clone, Debug)]
enum Step {
    Submit(u16),
    Complete(u8),
    Interrupt,
    Proceed,
    Rescue,
    Mode(Suppress),
    Budget(u32),
}

fn modes() -> impl Strategy<Value = Suppress> {
    prop::sample::select(Suppress::ALL.to_vec())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..20u16).prop_map(Step::Submit),
        4 => (0..20u8).prop_map(Step::Complete),
        4 => Just(Step::Interrupt),
        2 => Just(Step::Proceed),
        1 => Just(Step::Rescue),
        1 => modes().prop_map(Step::Mode),
        1 => prop_oneof![0..8u32, 0..300u32, Just(u32::MAX)].prop_map(Step::Budget),
    ];
    prop::collection::vec(step, 1..300)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let sizes = prop::sample::select(vec![1, 2, 4, 16, 256]);
    let starts = prop_oneof![Just(0), any::<u16>(), u16::MAX - 300..=u16::MAX];
    let formats = prop::sample::select(vec![Format::Split, Format::Packed]);
    (formats, sizes, starts, any::<bool>()).prop_map(|(format, size, start, event_idx)| Layout {
        format,
        size,
        start,
        event_idx,
    })
}

/// A schedule from the first request to the last.
#[derive(Clone, Debug)]
struct Schedule {
    layout: Layout,
    mode: Suppress,
    newest_first: bool,
    script: Vec<u8>,
    steps: Vec<Step>,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let counts = prop_oneof![3 => Just(0), 1 => 1..4u8];
    let scripts = prop::collection::vec(counts, 0..2000);
    (layouts(), modes(), any::<bool>(), scripts, steps()).prop_map(
        |(layout, mode, newest_first, script, steps)| Schedule {
            layout,
            mode,
            newest_first,
            script,
            steps,
        },
    )
}

/// Runs a schedule. Whenever nothing is pending or owed, nothing is unseen that no signal will come
/// for; and at the end everything was seen once, in the device's order.
fn run(schedule: Schedule, fault: Option<Fault>) -> Result<(), TestCaseError> {
    let Schedule {
        layout,
        mode: mut last_mode,
        newest_first,
        script,
        steps,
    } = schedule;
    let mut world = World::with_fault(layout, last_mode, Pace::EveryStep, script, fault);
    world.host.newest_first = newest_first;
    for step in steps {
        let mut pass = None;
        match step {
            Step::Submit(count) => world.submit(count),
            Step::Complete(count) => world.host.complete(count.into()),
            Step::Interrupt => pass = world.interrupt(),
            Step::Proceed => pass = world.proceed(),
            Step::Rescue => pass = Some(world.rescue()),
            Step::Mode(mode) => world.mode = mode,
            Step::Budget(budget) => world.budget = budget,
        }
        if let Some(pass) = pass {
            assert_pass_is_sane(pass, world.budget);
            // A pass in mode off that finds nothing asks for nothing: the wish before still stands.
            if world.mode != Off || pass.completions > 0 {
                last_mode = world.mode;
            }
        }
        if !world.host.pending && !world.owed {
            prop_assert!(world.unseen() == 0 || last_mode == Delayed);
            prop_assert!(world.unseen() == 0 || world.signal_is_coming());
            prop_assert!(world.in_device() == 0 || world.signal_is_coming());
        }
    }
    world.settle();
    prop_assert_eq!(&world.seen, &world.host.completed);
    let mut sorted = world.seen.clone();
    sorted.sort_unstable();
    sorted.dedup();
    prop_assert_eq!(sorted.len(), world.seen.len());
    Ok(())
}

fn layout(event_idx: bool) -> Layout {
    Layout {
        size: 256,
        start: 1000,
        event_idx,
        ..Layout::default()
    }
}

/// Handles an interrupt for the first of `count` requests.
fn first_interrupt(world: &mut World, count: u16) -> Pass {
    world.submit(count);
    world.host.complete(1);
    world
        .interrupt()
        .expect("the first completion is signalled")
}

fn assert_pass_is_sane(pass: Pass, budget: u32) {
    assert!(
        pass.completions <= budget.max(1),
        "{pass:?}, budget {budget}"
    );
    assert!(pass.drains <= pass.completions + 1, "{pass:?}");
    assert!(
        pass.end == End::Quiescent || pass.completions == budget.max(1),
        "{pass:?}"
    );
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_schedules_lose_nothing(schedule in schedules()) {
        run(schedule, None)?;
    }

    /// While the handler runs, the device signals for every buffer that meets an empty ring in mode
    /// off, and never in the other modes.
    #[test]
    fn signals_while_the_handler_runs(
        mode in modes(),
        counts in prop::collection::vec(0..3u8, 0..60),
    ) {
        let mut unseen = 1u8;
        let mut meets_empty = 0;
        for count in counts.iter().chain(std::iter::repeat(&0)) {
            unseen -= 1;
            for _ in 0..*count {
                meets_empty += u32::from(unseen == 0);
                unseen += 1;
            }
            if unseen == 0 {
                break;
            }
        }
        let mut world = World::new(layout(true), mode, Pace::AfterBuffer, counts);
        let pass = first_interrupt(&mut world, 256);
        let expected = if mode == Off { meets_empty } else { 0 };
        prop_assert_eq!(world.host.signals - 1, expected);
        prop_assert_eq!(pass.drains, 1);
        prop_assert_eq!(pass.completions as usize, world.host.completed.len());
    }

    /// Buffers that come after the ring was seen empty cost another drain, but no signal.
    #[test]
    fn late_buffers_cost_a_drain_and_no_signal(
        event_idx in any::<bool>(),
        counts in prop::collection::vec(1..4u8, 0..20),
    ) {
        let rounds = counts.len() as u32;
        let mut world = World::new(layout(event_idx), Loop, Pace::BeforeEnable, counts);
        let pass = first_interrupt(&mut world, 256);
        prop_assert_eq!(pass.drains, rounds + 1);
        prop_assert_eq!(pass.end, End::Quiescent);
        prop_assert_eq!(world.host.signals, 1);
    }

    /// In mode delayed, the device signals when more than three quarters of what is in flight is
    /// done; without EVENT_IDX there is nothing to say that with.
    #[test]
    fn delayed_waits_for_three_quarters(in_flight in 1..256u16, event_idx in any::<bool>()) {
        let mut world = World::new(layout(event_idx), Delayed, Pace::EveryStep, Vec::new());
        first_interrupt(&mut world, in_flight + 1);
        prop_assert_eq!(world.in_device(), in_flight);
        let mut completions = 0;
        while !world.host.pending {
            world.host.complete(1);
            completions += 1;
        }
        let expected = if event_idx { in_flight * 3 / 4 + 1 } else { 1 };
        prop_assert_eq!(completions, expected);
        prop_assert!(completions <= in_flight, "the last one in flight is signalled at the latest");
    }
}

#[test]
fn without_event_idx_off_signals_every_buffer() {
    for (mode, expected) in [(Off, 50), (Loop, 0), (Delayed, 0)] {
        let mut world = World::new(layout(false), mode, Pace::AfterBuffer, vec![1; 50]);
        first_interrupt(&mut world, 100);
        assert_eq!(world.host.signals - 1, expected, "{mode}");
    }
}

#[test]
fn a_spent_budget_is_continued_with_callbacks_off() {
    for mode in Suppress::ALL {
        let mut world = World::new(layout(false), mode, Pace::AfterBuffer, vec![1; 9]);
        world.budget = 4;
        let pass = first_interrupt(&mut world, 100);
        assert_eq!((pass.end, pass.completions), (End::Budget, 4), "{mode}");
        let signals = world.host.signals;
        world.host.complete(3);
        assert_eq!(world.host.signals, signals, "{mode}: callbacks are off");
        world.budget = 100;
        let pass = world.proceed().expect("a pass is owed");
        assert_eq!(pass.end, End::Quiescent, "{mode}");
        assert_eq!(world.unseen(), 0, "{mode}");
    }
}

#[test]
fn delayed_leaves_early_buffers_for_the_signal_that_comes() {
    // Two buffers arrive after the ring was seen empty: fewer than asked for, so they wait.
    let mut world = World::new(layout(true), Delayed, Pace::BeforeEnable, vec![2]);
    let pass = first_interrupt(&mut world, 9);
    assert_eq!(
        (pass.drains, pass.end, world.unseen()),
        (1, End::Quiescent, 2)
    );
    assert!(world.signal_is_coming());
    world.settle();
    assert_eq!(world.seen, world.host.completed);
}

#[test]
fn broken_rings_are_noticed() {
    for fault in [
        Fault::GetBufDoesNotRearm,
        Fault::DelayedTooFar,
        Fault::DeviceRepeats,
    ] {
        let broken = |schedule| run(schedule, Some(fault));
        let unshrunk = ProptestConfig {
            max_shrink_iters: 0,
            ..config()
        };
        let outcome = TestRunner::new(unshrunk).run(&schedules(), broken);
        assert!(
            matches!(outcome, Err(TestError::Fail(..))),
            "{fault:?}: {outcome:?}"
        );
    }
}
