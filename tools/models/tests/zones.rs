// SPDX-License-Identifier: GPL-2.0

//! Zones out of a configuration space and reports in which anything may stand: what comes out
//! passes the block layer's own checks, or it is an error that names the value; and whoever asks
//! for zones comes to an end.

mod common;

use common::random;
use models::driver::zone_report::{
    length, walk, Error, Source, State, Stop, Zone, DESCRIPTOR, HEAD,
};
use models::driver::zones::{Config, Error as Unusable, Limits};
use proptest::prelude::*;

const CONFIG: Config = Config {
    model: 1,
    zone_sectors: 64,
    max_open_zones: 3,
    max_active_zones: 4,
    max_append_sectors: 16,
    write_granularity: 4096,
};

const LIMITS: Limits = Limits {
    zone_sectors: 64,
    max_open_zones: 3,
    max_active_zones: 4,
    max_append_sectors: 16,
    write_granularity: 4096,
};

/// Five zones and a short one.
const CAPACITY: u64 = 5 * 64 + 40;

#[test]
fn a_sound_configuration_is_taken_as_it_is() {
    assert_eq!(Limits::new(&CONFIG, 512), Ok(Some(LIMITS)));
    // The block layer has no smaller granularity than a block.
    let small = Config {
        write_granularity: 512,
        ..CONFIG
    };
    let found = Limits::new(&small, 4096).unwrap().unwrap();
    assert_eq!(found.write_granularity, 4096);
    // No appends: the block layer makes do with writes.
    let without = Config {
        max_append_sectors: 0,
        ..CONFIG
    };
    assert!(Limits::new(&without, 512).unwrap().is_some());
}

#[test]
fn only_host_managed_disks_have_zones() {
    for (model, right) in [
        (0, Ok(None)),
        (1, Ok(Some(LIMITS))),
        (2, Ok(None)),
        (3, Err(Unusable::Model(3))),
        (255, Err(Unusable::Model(255))),
    ] {
        assert_eq!(Limits::new(&Config { model, ..CONFIG }, 512), right);
    }
    // What is not used need not make sense.
    let config = Config {
        model: 2,
        ..Config::default()
    };
    assert_eq!(Limits::new(&config, 512), Ok(None));
}

#[test]
fn unusable_values_are_named_with_their_range() {
    let zone = |zone_sectors| Config {
        zone_sectors,
        ..CONFIG
    };
    let granularity = |write_granularity| Config {
        write_granularity,
        ..CONFIG
    };
    for (config, words) in [
        (zone(0), ["zone_sectors 0 ", "power of two"]),
        (zone(65), ["zone_sectors 65 ", "power of two"]),
        (zone(4), ["zone_sectors 4 ", "block of 4096 bytes"]),
        (granularity(0), ["write_granularity 0 ", "power of two"]),
        (
            granularity(12288),
            ["write_granularity 12288 ", "64 sectors"],
        ),
        (
            granularity(65536),
            ["write_granularity 65536 ", "64 sectors"],
        ),
        (
            Config {
                max_append_sectors: 7,
                ..CONFIG
            },
            ["max_append_sectors 7 ", "4096 bytes"],
        ),
        (
            Config {
                max_open_zones: 5,
                ..CONFIG
            },
            ["max_open_zones 5 ", "max_active_zones, 4"],
        ),
        (
            Config { model: 9, ..CONFIG },
            ["zone model 9 ", "1 (host-managed)"],
        ),
    ] {
        let message = Limits::new(&config, 4096).unwrap_err().to_string();
        let found = words.iter().all(|word| message.contains(word));
        assert!(found, "{config:?}: {message}");
    }
    let message = Unusable::NotConfigured.to_string();
    assert!(message.contains("CONFIG_BLK_DEV_ZONED"));
}

#[test]
fn an_append_stays_in_its_zone() {
    for (place, right) in [
        (128, true),
        (191, true),
        (192, false),
        (127, false),
        (u64::MAX, false),
    ] {
        assert_eq!(LIMITS.can_append(128, place), right, "{place}");
    }
    assert!(LIMITS.can_append(u64::MAX, u64::MAX));
}

