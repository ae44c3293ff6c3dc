// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Names of the features that a driver and a block device have agreed on.

/// Bits of virtio-blk, of the rings and of the transport, by number.
const NAMES: [(usize, &str); 30] = [
    (0, "VIRTIO_BLK_F_BARRIER"),
    (1, "VIRTIO_BLK_F_SIZE_MAX"),
    (2, "VIRTIO_BLK_F_SEG_MAX"),
    (4, "VIRTIO_BLK_F_GEOMETRY"),
    (5, "VIRTIO_BLK_F_RO"),
    (6, "VIRTIO_BLK_F_BLK_SIZE"),
    (7, "VIRTIO_BLK_F_SCSI"),
    (9, "VIRTIO_BLK_F_FLUSH"),
    (10, "VIRTIO_BLK_F_TOPOLOGY"),
    (11, "VIRTIO_BLK_F_CONFIG_WCE"),
    (12, "VIRTIO_BLK_F_MQ"),
    (13, "VIRTIO_BLK_F_DISCARD"),
    (14, "VIRTIO_BLK_F_WRITE_ZEROES"),
    (15, "VIRTIO_BLK_F_LIFETIME"),
    (16, "VIRTIO_BLK_F_SECURE_ERASE"),
    (17, "VIRTIO_BLK_F_ZONED"),
    (24, "VIRTIO_F_NOTIFY_ON_EMPTY"),
    (27, "VIRTIO_F_ANY_LAYOUT"),
    (28, "VIRTIO_RING_F_INDIRECT_DESC"),
    (29, "VIRTIO_RING_F_EVENT_IDX"),
    (32, "VIRTIO_F_VERSION_1"),
    (33, "VIRTIO_F_ACCESS_PLATFORM"),
    (34, "VIRTIO_F_RING_PACKED"),
    (35, "VIRTIO_F_IN_ORDER"),
    (36, "VIRTIO_F_ORDER_PLATFORM"),
    (37, "VIRTIO_F_SR_IOV"),
    (38, "VIRTIO_F_NOTIFICATION_DATA"),
    (39, "VIRTIO_F_NOTIF_CONFIG_DATA"),
    (40, "VIRTIO_F_RING_RESET"),
    (41, "VIRTIO_F_ADMIN_VQ"),
];

/// Decodes the text of a virtio device's `features` file in sysfs: a `0` or `1` a bit, from bit 0
/// up. A bit without a name is called by its number.
pub fn feature_names(text: &str) -> Vec<String> {
    let name = |bit: usize| {
        let known = NAMES.iter().find(|(number, _)| *number == bit);
        known.map_or_else(|| format!("bit {bit}"), |(_, name)| (*name).to_owned())
    };
    let set = text
        .trim()
        .chars()
        .enumerate()
        .filter(|(_, digit)| *digit == '1');
    set.map(|(bit, _)| name(bit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_count_from_the_left() {
        let mut text = "0".repeat(64);
        text.replace_range(2..3, "1");
        text.replace_range(29..30, "1");
        text.replace_range(63..64, "1");
        assert_eq!(
            feature_names(&(text + "\n")),
            ["VIRTIO_BLK_F_SEG_MAX", "VIRTIO_RING_F_EVENT_IDX", "bit 63"]
        );
    }

    #[test]
    fn names_are_in_order_and_unique() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
    }
}
