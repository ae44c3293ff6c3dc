// SPDX-License-Identifier: GPL-2.0

//! The decisions of the completion protocol in a single thread: how often it drains, how many
//! signals it costs, and when the next one comes.

mod common;

use common::random;
use models::driver::completion::{End, Pass, Plan, Rearm};
use models::driver::suppress::Suppress::{self, Delayed, Loop, Off};
use models::virtqueue::{Format, Layout};
use models::world::{Pace, World};
use proptest::prelude::*;

fn modes() -> impl Strategy<Value = Suppress> {
    prop::sample::select(Suppress::ALL.to_vec())
}

/// Rings of both formats, with and without EVENT_IDX, and with indices about to wrap.
fn rings() -> impl Strategy<Value = Layout> {
    let formats = prop::sample::select(vec![Format::Split, Format::Packed]);
    let starts = prop::sample::select(vec![0, u16::MAX - 100]);
    (formats, starts, any::<bool>()).prop_map(|(format, start, event_idx)| Layout {
        format,
        size: 256,
        start,
        event_idx,
        ..Layout::default()
    })
}

fn layout(event_idx: bool) -> Layout {
    Layout {
        size: 256,
        start: 1000,
        event_idx,
        ..Layout::default()
    }
}

/// A queue with `plan` on which callbacks have been enabled before: until then a packed ring asks
/// for a signal with every buffer, and cannot be kept from it after an interrupt.
fn used_world(layout: Layout, plan: Plan, pace: Pace, script: Vec<u8>) -> World {
    let mut world = World::new(layout, plan, pace, script);
    world.rescue();
    world
}

/// Handles an interrupt for the first of `count` requests.
fn first_interrupt(world: &mut World, count: u16) -> Pass {
    world.submit(count);
    world.host.complete(1);
    world
        .interrupt()
        .expect("the first completion is signalled")
}

