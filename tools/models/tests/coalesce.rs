// SPDX-License-Identifier: GPL-2.0

//! The coalescing policy: its bounds, its hysteresis, and how soon it follows the load.

mod common;

use common::random;
use models::driver::coalesce::{
    Coalesce, Found, Load, Method, Policy, Wait, ADAPTIVE_USECS, FALL_USECS, MIN_USECS,
};
use models::driver::completion::Rearm;
use models::driver::suppress::Suppress;
use proptest::prelude::*;

/// The largest ring that is usual.
const RING: u32 = 1024;

/// Within how much time the policy follows a step of the load, in microseconds.
const SETTLED: u64 = 100_000;

fn settings() -> impl Strategy<Value = Coalesce> {
    let usecs = prop_oneof![Just(0), 1..30u32, 30..3000u32, 0..=100_000u32];
    let reqs = prop_oneof![Just(0), 1..300u32, 0..=32768u32];
    let methods = prop::sample::select(Method::ALL.to_vec());
    let min = prop_oneof![Just(8), 0..300u32, 0..=32768u32];
    (usecs, reqs, methods, min, any::<bool>()).prop_map(
        |(usecs, reqs, method, min_in_flight, adaptive)| Coalesce {
            usecs,
            reqs,
            method,
            min_in_flight,
            adaptive,
        },
    )
}

fn modes() -> impl Strategy<Value = Suppress> {
    prop::sample::select(Suppress::ALL.to_vec())
}

/// What a pass meets and finds.
#[derive(Clone, Copy, Debug)]
struct Event {
    load: Load,
    completions: u32,
    idle: bool,
}

