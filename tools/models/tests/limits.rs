// SPDX-License-Identifier: GPL-2.0

//! Limits out of a configuration space in which anything may stand: what comes out passes the block
//! layer's own checks, or it is an error that names the value.

mod common;

use common::random;
use models::driver::limits::{
    max_queues, queue_depth, Config, Error, Limits, Machine, Ring, Topology, MIN_SEGMENT, SECTOR,
};
use proptest::prelude::*;

/// `BLK_MIN_SEGMENT_SIZE`.
const BLK_MIN_SEGMENT_SIZE: u32 = 4096;

const RING: Ring = Ring {
    size: 256,
    indirect: true,
};

const MACHINE: Machine = Machine {
    max_dma_size: usize::MAX,
    max_block_size: 65536,
};

/// What `blk_validate_limits()` in block/blk-settings.c demands, and what this driver promises.
fn assert_valid(limits: &Limits, config: &Config, ring: Ring, machine: Machine) {
    let Limits {
        logical_block_size: logical,
        physical_block_size: physical,
        ..
    } = *limits;
    assert!(logical.is_power_of_two(), "{limits:?}");
    assert!(
        (SECTOR..=machine.max_block_size).contains(&logical),
        "{limits:?}"
    );
    assert!(
        physical.is_power_of_two() && physical >= logical,
        "{limits:?}"
    );
    for offset in [limits.alignment_offset, limits.io_min, limits.io_opt] {
        assert_eq!(offset % logical, 0, "{limits:?}");
    }
    let segments = u32::from(limits.max_segments);
    assert!(segments >= 1 && segments + 2 <= ring.size, "{limits:?}");
    assert!(segments <= config.seg_max.unwrap_or(1).max(1), "{limits:?}");
    let longest = limits.max_segment_size;
    assert!(longest >= BLK_MIN_SEGMENT_SIZE, "{limits:?}");
    assert!(longest as usize <= machine.max_dma_size, "{limits:?}");
    assert!(longest <= config.size_max.unwrap_or(u32::MAX), "{limits:?}");
    let request = u64::from(segments) * u64::from(longest);
    assert!(request >= u64::from(logical), "{limits:?}");
}

/// An error has to name a value that is indeed unusable.
fn assert_justified(error: Error, config: &Config, ring: Ring, machine: Machine) {
    let text = error.to_string();
    match error {
        Error::BlockSize { blk_size, max } => {
            assert_eq!(
                (config.blk_size, machine.max_block_size),
                (Some(blk_size), max)
            );
            let good = blk_size.is_power_of_two() && (SECTOR..=max).contains(&blk_size);
            assert!(!good && blk_size != 0, "{text}");
            assert!(text.contains(&blk_size.to_string()) && text.contains(&max.to_string()));
        }
        Error::SegmentSize { size } => {
            assert!(size < MIN_SEGMENT, "{text}");
            let said = config.size_max.map(|size| size as usize);
            assert_eq!(
                size as usize,
                said.unwrap_or(usize::MAX).min(machine.max_dma_size)
            );
            assert!(text.contains(&size.to_string()) && text.contains(&MIN_SEGMENT.to_string()));
        }
        Error::RequestSize { bytes, blk_size } => {
            assert!(bytes < blk_size.into(), "{text}");
            assert_eq!(config.blk_size, Some(blk_size));
            assert!(text.contains(&bytes.to_string()) && text.contains(&blk_size.to_string()));
        }
        Error::RingTooSmall { size } => {
            assert_eq!(size, ring.size);
            assert!(size < 3 && text.contains(&size.to_string()), "{text}");
        }
        Error::NoQueues => panic!("limits do not depend on the number of queues"),
    }
}

fn with_block_size(blk_size: u32) -> Result<Limits, Error> {
    let config = Config {
        blk_size: Some(blk_size),
        ..Config::default()
    };
    Limits::new(&config, RING, MACHINE)
}

/// A request that could not hold one block is an error, not a disk on which all I/O fails.
#[test]
fn requests_shorter_than_a_block() {
    let config = Config {
        seg_max: Some(1),
        size_max: Some(4096),
        blk_size: Some(65536),
        ..Config::default()
    };
    let expected = Error::RequestSize {
        bytes: 4096,
        blk_size: 65536,
    };
    assert_eq!(Limits::new(&config, RING, MACHINE), Err(expected));
    let config = Config {
        seg_max: Some(16),
        ..config
    };
    assert!(Limits::new(&config, RING, MACHINE).is_ok());
}

/// Case 1: a block size of 0 means the default, any other invalid one is an error.
#[test]
fn block_sizes() {
    assert_eq!(
        with_block_size(0).map(|limits| limits.logical_block_size),
        Ok(SECTOR)
    );
    for blk_size in [512, 1024, 4096, 65536] {
        let size = with_block_size(blk_size).map(|limits| limits.logical_block_size);
        assert_eq!(size, Ok(blk_size));
    }
    for blk_size in [1, 256, 511, 513, 1536, 131_072, 0x8000_0000, u32::MAX] {
        let max = MACHINE.max_block_size;
        assert_eq!(
            with_block_size(blk_size),
            Err(Error::BlockSize { blk_size, max })
        );
    }
}

