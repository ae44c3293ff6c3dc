// SPDX-License-Identifier: GPL-2.0

//! Limits of discards and the like out of a configuration space in which anything may stand (case
//! 5): what comes out is right for the block layer, or the disk goes without the operation.

mod common;

use common::random;
use models::driver::limits::{Config as DiskConfig, Limits, Machine, Ring, Topology};
use models::driver::ranges::{Config, Fields, Ranges, Warning, MAX_RANGES};
use proptest::prelude::*;

/// A disk with 254 segments a request.
fn disk(blk_size: u32, physical_block_exp: u8) -> Limits {
    let config = DiskConfig {
        seg_max: Some(254),
        blk_size: Some(blk_size),
        topology: Some(Topology {
            physical_block_exp,
            ..Topology::default()
        }),
        ..DiskConfig::default()
    };
    let ring = Ring {
        size: 256,
        indirect: true,
    };
    let machine = Machine {
        max_dma_size: usize::MAX,
        max_block_size: 65536,
    };
    Limits::new(&config, ring, machine).unwrap()
}

/// What the disk can do, and why it cannot do more.
fn ranges(config: &Config, disk: &Limits) -> (Ranges, Vec<Warning>) {
    let mut warnings = Vec::new();
    let ranges = Ranges::new(config, disk, |warning| warnings.push(warning));
    (ranges, warnings)
}

/// Sectors, ranges, alignment.
fn fields((max_sectors, max_ranges, alignment): (u32, u32, u32)) -> Option<Fields> {
    Some(Fields {
        max_sectors,
        max_ranges,
        alignment,
    })
}

fn discard(said: (u32, u32, u32), disk: &Limits) -> (u32, u16, u32) {
    let config = Config {
        discard: fields(said),
        ..Config::default()
    };
    let (ranges, _) = ranges(&config, disk);
    (
        ranges.max_discard_sectors,
        ranges.max_discard_ranges,
        ranges.discard_granularity,
    )
}

/// As drivers/block/virtio_blk.c derives them, and block/blk-settings.c after that.
#[test]
fn discards_of_sane_devices_are_as_in_c() {
    const MAX: u32 = u32::MAX;
    for (block, said, right) in [
        // QEMU's defaults.
        ((512, 0), (0x3f_ffff, 1, 1), (0x3f_ffff, 1, 512)),
        ((4096, 0), (0x3f_ffff, 1, 8), (0x3f_ffff, 1, 4096)),
        ((512, 3), (0x3f_ffff, 1, 1), (0x3f_ffff, 1, 4096)),
        // No limits.
        ((512, 0), (0, 0, 0), (MAX, 254, 512)),
        ((4096, 1), (0, 0, 0), (MAX, 254, 8192)),
        // Many ranges, a large unit.
        ((512, 0), (8192, 16, 2048), (8192, 16, 1 << 20)),
        ((512, 0), (8192, 256, 8), (8192, 256, 4096)),
        ((512, 0), (8192, 257, 8), (8192, 256, 4096)),
        ((512, 0), (MAX, MAX, 1), (MAX, 256, 512)),
    ] {
        let disk = disk(block.0, block.1);
        assert_eq!(discard(said, &disk), right, "{block:?}: {said:?}");
    }
}

#[test]
fn a_senseless_unit_is_ignored() {
    let small = disk(512, 0);
    for alignment in [3, 12, 0x7f_ffff, 0x80_0000, 0x8000_0000, u32::MAX] {
        assert_eq!(discard((0, 1, alignment), &small), (u32::MAX, 1, 512));
    }
    // It must not exceed what can be discarded.
    assert_eq!(discard((7, 1, 8), &small), (7, 1, 512));
    assert_eq!(discard((8, 1, 8), &small), (8, 1, 4096));
}

#[test]
fn case_5_all_limits_0_then_1() {
    for (block, value, right) in [
        ((512, 0), 0, (u32::MAX, u32::MAX, 0)),
        ((512, 0), 1, (1, 1, 1)),
        ((4096, 0), 0, (u32::MAX, u32::MAX, 0)),
        ((4096, 0), 1, (0, 0, 0)),
        ((512, 3), 1, (0, 1, 1)),
    ] {
        let all = fields((value, value, value));
        let config = Config {
            discard: all,
            write_zeroes: Some(value),
            secure_erase: all,
        };
        let (found, warnings) = ranges(&config, &disk(block.0, block.1));
        let sectors = (
            found.max_discard_sectors,
            found.max_write_zeroes_sectors,
            found.max_secure_erase_sectors,
        );
        assert_eq!(sectors, right, "{block:?}: {value}");
        let absent = [sectors.0, sectors.1, sectors.2].map(|sectors| usize::from(sectors == 0));
        assert_eq!(warnings.len(), absent.iter().sum(), "{warnings:?}");
    }
}

#[test]
fn zeroes_are_written_in_whole_blocks() {
    for (blk_size, said, right) in [
        (512, 1, 1),
        (512, 0x3f_ffff, 0x3f_ffff),
        (4096, 0x3f_ffff, 0x3f_fff8),
        (4096, 8, 8),
        (4096, 15, 8),
        (4096, u32::MAX, 0xffff_fff8),
    ] {
        let config = Config {
            write_zeroes: Some(said),
            ..Config::default()
        };
        let (found, warnings) = ranges(&config, &disk(blk_size, 0));
        assert_eq!(found.max_write_zeroes_sectors, right, "{blk_size}: {said}");
        assert!(warnings.is_empty());
    }
}

