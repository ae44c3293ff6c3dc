// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! One zone, and the states that it can be in.

use serde::Serialize;
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_ZS_CLOSED, VIRTIO_BLK_ZS_EMPTY, VIRTIO_BLK_ZS_EOPEN, VIRTIO_BLK_ZS_FULL,
    VIRTIO_BLK_ZS_IOPEN, VIRTIO_BLK_ZS_NOT_WP, VIRTIO_BLK_ZS_OFFLINE, VIRTIO_BLK_ZS_RDONLY,
    VIRTIO_BLK_ZT_CONV, VIRTIO_BLK_ZT_SWR,
};

/// The state of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// A conventional zone, which is written anywhere.
    Conventional,
    /// Nothing was written.
    Empty,
    /// Opened by a write.
    ImplicitlyOpen,
    /// Opened by a request to do so.
    ExplicitlyOpen,
    /// Written in part, and not open.
    Closed,
    /// No more can be written until the zone is reset.
    Full,
    /// Broken: it can be read only.
    ReadOnly,
    /// Broken: it cannot even be read.
    Offline,
}

impl State {
    /// The number that a zone report has for it (`VIRTIO_BLK_ZS_*`).
    pub fn number(self) -> u8 {
        let number = match self {
            Self::Conventional => VIRTIO_BLK_ZS_NOT_WP,
            Self::Empty => VIRTIO_BLK_ZS_EMPTY,
            Self::ImplicitlyOpen => VIRTIO_BLK_ZS_IOPEN,
            Self::ExplicitlyOpen => VIRTIO_BLK_ZS_EOPEN,
            Self::Closed => VIRTIO_BLK_ZS_CLOSED,
            Self::Full => VIRTIO_BLK_ZS_FULL,
            Self::ReadOnly => VIRTIO_BLK_ZS_RDONLY,
            Self::Offline => VIRTIO_BLK_ZS_OFFLINE,
        };
        number as u8
    }

    /// Whether the zone takes one of the open zones that there may be.
    pub fn is_open(self) -> bool {
        matches!(self, Self::ImplicitlyOpen | Self::ExplicitlyOpen)
    }

    /// Whether the zone takes one of the active zones that there may be.
    pub fn is_active(self) -> bool {
        self.is_open() || self == Self::Closed
    }
}

/// A zone. All places are sectors of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// Its first sector.
    pub start: u64,
    /// How many sectors it spans.
    pub length: u64,
    /// How many of them can be written.
    pub capacity: u64,
    /// What it is in.
    pub state: State,
    /// Behind the last sector that was written since the last reset: the write pointer, in states
    /// that have one.
    pub written: u64,
}

impl Zone {
    /// Behind its last sector.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Behind the last sector that can be written.
    pub fn limit(&self) -> u64 {
        self.start + self.capacity
    }

    /// The number that a zone report has for its type (`VIRTIO_BLK_ZT_*`).
    pub fn kind(&self) -> u8 {
        let number = match self.state {
            State::Conventional => VIRTIO_BLK_ZT_CONV,
            _ => VIRTIO_BLK_ZT_SWR,
        };
        number as u8
    }

    /// Where the next write has to begin; [`None`] in states for which that is undefined.
    pub fn write_pointer(&self) -> Option<u64> {
        match self.state {
            State::Empty | State::ImplicitlyOpen | State::ExplicitlyOpen | State::Closed => {
                Some(self.written)
            }
            State::Conventional | State::Full | State::ReadOnly | State::Offline => None,
        }
    }

    pub(super) fn reset(&mut self) {
        self.state = State::Empty;
        self.written = self.start;
    }

    pub(super) fn close(&mut self) {
        self.state = if self.written == self.start {
            State::Empty
        } else {
            State::Closed
        };
    }
}
