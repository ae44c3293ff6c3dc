// SPDX-License-Identifier: GPL-2.0

//! The coalescing of interrupts: how many completions, and how long, the next signal may wait for.
//!
//! The knobs bound the wait; the load decides. [`Policy::plan`] is asked at the start of a pass,
//! [`Policy::learn`] is told what the pass found.
//!
//! # Nothing waits for long at low depth
//!
//! The load is the depth: the most requests that recent passes found in flight. Below
//! [`Coalesce::min_in_flight`], and while an urgent request is in flight, nothing waits. The depth
//! follows a rise at once, and after a fall loses a sixteenth at each pass, or, where waits are
//! long, for each [`FALL_USECS`] of the wait: so that a few short passes in the middle of a load
//! change nothing, which is the hysteresis, and that a load that has gone is forgotten within some
//! 20 ms. A signal that comes as it was asked for is no fall, unless hardly anything was in
//! flight: it says nothing of what more could have been.
//!
//! # Adaptation
//!
//! With [`Coalesce::adaptive`] the time follows what a pass finds when it starts:
//!
//! - It has interrupted a task: the processor has other work than this completion, and a wait saves
//!   it something. The time grows by an eighth.
//! - The processor was idle, so somebody may have waited for this. What that costs is measured by
//!   the depth. If all but an eighth of it is in flight still, the wait was short beside the time
//!   that a request takes anyway: the time grows by an eighth. If more than half is, it stays; if
//!   less, it shrinks by an eighth. If but an eighth is left, the device had run dry, and nothing
//!   at all went on: the time shrinks by half.
//!
//! Below [`MIN_USECS`] nothing waits.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

use super::completion::{Plan, Rearm};
use super::named::named;
use super::suppress::Suppress;

/// The longest wait of the adaptive mode if the user sets no bound, in microseconds.
pub const ADAPTIVE_USECS: u32 = 2000;

/// The shortest wait of the adaptive mode, in microseconds, unless the user's bound is shorter: a
/// shorter one costs more than it saves.
pub const MIN_USECS: u32 = 20;

/// The time in which the depth loses a sixteenth after a fall, in microseconds.
pub const FALL_USECS: u32 = 500;

named! {
    /// How a wait is put to the device.
    pub enum Method: "auto, event, timer" {
        /// What is best for the ring.
        #[default]
        Auto = "auto",
        /// A signal is asked for some buffers ahead, and a timer bounds the wait. Only a split ring
        /// with `VIRTIO_RING_F_EVENT_IDX` can do that; elsewhere it is [`Method::Timer`].
        Event = "event",
        /// No signal is asked for, and a timer polls.
        Timer = "timer",
    }
}

impl Method {
    /// The method on a ring that can ask for a signal at any buffer, or not.
    pub const fn on(self, can_count: bool) -> Self {
        match self {
            Self::Event if can_count => Self::Event,
            _ => Self::Timer,
        }
    }
}

/// The settings of coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// The longest wait in microseconds. 0: nothing waits, or, if adaptive, [`ADAPTIVE_USECS`].
    pub usecs: u32,
    /// The completions that end a wait; 0: only time does.
    pub reqs: u32,
    /// How a wait is put to the device.
    pub method: Method,
    /// Below so many requests in flight nothing waits.
    pub min_in_flight: u32,
    /// The wait follows the load, within the bounds of the others.
    pub adaptive: bool,
}

impl Coalesce {
    /// Whether anything ever waits.
    pub const fn is_on(&self) -> bool {
        self.usecs > 0 || self.adaptive
    }

    /// The longest wait, in microseconds.
    const fn max_usecs(&self) -> u32 {
        match self.usecs {
            0 => ADAPTIVE_USECS,
            usecs => usecs,
        }
    }
}

/// What is in flight when a pass starts: what it will collect is included.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests that were submitted and not collected.
    pub in_flight: u32,
    /// One of them must not wait.
    pub urgent: bool,
    /// The pass is the device's signal, not the timer's: what was waited for has come.
    pub signalled: bool,
}

/// How long the next signal may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Completions that end the wait.
    pub reqs: u16,
    /// Time that ends it, in microseconds.
    pub usecs: u32,
}

/// What a pass found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Requests that it left in flight.
    pub left: u32,
    /// It interrupted the idle task.
    pub idle: bool,
}

/// The memory of the coalescing of a queue, guarded by the queue's lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    depth: u32,
    usecs: u32,
    /// The last pass left a wait behind.
    waits: bool,
}

impl Policy {
    /// A policy that has seen nothing yet.
    pub const fn new() -> Self {
        Self {
            depth: 0,
            usecs: 0,
            waits: false,
        }
    }

    /// The depth: requests.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// What a pass does, and how long the signal after it may wait; [`None`] if it may not.
    /// `can_count` tells whether the ring can ask for a signal at any buffer.
    #[inline]
    pub fn plan(
        &mut self,
        suppress: Suppress,
        settings: &Coalesce,
        load: Load,
        can_count: bool,
    ) -> (Plan, Option<Wait>) {
        let plan = suppress.plan();
        if !settings.is_on() {
            return (plan, None);
        }
        let wait = self.wait(settings, load);
        let rearm = match (wait, settings.method.on(can_count)) {
            (None, _) => Rearm::Quiescent,
            (Some(wait), Method::Event) => Rearm::Ahead(wait.reqs),
            (Some(_), _) => Rearm::Timer,
        };
        (Plan { rearm, ..plan }, wait)
    }

    #[inline]
    fn wait(&mut self, settings: &Coalesce, load: Load) -> Option<Wait> {
        let min_in_flight = settings.min_in_flight.max(2);
        let as_asked = load.signalled && self.waits && load.in_flight >= min_in_flight;
        if !as_asked {
            let waited = if settings.adaptive {
                self.usecs
            } else {
                settings.usecs
            };
            let steps = (waited / FALL_USECS).clamp(1, 16);
            let fall = self.depth.div_ceil(16).saturating_mul(steps);
            self.depth = self.depth.saturating_sub(fall);
        }
        self.depth = self.depth.max(load.in_flight);
        // More than what is in flight would never come.
        let (usecs, most) = if settings.adaptive {
            let max = settings.max_usecs();
            self.usecs = self.usecs.min(max);
            let usecs = if self.usecs < MIN_USECS.min(max) {
                0
            } else {
                self.usecs
            };
            (usecs, self.depth - self.depth / 4)
        } else {
            (settings.usecs, self.depth)
        };
        self.waits = !load.urgent && self.depth >= min_in_flight && usecs > 0;
        if !self.waits {
            return None;
        }
        let reqs = match settings.reqs {
            0 => most,
            reqs => reqs.min(most),
        };
        Some(Wait {
            reqs: u16::try_from(reqs).unwrap_or(u16::MAX),
            usecs,
        })
    }

    /// Adapts the wait to what a pass found.
    #[inline]
    pub fn learn(&mut self, found: Found) {
        let step = self.usecs / 8 + 1;
        let grown = self.usecs.saturating_add(step).max(MIN_USECS / 2);
        let eighth = self.depth / 8;
        self.usecs = if !found.idle || found.left >= self.depth - eighth {
            grown
        } else if found.left > self.depth / 2 {
            self.usecs
        } else if found.left > eighth {
            self.usecs.saturating_sub(step)
        } else {
            self.usecs / 2
        };
    }
}
