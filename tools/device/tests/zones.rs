// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The state machine of zones: tables of what the standard says, and random requests to a few
//! zones, after each of which everything must be as it has to be.

use device::zones::{
    Action, Geometry, Lie, Refusal, State, Zone, Zones, DESCRIPTOR, REPORT_HEADER,
};
use proptest::prelude::*;

/// Six zones, the last of which is short, and the first conventional.
const GEOMETRY: Geometry = Geometry {
    disk: 5 * 64 + 40,
    zone: 64,
    capacity: 48,
    conventional: 1,
    max_open: 2,
    max_active: 3,
    max_append: 16,
    granularity: 4096,
};

fn write(zones: &mut Zones, sector: u64, count: u64) -> Result<(), Refusal> {
    zones.check_write(sector, count)?;
    zones.record(sector, count);
    Ok(())
}

fn append(zones: &mut Zones, sector: u64, count: u64) -> Result<u64, Refusal> {
    let place = zones.check_append(sector, count)?;
    zones.record(place, count);
    Ok(place)
}

fn states(zones: &Zones) -> Vec<State> {
    zones.all().iter().map(|zone| zone.state).collect()
}

/// A zone of its own in each state, number 1, and what leads there.
fn in_state(state: State) -> Zones {
    let mut zones = Zones::new(GEOMETRY);
    let done = match state {
        State::Conventional => return zones,
        State::Empty => Ok(()),
        State::ImplicitlyOpen => write(&mut zones, 64, 8),
        State::ExplicitlyOpen => zones.act(Action::Open, 64),
        State::Closed => write(&mut zones, 64, 8).and_then(|()| zones.act(Action::Close, 64)),
        State::Full => zones.act(Action::Finish, 64),
        State::ReadOnly | State::Offline => {
            zones.break_down(1, state).unwrap();
            Ok(())
        }
    };
    done.unwrap();
    assert_eq!(zones.all()[1].state, state);
    zones
}

#[test]
fn a_new_disk_has_empty_zones() {
    let zones = Zones::new(GEOMETRY);
    let of = |index: usize| {
        let Zone {
            start,
            length,
            capacity,
            ..
        } = zones.all()[index];
        (start, length, capacity)
    };
    assert_eq!((of(0), of(1)), ((0, 64, 64), (64, 64, 48)));
    assert_eq!(of(5), (320, 40, 40));
    assert_eq!(zones.all().len(), 6);
    assert_eq!(states(&zones)[..2], [State::Conventional, State::Empty]);
}

/// The transitions of the standard, and the refusals.
#[test]
fn actions_lead_to_the_states_of_the_standard() {
    use State::{
        Closed, Conventional, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly,
    };
    let refused = Err(Refusal::Invalid);
    for (from, open, close, finish, reset) in [
        (Empty, Ok(ExplicitlyOpen), refused, Ok(Full), Ok(Empty)),
        (
            ImplicitlyOpen,
            Ok(ExplicitlyOpen),
            Ok(Closed),
            Ok(Full),
            Ok(Empty),
        ),
        // Nothing was written to it.
        (
            ExplicitlyOpen,
            Ok(ExplicitlyOpen),
            Ok(Empty),
            Ok(Full),
            Ok(Empty),
        ),
        (Closed, Ok(ExplicitlyOpen), Ok(Closed), Ok(Full), Ok(Empty)),
        (Full, refused, refused, Ok(Full), Ok(Empty)),
        (ReadOnly, refused, refused, refused, refused),
        (Offline, refused, refused, refused, refused),
    ] {
        for (action, right) in [
            (Action::Open, open),
            (Action::Close, close),
            (Action::Finish, finish),
            (Action::Reset, reset),
        ] {
            let mut zones = in_state(from);
            let found = zones.act(action, 64);
            let found = found.map(|()| zones.all()[1].state);
            assert_eq!(found, right, "{action:?} in {from:?}");
            let off_the_start = in_state(from).act(action, 65);
            assert_eq!(off_the_start, Err(Refusal::Invalid), "{action:?}");
        }
    }
    for action in [Action::Open, Action::Close, Action::Finish, Action::Reset] {
        for (state, sector) in [(Conventional, 0), (Empty, GEOMETRY.disk)] {
            let found = in_state(state).act(action, sector);
            assert_eq!(found, Err(Refusal::Invalid), "{action:?} at {sector}");
        }
    }
}

#[test]
fn a_closed_zone_keeps_what_was_written() {
    let mut zones = in_state(State::ExplicitlyOpen);
    write(&mut zones, 64, 8).unwrap();
    zones.act(Action::Close, 64).unwrap();
    assert_eq!(zones.all()[1].state, State::Closed);
    write(&mut zones, 72, 40).unwrap();
    assert_eq!(zones.all()[1].state, State::Full);
    assert_eq!(write(&mut zones, 112, 8), Err(Refusal::Invalid));
}

