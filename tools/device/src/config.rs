// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the driver can read about the disk: features and configuration space.

use crate::lifetime;
use crate::options::Options;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH,
    VIRTIO_BLK_F_MQ, VIRTIO_BLK_F_SECURE_ERASE, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX,
    VIRTIO_BLK_F_WRITE_ZEROES, VIRTIO_BLK_F_ZONED,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

/// Bytes of the configuration space: `struct virtio_blk_config` with all its extensions.
pub const CONFIG_SIZE: usize = 96;

/// Where the write-back switch lies in it.
pub const WCE: usize = 32;

/// The features that are offered.
pub fn features(options: &Options) -> u64 {
    let mut bits = vec![
        VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_BLK_SIZE,
        VIRTIO_BLK_F_FLUSH,
        VIRTIO_BLK_F_CONFIG_WCE,
        VIRTIO_F_VERSION_1,
    ];
    if options.size_max.is_some() {
        bits.push(VIRTIO_BLK_F_SIZE_MAX);
    }
    if options.lifetime.is_some() {
        bits.push(lifetime::FEATURE);
    }
    if options.num_queues > 1 {
        bits.push(VIRTIO_BLK_F_MQ);
    }
    if options.zones.zone_sectors.is_some() {
        bits.push(VIRTIO_BLK_F_ZONED);
    }
    for (offered, bit) in [
        (options.discard, VIRTIO_BLK_F_DISCARD),
        (options.write_zeroes, VIRTIO_BLK_F_WRITE_ZEROES),
        (options.secure_erase, VIRTIO_BLK_F_SECURE_ERASE),
    ] {
        bits.extend(offered.map(|_| bit));
    }
    if options.event_idx {
        bits.push(VIRTIO_RING_F_EVENT_IDX);
    }
    if options.indirect {
        bits.push(VIRTIO_RING_F_INDIRECT_DESC);
    }
    bits.into_iter()
        .fold(0, |features, bit| features | (1 << bit))
}

/// The configuration space of a disk of `size` bytes.
pub fn space(options: &Options, size: u64) -> [u8; CONFIG_SIZE] {
    let mut space = [0; CONFIG_SIZE];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(size / crate::request::SECTOR).to_le_bytes());
    put(8, &options.size_max.unwrap_or_default().to_le_bytes());
    put(12, &options.seg_max().to_le_bytes());
    put(20, &options.block_size.to_le_bytes());
    put(WCE, &[options.write_cache]);
    put(34, &options.num_queues.to_le_bytes());
    if let Some(fields) = options.discard {
        put(36, &fields.sectors.to_le_bytes());
        put(40, &fields.ranges.to_le_bytes());
        put(44, &fields.alignment.to_le_bytes());
    }
    if let Some(fields) = options.write_zeroes {
        put(48, &fields.sectors.to_le_bytes());
        put(52, &fields.ranges.to_le_bytes());
        // What is zeroed with the flag that allows it may lose its place.
        put(56, &[1]);
    }
    if let Some(fields) = options.secure_erase {
        put(60, &fields.sectors.to_le_bytes());
        put(64, &fields.ranges.to_le_bytes());
        put(68, &fields.alignment.to_le_bytes());
    }
    put(72, &options.zones.characteristics(options.block_size));
    space
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn options(more: &[&str]) -> Options {
        Options::parse_from(["vbr-device", "--socket", "s"].iter().chain(more))
    }

    #[test]
    fn switches_take_features_away() {
        let all = features(&options(&["--num-queues", "2"]));
        for (line, bit) in [
            (["--event-idx", "off"], VIRTIO_RING_F_EVENT_IDX),
            (["--indirect", "off"], VIRTIO_RING_F_INDIRECT_DESC),
            (["--num-queues", "1"], VIRTIO_BLK_F_MQ),
        ] {
            let line: Vec<_> = ["--num-queues", "2"].into_iter().chain(line).collect();
            let line = if bit == VIRTIO_BLK_F_MQ {
                &line[2..]
            } else {
                &line[..]
            };
            assert_eq!(features(&options(line)), all & !(1 << bit));
        }
    }

    #[test]
    fn a_limit_of_segments_is_offered_if_there_is_one() {
        let (without, with) = (options(&[]), options(&["--size-max", "4097"]));
        let bit = 1 << VIRTIO_BLK_F_SIZE_MAX;
        assert_eq!(features(&with), features(&without) | bit);
        assert_eq!(space(&with, 512)[8..12], 4097_u32.to_le_bytes());
    }

    #[test]
    fn a_lifetime_is_offered_if_there_is_one() {
        let (without, with) = (options(&[]), options(&["--lifetime", "1,2,3"]));
        assert_eq!(features(&with), features(&without) | (1 << 15));
    }

    #[test]
    fn fields_lie_where_the_standard_has_them() {
        let options = options(&["--num-queues", "3", "--queue-size", "64"]);
        let space = space(&options, 1 << 30);
        assert_eq!(space[..8], (1_u64 << 21).to_le_bytes());
        assert_eq!(space[8..16], [0, 0, 0, 0, 62, 0, 0, 0]);
        assert_eq!(space[20..24], 512_u32.to_le_bytes());
        assert_eq!((space[WCE], space[34], space[35]), (1, 3, 0));
        assert_eq!(space[36..], [0; 60]);
    }

    #[test]
    fn operations_on_ranges_are_offered_with_their_limits() {
        let all = [
            "--discard",
            "1,2,3",
            "--write-zeroes",
            "4,5,0",
            "--secure-erase",
            "6,7,8",
        ];
        let (without, with) = (options(&[]), options(&all));
        let bits = [13, 14, 16].map(|bit| 1 << bit).iter().sum::<u64>();
        assert_eq!(features(&with), features(&without) | bits);
        let space = space(&with, 512);
        let words = space[36..72].chunks(4);
        let words: Vec<_> = words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words, [1, 2, 3, 4, 5, 1, 6, 7, 8]);
    }
}
