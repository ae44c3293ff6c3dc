// SPDX-License-Identifier: GPL-2.0

//! The module's parameters: the defaults for disks that are bound from now on.

use crate::suppress::Suppress;
use kernel::{
    fmt::{self, Write},
    str::parse_int::ParseInt,
    str::BStr,
};
use module_param::Value;

/// The largest depth that the block layer takes, `BLK_MQ_MAX_DEPTH`.
const MAX_DEPTH: u32 = 10240;

/// The largest number of queues that a device can have: `num_queues` has 16 bits.
const MAX_QUEUES: u32 = 65535;

module_param::params! {
    /// The mode of interrupt suppression for new disks.
    pub(crate) static SUPPRESS: Suppress = Suppress::Loop as u32;
    name: "suppress",
    type: "string",
    description: "Interrupt suppression of new disks: off (drain without disabling callbacks), \
        loop (disable, drain, enable until quiescent; the default), delayed (as loop, but ask for \
        a signal only when 3/4 of what is in flight is done). Per disk: /sys/block/vdX/suppress",

    /// The most queues of new disks; 0 for no limit.
    pub(crate) static NUM_REQUEST_QUEUES: UpTo<MAX_QUEUES> = 0;
    name: "num_request_queues",
    type: "uint",
    description: "Limit of the number of request queues of new disks, 0 to 65535; 0 (the default) \
        for no limit. There are never more than CPUs",

    /// The depth of the queues of new disks; 0 to fill the ring.
    pub(crate) static QUEUE_DEPTH: UpTo<MAX_DEPTH> = 0;
    name: "queue_depth",
    type: "uint",
    description: "Requests in flight per queue of new disks, 0 to 10240; 0 (the default) fills the \
        ring",
}

/// A number from 0 to `MAX`.
#[derive(Clone, Copy)]
pub(crate) struct UpTo<const MAX: u32>(pub(crate) u32);

impl<const MAX: u32> Value for UpTo<MAX> {
    const RANGE: &'static str = match MAX {
        MAX_QUEUES => "the numbers from 0 to 65535",
        MAX_DEPTH => "the numbers from 0 to 10240",
        _ => panic!("a maximum without a text"),
    };

    fn parse(text: &[u8]) -> Option<Self> {
        u32::from_str(BStr::from_bytes(text.trim_ascii()))
            .ok()
            .filter(|value| *value <= MAX)
            .map(Self)
    }

    fn to_raw(self) -> u32 {
        self.0
    }

    fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    fn show(self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl Value for Suppress {
    const RANGE: &'static str = Self::RANGE;

    fn parse(text: &[u8]) -> Option<Self> {
        Self::parse(text)
    }

    fn to_raw(self) -> u32 {
        self as u32
    }

    fn from_raw(raw: u32) -> Self {
        Self::from_raw(raw as u8)
    }

    fn show(self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(self.name())
    }
}
