// SPDX-License-Identifier: GPL-2.0

//! The types of the knobs, as users write and read them.

use crate::{coalesce::Method, limits::Indirect, named::named, suppress::Suppress};
use kernel::{
    fmt::{self, Write},
    str::{parse_int::ParseInt, BStr},
};
use module_param::Value;

/// The largest depth that the block layer takes, `BLK_MQ_MAX_DEPTH`.
pub(crate) const MAX_DEPTH: u32 = 10240;

/// The largest number of queues that a device can have: `num_queues` has 16 bits.
pub(crate) const MAX_QUEUES: u32 = 65535;

/// The largest ring (virtio 1.2, section 2.7).
pub(crate) const MAX_RING: u32 = 32768;

/// The number of steps of a probe ([`Steps`](crate::fault::Steps)).
pub(crate) const MAX_PROBE_STEPS: u32 = 9;

/// The longest wait in microseconds.
pub(crate) const MAX_USECS: u32 = 100_000;

named! {
    /// What `used_event` says while callbacks are disabled, on a split ring with
    /// `VIRTIO_RING_F_EVENT_IDX`.
    pub(crate) enum Hint: "core, avail, behind" {
        /// What the virtio core leaves there.
        #[default]
        Core = "core",
        /// The next buffer that the driver will offer.
        Avail = "avail",
        /// Just behind the next used buffer.
        Behind = "behind",
    }
}

named! {
    /// What a lock is for.
    pub(crate) enum Scope: "queue, device" {
        /// Each queue has its own.
        #[default]
        Queue = "queue",
        /// The queues of a device share one, for comparison.
        Device = "device",
    }
}

named! {
    /// What a device does with a write before it ends it: the values of `writeback`.
    pub(crate) enum CacheMode: "write through, write back" {
        /// Makes it durable.
        WriteThrough = "write through",
        /// Takes it into a cache, which a flush makes durable.
        #[default]
        WriteBack = "write back",
    }
}

macro_rules! impl_value {
    ($($knob:ty),*) => {$(
        impl Value for $knob {
            const RANGE: &'static str = Self::RANGE;

            fn parse(text: &[u8]) -> Option<Self> {
                Self::parse(text)
            }

            fn to_raw(self) -> u32 {
                self as u32
            }

            fn from_raw(raw: u32) -> Self {
                Self::from_raw(raw)
            }

            fn show(self, out: &mut dyn Write) -> fmt::Result {
                out.write_str(self.name())
            }
        }
    )*};
}

impl_value!(Suppress, Method, Hint, Scope, Indirect, CacheMode);

/// A number from 0 to `MAX`.
#[derive(Clone, Copy)]
pub(crate) struct UpTo<const MAX: u32>(pub(crate) u32);

impl<const MAX: u32> Value for UpTo<MAX> {
    const RANGE: &'static str = match MAX {
        MAX_DEPTH => "the numbers from 0 to 10240",
        MAX_QUEUES => "the numbers from 0 to 65535",
        MAX_RING => "the numbers from 0 to 32768",
        MAX_PROBE_STEPS => "the numbers from 0 to 9",
        MAX_USECS => "the numbers from 0 to 100000",
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

/// Something that is on (1) or off (0).
#[derive(Clone, Copy)]
pub(crate) struct Switch(pub(crate) bool);

impl Value for Switch {
    const RANGE: &'static str = "0, 1";

    fn parse(text: &[u8]) -> Option<Self> {
        match text.trim_ascii() {
            b"0" => Some(Self(false)),
            b"1" => Some(Self(true)),
            _ => None,
        }
    }

    fn to_raw(self) -> u32 {
        self.0.into()
    }

    fn from_raw(raw: u32) -> Self {
        Self(raw != 0)
    }

    fn show(self, out: &mut dyn Write) -> fmt::Result {
        write!(out, "{}", self.to_raw())
    }
}
