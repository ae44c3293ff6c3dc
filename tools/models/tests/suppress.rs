// SPDX-License-Identifier: GPL-2.0

//! The values of the knob `suppress`: what is printed can be parsed, and nothing else can.

use models::driver::suppress::Suppress;
use proptest::prelude::*;

#[test]
fn names_and_numbers_round_trip() {
    for &value in Suppress::ALL {
        let name = value.to_string();
        assert_eq!(name, value.name());
        assert_eq!(Suppress::parse(name.as_bytes()), Some(value));
        assert_eq!(Suppress::parse(format!("{name}\n").as_bytes()), Some(value));
        assert_eq!(Suppress::from_raw(value as u32), value);
    }
}

#[test]
fn loop_is_the_default() {
    assert_eq!(Suppress::default(), Suppress::Loop);
}

#[test]
fn the_range_names_every_value_in_order() {
    let names: Vec<_> = Suppress::ALL.iter().map(|value| value.name()).collect();
    assert_eq!(Suppress::RANGE, names.join(", "));
}

#[test]
fn unknown_numbers_are_the_default() {
    for raw in (0..=1000).chain([u32::MAX]) {
        let known = Suppress::ALL.iter().find(|value| **value as u32 == raw);
        assert_eq!(Suppress::from_raw(raw), known.copied().unwrap_or_default());
    }
}

#[test]
fn near_misses_are_refused() {
    for text in [
        "", "\n", "Off", "OFF", "of", "offf", "off,loop", "o ff", "0", "1", "loop\0",
    ] {
        assert_eq!(Suppress::parse(text.as_bytes()), None, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_names_are_parsed(text in any::<Vec<u8>>()) {
        let known = Suppress::ALL.iter().find(|value| {
            value.name().as_bytes() == text.trim_ascii()
        });
        prop_assert_eq!(Suppress::parse(&text), known.copied());
    }
}