#[test]
fn a_report_is_as_long_as_it_has_to_be() {
    for (sector, zones, most, right) in [
        (0, 1, 4096, HEAD + DESCRIPTOR),
        (70, 3, 4096, HEAD + 3 * DESCRIPTOR),
        (0, u32::MAX, 4096, HEAD + 6 * DESCRIPTOR),
        (320, u32::MAX, 4096, HEAD + DESCRIPTOR),
        (0, u32::MAX, 200, 200),
        (u64::MAX, u32::MAX, 4096, HEAD),
    ] {
        let found = length(&LIMITS, CAPACITY, sector, zones, most);
        assert_eq!(found, right, "{zones} zones from {sector}");
    }
    assert_eq!(length(&LIMITS, u64::MAX, 0, u32::MAX, 1 << 20), 1 << 20);
}

/// What a device says about a zone.
#[derive(Debug, Clone, Copy)]
struct Told {
    capacity: u64,
    start: u64,
    pointer: u64,
    kind: u8,
    state: u8,
}

/// A sequential zone of this disk, implicitly open.
fn told(start: u64) -> Told {
    Told {
        capacity: 40,
        start,
        pointer: start + 8,
        kind: 2,
        state: 2,
    }
}

impl Told {
    fn bytes(&self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[..8].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.pointer.to_le_bytes());
        bytes[24] = self.kind;
        bytes[25] = self.state;
        bytes
    }
}

/// A device whose reports are made by a function, of which it counts how many there were.
struct Device<F> {
    answer: F,
    report: Vec<u8>,
    asked: Vec<u64>,
}

impl<F: FnMut(u64) -> Vec<u8>> Source for Device<F> {
    type Error = &'static str;

    fn report(&mut self, sector: u64) -> Result<&[u8], Self::Error> {
        self.asked.push(sector);
        assert!(self.asked.len() < 100, "there is no end");
        self.report = (self.answer)(sector);
        Ok(&self.report)
    }
}

fn device<F: FnMut(u64) -> Vec<u8>>(answer: F) -> Device<F> {
    Device {
        answer,
        report: Vec::new(),
        asked: Vec::new(),
    }
}

fn report(claimed: u64, zones: &[Told]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes[..8].copy_from_slice(&claimed.to_le_bytes());
    bytes.extend(zones.iter().flat_map(Told::bytes));
    bytes
}

/// An honest device that reports `at_once` zones at a time.
fn honest(at_once: usize) -> Device<impl FnMut(u64) -> Vec<u8>> {
    device(move |sector| {
        let starts = (sector / 64..6).map(|zone| zone * 64);
        let zones: Vec<_> = starts.take(at_once).map(told).collect();
        report(zones.len() as u64, &zones)
    })
}

fn collect<S: Source>(
    source: &mut S,
    sector: u64,
    count: u32,
) -> (Result<u32, Stop<S::Error>>, Vec<Zone>) {
    let mut zones = Vec::new();
    let result = walk(&LIMITS, CAPACITY, sector, count, source, |zone| {
        zones.push(*zone);
        Ok(())
    });
    (result, zones)
}

#[test]
fn all_zones_are_told_in_as_many_reports_as_it_takes() {
    for (at_once, reports) in [(1, 6), (2, 3), (4, 2), (100, 1)] {
        let mut device = honest(at_once);
        let (result, zones) = collect(&mut device, 0, u32::MAX);
        assert_eq!((result, zones.len()), (Ok(6), 6));
        assert_eq!(device.asked.len(), reports);
        let last = zones[5];
        assert_eq!((last.start, last.len, last.capacity), (320, 40, 40));
        assert_eq!(last.write_pointer, 328);
    }
}

#[test]
fn no_more_zones_are_told_than_were_asked_for() {
    let mut device = honest(4);
    let (result, zones) = collect(&mut device, 70, 2);
    assert_eq!((result, zones.len(), zones[0].start), (Ok(2), 2, 64));
    assert_eq!(device.asked, [64]);
    assert_eq!(collect(&mut honest(4), 0, 0), (Ok(0), vec![]));
    for behind in [CAPACITY, CAPACITY + 24, u64::MAX] {
        assert_eq!(collect(&mut honest(4), behind, 9), (Ok(0), vec![]));
    }
}