/// Case 3: at least one segment, no more than the ring has room for.
#[test]
fn segment_counts() {
    let known = [
        (None, 1),
        (Some(0), 1),
        (Some(1), 1),
        (Some(2), 2),
        (Some(u32::MAX), 254),
    ];
    for (seg_max, expected) in known {
        let config = Config {
            seg_max,
            ..Config::default()
        };
        let limits = Limits::new(&config, RING, MACHINE).unwrap();
        assert_eq!(limits.max_segments, expected, "{seg_max:?}");
    }
}

/// Case 4: segments are never longer than the device allows, and not too short for the block layer.
#[test]
fn segment_sizes() {
    let new = |size_max| {
        let config = Config {
            size_max: Some(size_max),
            ..Config::default()
        };
        Limits::new(&config, RING, MACHINE).map(|limits| limits.max_segment_size)
    };
    for size in [0, 1, 512, 4095] {
        assert_eq!(new(size), Err(Error::SegmentSize { size }));
    }
    for size in [4096, 65536, 65537, u32::MAX] {
        let longest = new(size).unwrap();
        assert!((MIN_SEGMENT..=size).contains(&longest), "{size}: {longest}");
    }
}

#[test]
fn rings_too_small_for_data_are_refused() {
    for size in 0..3 {
        let ring = Ring { size, ..RING };
        let limits = Limits::new(&Config::default(), ring, MACHINE);
        assert_eq!(limits, Err(Error::RingTooSmall { size }));
    }
    let ring = Ring { size: 3, ..RING };
    assert_eq!(
        Limits::new(&Config::default(), ring, MACHINE)
            .unwrap()
            .max_segments,
        1
    );
}

#[test]
fn queue_counts() {
    assert_eq!(max_queues(None, 0), Ok(1));
    assert_eq!(max_queues(None, 8), Ok(1));
    assert_eq!(max_queues(Some(8), 0), Ok(8));
    assert_eq!(max_queues(Some(8), 3), Ok(3));
    assert_eq!(max_queues(Some(3), 8), Ok(3));
    assert_eq!(max_queues(Some(0), 0), Err(Error::NoQueues));
    assert!(Error::NoQueues.to_string().contains("at least 1"));
}

/// Values around which something changes, and any others.
fn interesting() -> impl Strategy<Value = u32> {
    let power = (0..32u32).prop_map(|shift| 1 << shift);
    prop_oneof![
        power.clone(),
        power.clone().prop_map(|value| value - 1),
        power.prop_map(|value| value + 1),
        Just(u32::MAX),
        0..8u32,
        any::<u32>(),
    ]
}

fn topologies() -> impl Strategy<Value = Topology> {
    (any::<u8>(), any::<u8>(), any::<u16>(), interesting()).prop_map(|(exp, offset, min, opt)| {
        Topology {
            physical_block_exp: exp,
            alignment_offset: offset,
            min_io_size: min,
            opt_io_size: opt,
        }
    })
}

fn configs() -> impl Strategy<Value = Config> {
    (
        prop::option::of(interesting()),
        prop::option::of(interesting()),
        prop::option::of(interesting()),
        prop::option::of(topologies()),
    )
        .prop_map(|(seg_max, size_max, blk_size, topology)| Config {
            seg_max,
            size_max,
            blk_size,
            topology,
        })
}

fn rings() -> impl Strategy<Value = Ring> {
    let sizes = prop_oneof![
        0..8u32,
        (0..16u32).prop_map(|shift| 1 << shift),
        any::<u32>()
    ];
    (sizes, any::<bool>()).prop_map(|(size, indirect)| Ring { size, indirect })
}

fn machines() -> impl Strategy<Value = Machine> {
    let dma = prop_oneof![
        interesting().prop_map(|size| size as usize),
        Just(usize::MAX),
        Just(256 << 10),
    ];
    let blocks = prop::sample::select(vec![4096, 65536]);
    (dma, blocks).prop_map(|(max_dma_size, max_block_size)| Machine {
        max_dma_size,
        max_block_size,
    })
}

proptest! {
    #![proptest_config(random(20_000))]

    #[test]
    fn any_configuration_is_valid_or_refused(
        config in configs(),
        ring in rings(),
        machine in machines(),
    ) {
        match Limits::new(&config, ring, machine) {
            Ok(limits) => assert_valid(&limits, &config, ring, machine),
            Err(error) => assert_justified(error, &config, ring, machine),
        }
    }

    #[test]
    fn queues_are_within_both_bounds(offered in any::<Option<u16>>(), wanted in any::<u32>()) {
        match max_queues(offered, wanted) {
            Ok(count) => {
                prop_assert!(count >= 1 && count <= u32::from(offered.unwrap_or(1)));
                prop_assert!(wanted == 0 || count <= wanted);
            }
            Err(error) => prop_assert_eq!((error, offered), (Error::NoQueues, Some(0))),
        }
    }

    #[test]
    fn depth_is_as_wanted_or_what_the_ring_holds(ring in rings(), wanted in interesting()) {
        let depth = queue_depth(wanted, ring);
        prop_assert!(depth >= 1);
        prop_assert!(wanted == 0 || depth == wanted);
        let per_request = if ring.indirect { 1 } else { 2 };
        prop_assert!(wanted != 0 || depth == (ring.size / per_request).max(1));
    }
}
