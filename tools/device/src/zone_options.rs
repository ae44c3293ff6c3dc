// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the command line says about zones.

use crate::request::SECTOR;
use crate::zones::{Geometry, Lie, Zones};
use anyhow::{ensure, Result};
use clap::Args;
use virtio_bindings::virtio_blk::VIRTIO_BLK_Z_HM;

/// The longest append, in sectors, if none is given.
const MAX_APPEND: u32 = 1024;

/// Zones. The driver reads the values as they are, even if they make no sense.
#[derive(Debug, Clone, Args)]
pub struct ZoneOptions {
    /// Makes the disk a zoned one, with zones of so many sectors
    #[arg(long, value_name = "SECTORS")]
    pub zone_sectors: Option<u32>,

    /// How much of a zone can be written [default: all]
    #[arg(long, value_name = "SECTORS", requires = "zone_sectors")]
    pub zone_capacity: Option<u32>,

    /// How many zones at the start are conventional
    #[arg(long, value_name = "N", default_value_t = 0, requires = "zone_sectors")]
    pub zone_conventional: u32,

    /// Most zones that may be open at a time; 0: any number
    #[arg(long, value_name = "N", default_value_t = 0, requires = "zone_sectors")]
    pub zone_max_open: u32,

    /// Most zones that may be open or closed at a time; 0: any number
    #[arg(long, value_name = "N", default_value_t = 0, requires = "zone_sectors")]
    pub zone_max_active: u32,

    /// The longest append; 0: there is none [default: 1024, or a zone if that is less]
    #[arg(long, value_name = "SECTORS", requires = "zone_sectors")]
    pub zone_max_append: Option<u32>,

    /// What writes to sequential zones are a multiple of [default: the block size]
    #[arg(long, value_name = "BYTES", requires = "zone_sectors")]
    pub zone_write_granularity: Option<u32>,

    /// The model: 0 not zoned, 1 host-managed, 2 host-aware; only 1 makes zones
    #[arg(long, value_name = "N", default_value_t = VIRTIO_BLK_Z_HM as u8,
          requires = "zone_sectors")]
    pub zone_model: u8,

    /// How what is said about zones is false at first
    #[arg(long, value_name = "LIE", default_value_t, requires = "zone_sectors")]
    pub zone_lie: Lie,
}

impl ZoneOptions {
    /// The zones of a disk of `size` bytes, if it has any.
    pub fn zones(&self, size: u64, block_size: u32) -> Result<Option<Zones>> {
        let zone = match self.zone_sectors {
            Some(zone) if zone > 0 && u32::from(self.zone_model) == VIRTIO_BLK_Z_HM => zone,
            _ => return Ok(None),
        };
        let capacity = self.zone_capacity.unwrap_or(zone);
        ensure!(
            (1..=zone).contains(&capacity),
            "a zone of {zone} sectors cannot hold {capacity}: give 1 to {zone}"
        );
        Ok(Some(Zones::new(Geometry {
            disk: size / SECTOR,
            zone: zone.into(),
            capacity: capacity.into(),
            conventional: self.zone_conventional.into(),
            max_open: self.zone_max_open,
            max_active: self.zone_max_active,
            max_append: self.max_append(),
            granularity: self.granularity(block_size),
        })))
    }

    /// The fields `zoned` of the configuration space.
    pub fn characteristics(&self, block_size: u32) -> [u8; 24] {
        let mut bytes = [0; 24];
        let Some(zone_sectors) = self.zone_sectors else {
            return bytes;
        };
        let fields = [
            zone_sectors,
            self.zone_max_open,
            self.zone_max_active,
            self.max_append(),
            self.granularity(block_size),
            self.zone_model.into(),
        ];
        for (place, field) in bytes.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn max_append(&self) -> u32 {
        let zone = self.zone_sectors.unwrap_or_default();
        self.zone_max_append.unwrap_or(MAX_APPEND.min(zone))
    }

    fn granularity(&self, block_size: u32) -> u32 {
        self.zone_write_granularity.unwrap_or(block_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;

    fn options(line: &str) -> Result<ZoneOptions, String> {
        let words = ["vbr-device", "--socket", "s"].into_iter();
        match Options::try_parse_from(words.chain(line.split_whitespace())) {
            Ok(options) => Ok(options.zones),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_disk_has_no_zones_unless_it_is_told_to() {
        let options = options("").unwrap();
        assert!(options.zones(1 << 20, 512).unwrap().is_none());
        assert_eq!(options.characteristics(512), [0; 24]);
        let orphan = super::tests::options("--zone-max-open 3").unwrap_err();
        assert!(orphan.contains("--zone-sectors"), "{orphan}");
    }

    #[test]
    fn fields_lie_where_the_standard_has_them() {
        let line = "--zone-sectors 8192 --zone-max-open 3 --zone-max-active 5 --zone-model 2";
        let options = options(line).unwrap();
        let fields = [8192_u32, 3, 5, 1024, 4096, 2].map(u32::to_le_bytes);
        assert_eq!(options.characteristics(4096), fields.concat()[..]);
        assert!(options.zones(1 << 20, 4096).unwrap().is_none());
    }

    #[test]
    fn defaults_follow_from_the_zone() {
        let options = options("--zone-sectors 256 --zone-conventional 1").unwrap();
        let zones = options.zones(300 * 512, 512).unwrap().unwrap();
        let lengths: Vec<_> = zones.all().iter().map(|zone| zone.length).collect();
        assert_eq!(lengths, [256, 44]);
        assert_eq!(options.characteristics(512)[12..16], 256_u32.to_le_bytes());
    }

    #[test]
    fn a_zone_that_holds_too_much_is_named() {
        for capacity in ["0", "257"] {
            let line = format!("--zone-sectors 256 --zone-capacity {capacity}");
            let refused = options(&line).unwrap().zones(1 << 20, 512);
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(capacity) && message.contains("1 to 256"));
        }
        let message = options("--zone-sectors 1 --zone-lie big").unwrap_err();
        assert!(message.contains("big") && message.contains(Lie::NAMES));
    }
}