#[test]
fn writes_go_to_the_write_pointer() {
    let mut zones = Zones::new(GEOMETRY);
    for (sector, count, right) in [
        (72, 8, Err(Refusal::Unaligned)),
        (64, 4, Err(Refusal::Unaligned)),
        (64, 56, Err(Refusal::Invalid)),
        (64, 72, Err(Refusal::Invalid)),
        (64, 8, Ok(())),
        (64, 8, Err(Refusal::Unaligned)),
        (72, 16, Ok(())),
        // Conventional zones, and a border.
        (56, 1, Ok(())),
        (56, 16, Err(Refusal::Invalid)),
        (u64::MAX, 8, Err(Refusal::Invalid)),
        (GEOMETRY.disk, 8, Err(Refusal::Invalid)),
    ] {
        assert_eq!(
            write(&mut zones, sector, count),
            right,
            "{count} at {sector}"
        );
    }
    assert_eq!(zones.all()[1].write_pointer(), Some(88));
    for state in [State::Full, State::ReadOnly, State::Offline] {
        let written = write(&mut in_state(state), 64, 8);
        assert_eq!(written, Err(Refusal::Invalid), "{state:?}");
    }
}

#[test]
fn appends_tell_where_they_went() {
    let mut zones = Zones::new(GEOMETRY);
    for (sector, count, right) in [
        (64, 16, Ok(64)),
        (64, 8, Ok(80)),
        (64, 24, Err(Refusal::Invalid)),
        (64, 4, Err(Refusal::Unaligned)),
        (72, 8, Err(Refusal::Invalid)),
        (0, 8, Err(Refusal::Invalid)),
        (64, 16, Ok(88)),
        (64, 16, Err(Refusal::Invalid)),
        (64, 8, Ok(104)),
        (64, 8, Err(Refusal::Invalid)),
    ] {
        assert_eq!(
            append(&mut zones, sector, count),
            right,
            "{count} at {sector}"
        );
    }
    let mut none = Zones::new(Geometry {
        max_append: 0,
        ..GEOMETRY
    });
    assert_eq!(append(&mut none, 64, 8), Err(Refusal::Unsupported));
}

#[test]
fn open_and_active_zones_are_limited() {
    let mut zones = Zones::new(GEOMETRY);
    zones.act(Action::Open, 64).unwrap();
    write(&mut zones, 128, 8).unwrap();
    // The implicitly open one gives way.
    write(&mut zones, 192, 8).unwrap();
    assert_eq!(
        states(&zones)[1..4],
        [State::ExplicitlyOpen, State::Closed, State::ImplicitlyOpen]
    );
    // Both limits: the active one is named.
    assert_eq!(write(&mut zones, 256, 8), Err(Refusal::ActiveResource));
    assert_eq!(zones.act(Action::Finish, 256), Err(Refusal::ActiveResource));
    zones.act(Action::Open, 192).unwrap();
    // Now none gives way.
    assert_eq!(write(&mut zones, 136, 8), Err(Refusal::OpenResource));
    assert_eq!(append(&mut zones, 128, 8), Err(Refusal::OpenResource));
    assert_eq!(zones.act(Action::Open, 128), Err(Refusal::OpenResource));
    zones.act(Action::Finish, 64).unwrap();
    write(&mut zones, 136, 8).unwrap();
    zones.reset_all();
    assert!(states(&zones)[1..]
        .iter()
        .all(|state| *state == State::Empty));
}

#[test]
fn what_was_not_written_is_known() {
    let mut zones = Zones::new(GEOMETRY);
    write(&mut zones, 64, 8).unwrap();
    zones.act(Action::Finish, 64).unwrap();
    assert_eq!(zones.check_read(64, 64), Ok(72));
    assert_eq!(zones.check_read(0, 8), Ok(u64::MAX));
    assert_eq!(zones.check_read(120, 16), Err(Refusal::Invalid));
    zones.act(Action::Reset, 64).unwrap();
    assert_eq!(zones.check_read(64, 8), Ok(64));
    zones.break_down(1, State::Offline).unwrap();
    assert_eq!(zones.check_read(64, 8), Err(Refusal::Invalid));
    assert_eq!(zones.break_down(6, State::Offline), None);
}

fn number(report: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(report[at..at + 8].try_into().unwrap())
}

