// SPDX-License-Identifier: GPL-2.0

//! How interrupts are suppressed while completions are collected: the values of the knob
//! `suppress`.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

use super::completion::{Plan, Rearm};
use super::named::named;

named! {
    /// What the completion handler does with the device's callbacks while it drains the used ring.
    pub enum Suppress: "off, loop, delayed" {
        /// Drain and leave callbacks on: the device may signal while the handler runs.
        Off = "off",
        /// Disable callbacks, drain until the ring is quiescent, enable.
        #[default]
        Loop = "loop",
        /// As [`Suppress::Loop`], but ask for the next signal only when three quarters of what is
        /// in flight is done (`virtqueue_enable_cb_delayed()`).
        Delayed = "delayed",
    }
}

impl Suppress {
    /// What a pass does in this mode.
    #[inline]
    pub const fn plan(self) -> Plan {
        match self {
            Self::Off => Plan {
                disable: false,
                rearm: Rearm::Quiescent,
            },
            Self::Loop => Plan {
                disable: true,
                rearm: Rearm::Quiescent,
            },
            Self::Delayed => Plan {
                disable: true,
                rearm: Rearm::Delayed,
            },
        }
    }
}