/// Passes on a ring of up to `most` requests, as they may come.
fn events(most: u32) -> impl Strategy<Value = Vec<Event>> {
    let in_flight = prop_oneof![0..=most.min(10), 0..=most];
    let urgent = prop::bool::weighted(0.1);
    let event = (
        in_flight,
        urgent,
        any::<bool>(),
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(|(in_flight, urgent, signalled, completions, idle)| Event {
            load: Load {
                in_flight,
                urgent,
                signalled,
            },
            completions: completions % (in_flight + 1),
            idle,
        });
    prop::collection::vec(event, 0..200)
}

/// Runs a pass, and returns how long the next signal may wait.
fn pass(policy: &mut Policy, settings: &Coalesce, event: Event) -> Option<Wait> {
    let Event {
        load,
        completions,
        idle,
    } = event;
    let (_, wait) = policy.plan(Suppress::Loop, settings, load, true);
    if settings.adaptive {
        policy.learn(Found {
            left: load.in_flight - completions,
            idle,
        });
    }
    wait
}

/// A policy that has seen `events`.
fn used(settings: &Coalesce, events: &[Event]) -> Policy {
    let mut policy = Policy::new();
    for event in events {
        pass(&mut policy, settings, *event);
    }
    policy
}

/// A pass in a load of `in_flight` that is completed whole.
fn whole(in_flight: u32, signalled: bool, idle: bool) -> Event {
    Event {
        load: Load {
            in_flight,
            urgent: false,
            signalled,
        },
        completions: in_flight,
        idle,
    }
}

/// The time that passes by the timer take under a load of `in_flight` until nothing waits because
/// the depth is low.
fn time_to_rest(policy: &mut Policy, settings: &Coalesce, in_flight: u32, idle: bool) -> u64 {
    let mut time = 0;
    for _ in 0..1000 {
        match pass(policy, settings, whole(in_flight, false, idle)) {
            Some(wait) => time += u64::from(wait.usecs),
            None if policy.depth() < settings.min_in_flight.max(2) => return time,
            None => {}
        }
    }
    panic!("{policy:?} does not come to rest with {in_flight} in flight");
}

proptest! {
    #![proptest_config(random(2000))]

    #[test]
    fn waits_are_within_their_bounds(settings in settings(), events in events(RING)) {
        let mut policy = Policy::new();
        let mut most = 0;
        for event in events {
            most = most.max(event.load.in_flight);
            let wait = pass(&mut policy, &settings, event);
            prop_assert!((event.load.in_flight..=most).contains(&policy.depth()) || wait.is_none());
            let Some(Wait { reqs, usecs }) = wait else { continue };
            prop_assert!(settings.is_on() && !event.load.urgent);
            prop_assert!(reqs >= 1 && u32::from(reqs) <= policy.depth());
            prop_assert!(settings.reqs == 0 || u32::from(reqs) <= settings.reqs);
            let bound = if settings.usecs == 0 { ADAPTIVE_USECS } else { settings.usecs };
            let least = if settings.adaptive { MIN_USECS.min(bound) } else { bound };
            prop_assert!((least..=bound).contains(&usecs), "{usecs}");
        }
    }

    #[test]
    fn no_numbers_are_too_large(
        settings in settings(),
        in_flight in prop::collection::vec(any::<u32>(), 0..100),
        left in any::<u32>(),
        idle in any::<bool>(),
    ) {
        let mut policy = Policy::new();
        for in_flight in in_flight {
            let load = Load { in_flight, urgent: false, signalled: false };
            let (_, wait) = policy.plan(Suppress::Loop, &settings, load, true);
            policy.learn(Found { left, idle });
            prop_assert!(wait.is_none_or(|wait| u32::from(wait.reqs) <= policy.depth()));
        }
        for _ in 0..200 {
            policy.learn(Found { left, idle });
        }
    }

    #[test]
    fn plans_say_what_was_chosen(
        suppress in modes(),
        settings in settings(),
        events in events(RING),
        load in events(RING),
        can_count in any::<bool>(),
    ) {
        let mut policy = used(&settings, &events);
        for Event { load, .. } in load {
            let (plan, wait) = policy.plan(suppress, &settings, load, can_count);
            prop_assert_eq!(plan.disable, suppress.plan().disable);
            let rearm = match wait {
                _ if !settings.is_on() => suppress.plan().rearm,
                None => Rearm::Quiescent,
                Some(wait) if can_count && settings.method == Method::Event => {
                    Rearm::Ahead(wait.reqs)
                }
                Some(_) => Rearm::Timer,
            };
            prop_assert_eq!(plan.rearm, rearm);
        }
    }

    /// At a depth that never reaches the least, and with a single request, nothing ever waits.
    #[test]
    fn nothing_waits_at_low_depth(settings in settings(), events in events(RING)) {
        let mut policy = Policy::new();
        let least = settings.min_in_flight.max(2);
        for mut event in events {
            event.load.in_flight = event.load.in_flight.min(least - 1);
            event.completions = event.completions.min(event.load.in_flight);
            prop_assert_eq!(pass(&mut policy, &settings, event), None);
        }
    }

    /// When a load has gone, what is left waits for a while only, whether the signals or the timer
    /// come first.
    #[test]
    fn a_load_that_has_gone_is_forgotten(
        settings in settings(),
        events in events(RING),
        left in any::<u32>(),
        idle in any::<bool>(),
    ) {
        let mut policy = used(&settings, &events);
        let left = 1 + left % (settings.min_in_flight.max(2) - 1);
        let time = time_to_rest(&mut policy, &settings, left, idle);
        let longest = settings.usecs.max(FALL_USECS);
        prop_assert!(time <= SETTLED.max(2 * u64::from(longest)), "{time} us");
        for _ in 0..100 {
            prop_assert_eq!(pass(&mut policy, &settings, whole(left, true, idle)), None);
        }
    }

    /// Nor does it matter that so many completions as were waited for still come.
    #[test]
    fn signals_do_not_keep_a_load_that_has_gone(
        settings in settings(),
        events in events(RING),
        left in any::<u32>(),
        reqs in any::<u32>(),
    ) {
        let left = 1 + left % (settings.min_in_flight.max(2) - 1);
        let settings = Coalesce {
            reqs: 1 + reqs % left,
            method: Method::Event,
            ..settings
        };
        let mut policy = used(&settings, &events);
        let mut passes = 0;
        while pass(&mut policy, &settings, whole(left, true, false)).is_some() {
            passes += 1;
            prop_assert!(passes < 200, "{policy:?} waits for ever with {left} in flight");
        }
    }

    /// The depth rises at once, and a short pass in a load takes no more than a sixteenth of it.
    #[test]
    fn a_short_pass_changes_little(
        events in events(RING),
        load in 16..=RING,
        short in 0..16u32,
        adaptive in any::<bool>(),
    ) {
        let settings = Coalesce {
            usecs: 2 * FALL_USECS - 1,
            reqs: 0,
            method: Method::Timer,
            min_in_flight: 8,
            adaptive,
        };
        let mut policy = used(&settings, &events);
        pass(&mut policy, &settings, whole(load, false, false));
        let depth = policy.depth();
        prop_assert!(depth >= load);
        pass(&mut policy, &settings, whole(short, false, false));
        // The time may have grown since by an eighth, and so the step.
        prop_assert!(policy.depth() >= depth - 2 * depth.div_ceil(16));
        pass(&mut policy, &settings, whole(load, false, false));
        prop_assert!(policy.depth() >= load);
    }
}

fn adaptive() -> Coalesce {
    Coalesce {
        usecs: 0,
        reqs: 0,
        method: Method::Auto,
        min_in_flight: 8,
        adaptive: true,
    }
}

/// The time until the wait of the adaptive mode is `target` under a load of 128; 0 for none.
fn time_to_reach(policy: &mut Policy, target: u32, idle: bool) -> u64 {
    let mut time = 0;
    loop {
        let wait = pass(policy, &adaptive(), whole(128, false, idle)).unwrap_or_default();
        if wait.usecs == target {
            return time;
        }
        // Without a wait the next interrupt comes soon.
        time += u64::from(wait.usecs.max(MIN_USECS));
        assert!(time <= SETTLED, "{policy:?} does not reach {target} us");
    }
}

#[test]
fn the_adaptive_wait_follows_who_is_busy() {
    let mut policy = Policy::new();
    // From nothing: a busy guest has long waits soon, an idle one none.
    assert!(time_to_reach(&mut policy, ADAPTIVE_USECS, false) < SETTLED);
    assert!(time_to_reach(&mut policy, 0, true) < SETTLED / 10);
    assert!(time_to_reach(&mut policy, ADAPTIVE_USECS, false) < SETTLED);
}

/// What is left of 128 requests when an idle processor is interrupted, and what becomes of a wait
/// of 1,000 microseconds: it goes on growing, stays, shrinks by eighths, and by halves.
#[test]
fn the_adaptive_wait_of_an_idle_guest_follows_what_is_left() {
    let settings = Coalesce {
        usecs: 1000,
        ..adaptive()
    };
    for (left, right) in [
        (128, 1000..=1000),
        (112, 1000..=1000),
        (111, 1000..=1000),
        (65, 1000..=1000),
        (64, 600..=800),
        (17, 600..=800),
        (16, 100..=130),
        (0, 100..=130),
    ] {
        let mut policy = Policy::new();
        for _ in 0..100 {
            pass(&mut policy, &settings, whole(128, false, false));
        }
        let mut event = whole(128, false, true);
        event.completions = 128 - left;
        let waits: Vec<_> = (0..4)
            .filter_map(|_| pass(&mut policy, &settings, event))
            .collect();
        assert!(
            right.contains(&waits[3].usecs),
            "with {left} left: {waits:?}"
        );
    }
}

/// From nothing it grows only while all but an eighth is left, and then soon reaches its bound.
#[test]
fn the_adaptive_wait_of_an_idle_guest_grows_while_it_costs_little() {
    for (left, grows) in [(112, true), (111, false), (65, false), (0, false)] {
        let mut policy = Policy::new();
        let mut event = whole(128, true, true);
        event.completions = 128 - left;
        let waits: Vec<_> = (0..60)
            .filter_map(|_| pass(&mut policy, &adaptive(), event))
            .collect();
        let last = waits.last().map(|wait| wait.usecs);
        assert_eq!(last, grows.then_some(ADAPTIVE_USECS), "with {left} left");
    }
}

#[test]
fn an_idle_guest_never_waits() {
    let mut policy = Policy::new();
    for in_flight in 0..RING {
        let event = whole(in_flight, true, true);
        assert_eq!(pass(&mut policy, &adaptive(), event), None);
    }
}

#[test]
fn steps_of_the_load_settle_in_time() {
    for idle in [false, true] {
        let mut policy = Policy::new();
        for _ in 0..10 {
            assert!(time_to_reach(&mut policy, ADAPTIVE_USECS, false) < SETTLED);
            for _ in 0..200 {
                pass(&mut policy, &adaptive(), whole(128, false, idle));
            }
            let time = time_to_rest(&mut policy, &adaptive(), 1, idle);
            assert!(time <= SETTLED / 2, "{time} us, idle: {idle}");
        }
    }
}

#[test]
fn methods_depend_on_the_ring() {
    for (method, counting, other) in [
        (Method::Auto, Method::Timer, Method::Timer),
        (Method::Event, Method::Event, Method::Timer),
        (Method::Timer, Method::Timer, Method::Timer),
    ] {
        assert_eq!((method.on(true), method.on(false)), (counting, other));
    }
}

#[test]
fn methods_have_names() {
    let names: Vec<_> = Method::ALL.iter().map(|method| method.name()).collect();
    assert_eq!(Method::RANGE, names.join(", "));
    for &method in Method::ALL {
        assert_eq!(Method::parse(method.name().as_bytes()), Some(method));
        assert_eq!(Method::from_raw(method as u32), method);
    }
    assert_eq!(Method::default(), Method::Auto);
}