#[test]
fn a_report_is_what_the_standard_wants() {
    let mut zones = in_state(State::ImplicitlyOpen);
    zones.act(Action::Finish, 128).unwrap();
    let room = REPORT_HEADER + 3 * DESCRIPTOR + 63;
    let report = zones.report(70, room, Lie::Nothing).unwrap();
    assert_eq!(report.len(), REPORT_HEADER + 3 * DESCRIPTOR);
    assert_eq!(number(&report, 0), 3);
    let first = &report[REPORT_HEADER..][..DESCRIPTOR];
    let fields = [number(first, 0), number(first, 8), number(first, 16)];
    assert_eq!(fields, [48, 64, 72]);
    assert_eq!(first[24..26], [2, 2]);
    assert!(first[26..].iter().all(|byte| *byte == 0));
    let full = &report[REPORT_HEADER + DESCRIPTOR..];
    assert_eq!((full[25], number(full, 16)), (14, u64::MAX));
    let whole = zones.report(0, 1 << 20, Lie::Nothing).unwrap();
    assert_eq!(number(&whole, 0), 6);
    assert_eq!(whole[REPORT_HEADER + 24..][..2], [1, 0]);
    let behind = zones.report(GEOMETRY.disk, 1 << 20, Lie::Nothing);
    assert_eq!(behind, Err(Refusal::Invalid));
}

#[test]
fn lies_have_names_and_lie() {
    let zones = Zones::new(GEOMETRY);
    let truth = zones.report(64, 256, Lie::Nothing).unwrap();
    for name in Lie::NAMES.replace(" or ", ", ").split(", ") {
        let lie: Lie = name.parse().unwrap();
        assert_eq!(lie.to_string(), name);
        let told = zones.report(64, 256, lie).unwrap();
        let is_true = matches!(lie, Lie::Nothing | Lie::Append);
        assert_eq!(told == truth, is_true, "{name}");
    }
    let error = "small".parse::<Lie>().unwrap_err().to_string();
    assert!(error.contains("small") && error.contains(Lie::NAMES));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write(u64, u64),
    Append(u64, u64),
    Act(Action, u64),
    ResetAll,
}

fn steps() -> impl Strategy<Value = Step> {
    let zone = (0..6_u64).prop_map(|zone| zone * 64);
    let offset = prop::sample::select(vec![0_u64, 8, 16, 24, 40, 48, 4]);
    let count = prop::sample::select(vec![8_u64, 16, 24, 48, 4, 64]);
    let action = prop::sample::select(vec![
        Action::Open,
        Action::Close,
        Action::Finish,
        Action::Reset,
    ]);
    prop_oneof![
        8 => (zone.clone(), offset, count.clone())
            .prop_map(|(zone, offset, count)| Step::Write(zone + offset, count)),
        4 => (zone.clone(), count).prop_map(|(zone, count)| Step::Append(zone, count)),
        6 => (action, zone).prop_map(|(action, zone)| Step::Act(action, zone)),
        1 => Just(Step::ResetAll),
    ]
}

/// What holds whatever the driver does.
fn assert_consistent(zones: &Zones, geometry: &Geometry) {
    let count = |counts: fn(State) -> bool| {
        let zones = zones.all().iter();
        zones.filter(|zone| counts(zone.state)).count()
    };
    assert!(count(State::is_open) <= geometry.max_open as usize);
    assert!(count(State::is_active) <= geometry.max_active as usize);
    for zone in zones.all() {
        let place = (zone.written, zone.start, zone.limit());
        match zone.state {
            State::Conventional | State::Empty => assert_eq!(place.0, place.1, "{zone:?}"),
            State::ImplicitlyOpen | State::Closed => {
                assert!(place.1 < place.0 && place.0 < place.2, "{zone:?}");
            }
            State::ExplicitlyOpen => {
                assert!(place.1 <= place.0 && place.0 < place.2, "{zone:?}");
            }
            State::Full => assert!(place.0 <= place.2, "{zone:?}"),
            State::ReadOnly | State::Offline => panic!("{zone:?} broke"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_request_makes_nonsense(
        steps in prop::collection::vec(steps(), 1..60),
        max_open in 1..4_u32,
        more in 0..3_u32,
    ) {
        let geometry = Geometry { max_open, max_active: max_open + more, ..GEOMETRY };
        let mut zones = Zones::new(geometry);
        for step in steps {
            let before = zones.all().to_vec();
            let done = match step {
                Step::Write(sector, count) => write(&mut zones, sector, count),
                Step::Append(sector, count) => append(&mut zones, sector, count).map(|place| {
                    let zone = before[(sector / 64) as usize];
                    assert_eq!(Some(place), zone.write_pointer());
                }),
                Step::Act(action, sector) => zones.act(action, sector),
                Step::ResetAll => {
                    zones.reset_all();
                    Ok(())
                }
            };
            if done.is_err() {
                prop_assert_eq!(&before[..], zones.all(), "{:?} was refused", step);
            }
            assert_consistent(&zones, &geometry);
        }
    }
}
