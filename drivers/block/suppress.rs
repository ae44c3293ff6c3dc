// SPDX-License-Identifier: GPL-2.0

//! How interrupts are suppressed while completions are collected: the values of the knob
//! `suppress`.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

use core::fmt;

/// What the completion handler does with the device's callbacks while it drains the used ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Suppress {
    /// Drain once and leave callbacks on: the device may signal while the handler runs.
    Off = 0,
    /// Disable callbacks, drain, enable, and repeat until the ring is quiescent.
    #[default]
    Loop = 1,
    /// As [`Suppress::Loop`], but ask for the next signal only when three quarters of what is in
    /// flight is done (`virtqueue_enable_cb_delayed()`).
    Delayed = 2,
}

impl Suppress {
    /// Every value, in the order of its number.
    pub const ALL: [Self; 3] = [Self::Off, Self::Loop, Self::Delayed];

    /// What a user may write, for messages.
    pub const RANGE: &'static str = "off, loop, delayed";

    /// The name under which users see the value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Loop => "loop",
            Self::Delayed => "delayed",
        }
    }

    /// The value with the number `raw`; the default, [`Suppress::Loop`], if there is none.
    #[inline]
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0 => Self::Off,
            2 => Self::Delayed,
            _ => Self::Loop,
        }
    }

    /// Parses a name, with or without the newline that `echo` writes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = text.trim_ascii();
        Self::ALL
            .into_iter()
            .find(|value| value.name().as_bytes() == text)
    }
}

impl fmt::Display for Suppress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