/// The block layer has one limit for both, so the smaller one holds.
#[test]
fn erasing_and_discarding_share_limits() {
    let config = Config {
        discard: fields((1000, 16, 8)),
        secure_erase: fields((10, 4, 2)),
        ..Config::default()
    };
    let (found, warnings) = ranges(&config, &disk(512, 0));
    assert_eq!(
        (found.max_discard_ranges, found.discard_granularity),
        (4, 1024)
    );
    assert_eq!(
        (found.max_discard_sectors, found.max_secure_erase_sectors),
        (1000, 10)
    );
    assert!(warnings.is_empty());
    // One that cannot be used has no say.
    let config = Config {
        secure_erase: fields((10, 0, 2)),
        ..config
    };
    let (found, warnings) = ranges(&config, &disk(512, 0));
    assert_eq!(
        (found.max_discard_ranges, found.discard_granularity),
        (16, 4096)
    );
    assert_eq!(found.max_secure_erase_sectors, 0);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn what_is_not_offered_is_not_there() {
    let (found, warnings) = ranges(&Config::default(), &disk(512, 0));
    assert_eq!(
        found,
        Ranges {
            max_discard_sectors: 0,
            max_discard_ranges: 1,
            discard_granularity: 512,
            max_write_zeroes_sectors: 0,
            max_secure_erase_sectors: 0,
        }
    );
    assert!(warnings.is_empty());
}

#[test]
fn warnings_name_value_and_range() {
    let config = Config {
        discard: fields((1, 1, 1)),
        write_zeroes: Some(2),
        secure_erase: fields((3, 0, 5)),
    };
    let (_, warnings) = ranges(&config, &disk(4096, 1));
    for (word, values) in [
        ("discard", vec!["is 1;", "least 16"]),
        ("zeroes", vec!["is 2;", "least 8"]),
        ("erase", vec!["is 3,", " 0,", " 5;", "8, 1 and 1"]),
    ] {
        let text = format!("no {word}").replace("no zeroes", "no write zeroes");
        let text = text.replace("no erase", "no secure erase");
        let mut lines = warnings.iter().map(ToString::to_string);
        let line = lines.find(|line| line.starts_with(&text)).unwrap();
        assert!(values.iter().all(|value| line.contains(value)), "{line}");
    }
}

/// Values around which something changes, and any others.
fn interesting() -> impl Strategy<Value = u32> {
    prop_oneof![
        (0..32u32).prop_map(|shift| 1 << shift),
        (0..32u32).prop_map(|shift| (1 << shift) - 1),
        0..20u32,
        any::<u32>(),
        Just(u32::MAX),
    ]
}

fn any_fields() -> impl Strategy<Value = Option<Fields>> {
    prop::option::of((interesting(), interesting(), interesting()))
        .prop_map(|said| said.and_then(fields))
}

proptest! {
    #![proptest_config(random(20_000))]

    #[test]
    fn any_configuration_can_be_served(
        discard in any_fields(),
        write_zeroes in prop::option::of(interesting()),
        secure_erase in any_fields(),
        block_bits in 9..17u32,
        physical_block_exp in 0..40u8,
    ) {
        let config = Config { discard, write_zeroes, secure_erase };
        let disk = disk(1 << block_bits, physical_block_exp);
        let (found, warnings) = ranges(&config, &disk);
        let blocks = disk.logical_block_size / 512;

        // Never more than the device takes; nothing that it does not offer.
        let within = |found: u32, said: Option<u32>| match said {
            None => found == 0,
            Some(0) => true,
            Some(said) => found <= said,
        };
        let max_sectors = |of: Option<Fields>| of.map(|fields| fields.max_sectors);
        prop_assert!(within(found.max_discard_sectors, max_sectors(discard)));
        prop_assert!(within(found.max_write_zeroes_sectors, write_zeroes));
        prop_assert!(within(found.max_secure_erase_sectors, max_sectors(secure_erase)));
        prop_assert!((1..=MAX_RANGES).contains(&found.max_discard_ranges));
        if let Some(Fields { max_ranges: most @ 1.., .. }) = discard {
            prop_assert!(u32::from(found.max_discard_ranges) <= most);
        }

        // What the block layer's arithmetic counts on.
        let unit = found.discard_granularity;
        prop_assert!(unit.is_power_of_two() && unit >= disk.physical_block_size);
        if found.max_discard_sectors > 0 {
            prop_assert!(found.max_discard_sectors >= unit / 512);
        }
        let zeroed = found.max_write_zeroes_sectors;
        prop_assert!(zeroed == u32::MAX || zeroed % blocks == 0);
        prop_assert!([0, blocks].contains(&found.max_secure_erase_sectors.min(blocks)));

        // There is a warning for each operation that is offered and not used.
        let unused = [
            (discard.is_some(), found.max_discard_sectors),
            (write_zeroes.is_some(), found.max_write_zeroes_sectors),
            (secure_erase.is_some(), found.max_secure_erase_sectors),
        ];
        let unused = unused.iter().filter(|(offered, sectors)| *offered && *sectors == 0).count();
        prop_assert_eq!(warnings.len(), unused);
    }
}