proptest! {
    #![proptest_config(random(2000))]

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
        let mut world = World::new(layout(true), mode.plan(), Pace::AfterBuffer, counts);
        let pass = first_interrupt(&mut world, 256);
        let expected = if mode == Off { meets_empty } else { 0 };
        prop_assert_eq!(world.host.signals - 1, expected);
        let look = u32::from(mode == Off);
        prop_assert_eq!(pass.drains, 1 + look);
        prop_assert_eq!(pass.completions as usize, world.host.completed.len());
    }

    /// While requests are ended, the device signals for the first buffer of each round in mode
    /// off, and never in mode loop; either mode collects all in one visit.
    #[test]
    fn signals_while_requests_are_ended(
        disable in any::<bool>(),
        counts in prop::collection::vec(1..4u8, 0..20),
    ) {
        let rounds = counts.len() as u32;
        let all: u32 = counts.iter().map(|count| u32::from(*count)).sum();
        let mode = if disable { Loop } else { Off };
        let mut world = World::new(layout(true), mode.plan(), Pace::BetweenPasses, counts);
        let visit = first_interrupt(&mut world, 256);
        prop_assert_eq!(world.host.signals - 1, if disable { 0 } else { rounds });
        let look = u32::from(!disable);
        prop_assert_eq!((visit.completions, visit.drains), (1 + all, 1 + rounds + look));
        prop_assert_eq!(visit.end, End::Quiescent);
    }

    /// Where there is nothing to come back for, off does not; else it does.
    #[test]
    fn the_last_request_is_followed_by_no_pass(
        mode in modes(),
        layout in rings(),
        in_flight in 1..3u16,
    ) {
        let mut world = used_world(layout, mode.plan(), Pace::EveryStep, Vec::new());
        let visit = first_interrupt(&mut world, in_flight);
        let look = u32::from(in_flight > 1 && mode == Off);
        prop_assert_eq!((visit.completions, visit.drains), (1, 1 + look));
        prop_assert_eq!(visit.end, End::Quiescent);
    }

    /// Buffers that come after the ring was seen empty cost another drain, but no signal.
    #[test]
    fn late_buffers_cost_a_drain_and_no_signal(
        event_idx in any::<bool>(),
        counts in prop::collection::vec(1..4u8, 0..20),
    ) {
        let rounds = counts.len() as u32;
        let mut world = World::new(layout(event_idx), Loop.plan(), Pace::BeforeEnable, counts);
        let pass = first_interrupt(&mut world, 256);
        prop_assert_eq!(pass.drains, rounds + 1);
        prop_assert_eq!(pass.end, End::Quiescent);
        prop_assert_eq!(world.host.signals, 1);
    }

    /// In mode delayed, the device signals when more than three quarters of what is in flight is
    /// done; without EVENT_IDX there is nothing to say that with.
    #[test]
    fn delayed_waits_for_three_quarters(in_flight in 1..256u16, event_idx in any::<bool>()) {
        let mut world = World::new(layout(event_idx), Delayed.plan(), Pace::EveryStep, Vec::new());
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

    /// The signal comes with the very buffer that was asked for, whether buffers arrive before or
    /// after that; without EVENT_IDX and in a packed ring there is none.
    #[test]
    fn a_signal_ahead_comes_at_its_buffer(
        layout in rings(),
        in_flight in 1..256u16,
        count in prop_oneof![0..4u16, 0..300u16],
        early in prop::collection::vec(0..4u8, 0..3),
    ) {
        let counts = layout.format == Format::Split && layout.event_idx;
        let plan = Plan { disable: true, rearm: Rearm::Ahead(count) };
        let script = std::iter::once(0).chain(early.iter().copied()).collect();
        let mut world = used_world(layout, plan, Pace::BeforeEnable, script);
        let pass = first_interrupt(&mut world, in_flight);
        // What arrives before the look is taken at once if that are enough, or else waits.
        let mut waiting = 0;
        let mut left = in_flight - 1;
        let count = count.max(1);
        for most in early {
            let arrived = left.min(most.into());
            left -= arrived;
            if !counts || arrived < count {
                waiting = arrived;
                break;
            }
        }
        prop_assert_eq!((pass.end, world.unseen(), world.timer), (End::Late, waiting, true));
        prop_assert!(!world.host.pending);
        prop_assert_eq!(world.in_device(), left);
        let mut completions = 0;
        while !world.host.pending && world.in_device() > 0 {
            world.host.complete(1);
            completions += 1;
        }
        let in_reach = counts && count - waiting <= left;
        prop_assert_eq!(world.host.pending, in_reach);
        prop_assert_eq!(completions, if in_reach { count - waiting } else { left });
    }

    /// With the timer, any number of buffers costs no signal, until a pass finds nothing.
    #[test]
    fn the_timer_polls_until_it_finds_nothing(
        layout in rings(),
        disable in any::<bool>(),
        rounds in prop::collection::vec(1..20u8, 0..10),
    ) {
        let plan = Plan { disable, rearm: Rearm::Timer };
        let mut world = used_world(layout, plan, Pace::EveryStep, Vec::new());
        let mut pass = first_interrupt(&mut world, 256);
        for round in rounds {
            prop_assert_eq!(pass.end, End::Late);
            world.host.complete(round.into());
            pass = world.expire().expect("the timer is armed");
            prop_assert_eq!(pass.completions, u32::from(round));
        }
        // Callbacks that are on during a drain, after an interrupt, cannot be disabled any more.
        let most = if disable { 1 } else { 2 };
        prop_assert!((1..=most).contains(&world.host.signals));
        let signals = world.host.signals;
        pass = world.expire().expect("the timer is armed");
        prop_assert_eq!((pass.completions, pass.end, world.timer), (0, End::Quiescent, false));
        world.host.complete(1);
        prop_assert_eq!(world.host.signals, signals + 1, "the next one is signalled");
    }

    /// An urgent request has the next buffer signalled, or a pass run at once for those that are
    /// there; so have all passes while it is in flight.
    #[test]
    fn urgent_requests_wait_for_nothing(
        layout in rings(),
        disable in any::<bool>(),
        rearm in prop_oneof![Just(Rearm::Timer), (1..300u16).prop_map(Rearm::Ahead)],
        before in 0..20u8,
    ) {
        let mut world = World::new(layout, Plan { disable, rearm }, Pace::EveryStep, Vec::new());
        first_interrupt(&mut world, 100);
        world.host.complete(before.into());
        world.interrupt();
        world.submit_urgent();
        prop_assert_eq!(world.owed, world.unseen() > 0);
        world.proceed();
        while world.is_urgent() {
            prop_assert_eq!(world.unseen(), 0);
            world.host.complete(1);
            prop_assert!(world.host.pending, "the next one is signalled");
            world.interrupt();
        }
        world.submit(2);
        world.host.complete(1);
        let pass = world.interrupt().expect("callbacks are on");
        prop_assert_eq!(pass.end, End::Late, "afterwards they may wait again");
    }
}

#[test]
fn without_event_idx_off_signals_every_buffer() {
    for (mode, expected) in [(Off, 50), (Loop, 0), (Delayed, 0)] {
        let mut world = World::new(layout(false), mode.plan(), Pace::AfterBuffer, vec![1; 50]);
        first_interrupt(&mut world, 100);
        assert_eq!(world.host.signals - 1, expected, "{mode}");
    }
}

#[test]
fn a_spent_budget_is_continued_with_callbacks_off() {
    for &mode in Suppress::ALL {
        let mut world = World::new(layout(false), mode.plan(), Pace::AfterBuffer, vec![1; 9]);
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
    let mut world = World::new(layout(true), Delayed.plan(), Pace::BeforeEnable, vec![2]);
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
fn a_polled_queue_is_never_signalled() {
    let mut world = World::new(layout(false), Plan::POLL, Pace::AfterBuffer, vec![1; 20]);
    for round in 0..10 {
        world.timer = true;
        let pass = world.expire().expect("somebody polls");
        assert_eq!(pass.end, End::Late);
        assert_eq!(world.unseen(), 0, "round {round}");
        world.submit(5);
        world.host.complete(3);
    }
    assert_eq!(world.host.signals, 0);
}