#[test]
fn states_are_the_block_layers() {
    for (number, state, pointer) in [
        (1, State::Empty, 72),
        (2, State::ImplicitlyOpen, 72),
        (3, State::ExplicitlyOpen, 72),
        (4, State::Closed, 72),
        (13, State::ReadOnly, u64::MAX),
        (14, State::Full, 128),
        (15, State::Offline, u64::MAX),
    ] {
        let mut device = device(|sector| {
            let zone = Told {
                state: number,
                ..told(sector)
            };
            report(1, &[zone])
        });
        let (result, zones) = collect(&mut device, 64, 1);
        assert_eq!(result, Ok(1));
        assert_eq!((zones[0].state, zones[0].write_pointer), (state, pointer));
        assert_eq!(state as u8, number);
    }
    let conventional = Told {
        capacity: 64,
        kind: 1,
        state: 0,
        ..told(64)
    };
    let (result, zones) = collect(&mut device(|_| report(1, &[conventional])), 64, 1);
    assert_eq!(result, Ok(1));
    assert_eq!(zones[0].state, State::Conventional);
    assert_eq!(zones[0].write_pointer, u64::MAX);
}

#[test]
fn false_reports_are_errors_that_name_the_value() {
    let zone = told(64);
    for (zone, words) in [
        (Told { start: 0, ..zone }, ["zone 64:", "one at 0"]),
        (Told { start: 65, ..zone }, ["zone 64:", "one at 65"]),
        (Told { kind: 0, ..zone }, ["type 0x0", "1 (conventional)"]),
        (Told { kind: 3, ..zone }, ["type 0x3", "1 (conventional)"]),
        (
            Told { kind: 1, ..zone },
            ["state 0x2", "0 if it is conventional"],
        ),
        (Told { state: 0, ..zone }, ["state 0x0", "1 to 4"]),
        (Told { state: 5, ..zone }, ["state 0x5", "13 to 15"]),
        (
            Told {
                capacity: 0,
                ..zone
            },
            ["capacity 0", "1 to 64"],
        ),
        (
            Told {
                capacity: 65,
                ..zone
            },
            ["capacity 65", "1 to 64"],
        ),
        (
            Told {
                kind: 1,
                state: 0,
                ..zone
            },
            ["capacity 40", "all if it is conventional"],
        ),
        (
            Told {
                pointer: 63,
                ..zone
            },
            ["pointer 63", "at most 64"],
        ),
        (
            Told {
                pointer: 129,
                ..zone
            },
            ["pointer 129", "at most 64"],
        ),
    ] {
        let (result, zones) = collect(&mut device(|_| report(1, &[zone])), 64, 3);
        let Err(Stop::Report(error)) = result else {
            panic!("{zone:?} became {result:?}");
        };
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(zones.is_empty());
    }
}

#[test]
fn a_report_without_zones_is_an_error() {
    let none = Err(Stop::Report(Error::NoZones { start: 64 }));
    for bytes in [
        vec![],
        vec![0xff; HEAD - 1],
        report(0, &[told(64)]),
        report(u64::MAX, &[]),
        report(1, &[])[..HEAD].to_vec(),
    ] {
        let (result, _) = collect(&mut device(|_| bytes.clone()), 64, 1);
        assert_eq!(result, none, "{bytes:?}");
    }
    assert!(Error::NoZones { start: 64 }.to_string().contains("zone 64"));
    // A device that always begins with the same zone gets nowhere.
    let mut stuck = device(|_| report(1, &[told(0)]));
    let (result, zones) = collect(&mut stuck, 0, u32::MAX);
    let expected = Error::Start {
        found: 0,
        start: 64,
    };
    assert_eq!(result, Err(Stop::Report(expected)));
    assert_eq!((zones.len(), stuck.asked.len()), (1, 2));
}

#[test]
fn errors_of_others_are_handed_on() {
    let stop = walk(&LIMITS, CAPACITY, 0, 9, &mut honest(4), |zone| {
        if zone.start < 128 {
            Ok(())
        } else {
            Err("enough")
        }
    });
    assert_eq!(stop, Err(Stop::Other("enough")));
}

