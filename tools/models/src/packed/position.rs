// SPDX-License-Identifier: GPL-2.0

//! A place in a packed ring: an offset and a wrap counter.

/// `VRING_PACKED_EVENT_F_WRAP_CTR`, as a bit.
const WRAP: u16 = 1 << 15;

/// A place in a ring of a certain size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: u16,
    /// Flips each time that the offset wraps.
    pub(super) wrap: bool,
}

impl Position {
    /// Where both sides start.
    pub(super) const START: Self = Self {
        offset: 0,
        wrap: true,
    };

    /// The place `count` further, no more than once around.
    pub(super) fn plus(self, count: u16, size: u16) -> Self {
        let offset = self.offset + count;
        if offset < size {
            return Self { offset, ..self };
        }
        Self {
            offset: offset - size,
            wrap: !self.wrap,
        }
    }

    /// How far `self` is behind `other`, which must be ahead, no more than once around.
    pub(super) fn distance_to(self, other: Self, size: u16) -> u16 {
        let around = if self.wrap == other.wrap { 0 } else { size };
        (other.offset + around).wrapping_sub(self.offset)
    }

    /// As `off_wrap` and `last_used_idx` have it.
    pub(super) fn to_raw(self) -> u16 {
        self.offset | if self.wrap { WRAP } else { 0 }
    }

    pub(super) fn from_raw(raw: u16) -> Self {
        Self {
            offset: raw & !WRAP,
            wrap: raw & WRAP != 0,
        }
    }
}