/// Values around which something changes, and any others.
fn interesting() -> impl Strategy<Value = u32> {
    let power = (0..32u32).prop_map(|shift| 1 << shift);
    prop_oneof![
        4 => power.clone(),
        1 => power.prop_map(|value| value - 1),
        1 => 0..8u32,
        1 => any::<u32>(),
    ]
}

fn near(zones: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..zones).prop_map(|zone| zone * 64),
        2 => 0..zones * 64,
        1 => any::<u64>(),
    ]
}

/// A zone that is right in most things.
fn tellings() -> impl Strategy<Value = Told> {
    let numbers = prop_oneof![
        9 => Just((2, 2)),
        1 => (0..5_u8, 0..17_u8),
        1 => (any::<u8>(), any::<u8>())
    ];
    let capacities = prop_oneof![9 => Just(40), 1 => 0..66_u64, 1 => any::<u64>()];
    (
        near(7),
        capacities,
        prop_oneof![9 => Just(None), 1 => near(7).prop_map(Some)],
        numbers,
    )
        .prop_map(|(start, capacity, pointer, (kind, state))| Told {
            capacity,
            start,
            pointer: pointer.unwrap_or(start.saturating_add(8)),
            kind,
            state,
        })
}

proptest! {
    #![proptest_config(random(20_000))]

    /// What `blk_validate_zoned_limits()` and `blk_revalidate_disk_zones()` demand.
    #[test]
    fn any_configuration_is_valid_or_refused(
        (zone_sectors, max_open_zones, max_active_zones) in
            (interesting(), interesting(), interesting()),
        (max_append_sectors, write_granularity) in (interesting(), interesting()),
        block in prop::sample::select(vec![512_u32, 4096, 65536]),
    ) {
        let config = Config {
            model: 1,
            zone_sectors,
            max_open_zones,
            max_active_zones,
            max_append_sectors,
            write_granularity,
        };
        match Limits::new(&config, block) {
            Ok(Some(limits)) => {
                prop_assert!(limits.zone_sectors.is_power_of_two());
                let zone = u64::from(limits.zone_sectors) * 512;
                let granularity = limits.write_granularity;
                prop_assert!(granularity.is_power_of_two() && granularity >= block);
                prop_assert!(zone % u64::from(granularity) == 0);
                prop_assert!(
                    limits.max_active_zones == 0
                        || limits.max_open_zones <= limits.max_active_zones
                );
            }
            Ok(None) => prop_assert!(false, "the disk is a host-managed one"),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.contains("is unusable"), "{}", message);
            }
        }
    }

    /// Whatever a device answers, there is an end, and what is told makes sense.
    #[test]
    fn any_reports_come_to_an_end(
        reports in prop::collection::vec(
            (
                prop_oneof![0..9_u64, any::<u64>()],
                prop::collection::vec(tellings(), 0..9),
                0..64_usize,
            ),
            1..9,
        ),
        sector in near(7),
        count in prop_oneof![0..9_u32, Just(u32::MAX)],
    ) {
        let mut answers = reports.iter().cycle();
        let mut device = device(|_| {
            let (claimed, zones, short) = answers.next().unwrap();
            let mut bytes = report(*claimed, zones);
            bytes.truncate(bytes.len() - short);
            bytes
        });
        let (result, zones) = collect(&mut device, sector, count);
        prop_assert!(device.asked.len() <= 7, "{} reports", device.asked.len());
        prop_assert!(zones.len() <= 6 && zones.len() <= count as usize);
        for zone in &zones {
            prop_assert_eq!(zone.start % 64, 0);
            prop_assert!(zone.len == 64 || zone.start + zone.len == CAPACITY);
            prop_assert!((1..=zone.len).contains(&zone.capacity));
        }
        prop_assert!(zones.windows(2).all(|pair| pair[0].start + 64 == pair[1].start));
        if let Ok(told) = result {
            prop_assert_eq!(told as usize, zones.len());
            let left = CAPACITY.saturating_sub(sector / 64 * 64).div_ceil(64);
            let left = if sector < CAPACITY { left } else { 0 };
            prop_assert_eq!(u64::from(told), left.min(count.into()));
        }
    }
}
