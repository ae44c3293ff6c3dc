// SPDX-License-Identifier: GPL-2.0

//! The completion protocol: disable callbacks, drain the used ring, enable callbacks, and repeat
//! until the ring is quiescent.
//!
//! This is the one copy of the loop. The driver runs it on the kernel's virtqueue; the host runs
//! the same file on a model of the ring and lets a model device complete requests at every
//! possible point of it. The file is pure: it imports nothing but `core`.
//!
//! # Why no wakeup is lost
//!
//! The handler may only go idle in two ways:
//!
//! - After [`Ring::enable_cb`] returned `true`: callbacks were on *before* the ring was seen empty,
//!   so whatever the device adds later, it signals. After the delayed variant: the signal was asked
//!   for a buffer that the ring did not hold yet, so it will come, for what is in the ring as well.
//! - With callbacks on all the time ([`Suppress::Off`]), after [`Ring::get_buf`] found nothing:
//!   a ring with callbacks on asks for a signal for the next buffer each time that it hands one
//!   out, and looks at the ring again after that.
//!
//! In every other case it goes round again, or reports [`End::Budget`]: then callbacks are off, and
//! the caller owes another call of [`Handler::run`].

use super::suppress::Suppress;

/// What the protocol needs of a virtqueue. Everything is called under the queue's lock.
pub trait Ring {
    /// A buffer that the device has returned.
    type Buf;

    /// Tells the device that no signal is wanted; a hint that the device may miss.
    /// C function: `virtqueue_disable_cb()`.
    fn disable_cb(&mut self);

    /// Asks for a signal at the next used buffer, then looks at the ring: `false` if buffers are
    /// there that arrived too early to be signalled. Callbacks are on in either case.
    /// C function: `virtqueue_enable_cb()`.
    fn enable_cb(&mut self) -> bool;

    /// As [`Ring::enable_cb`], but the signal may come only after many more buffers, the last one
    /// in flight at the latest; `false` only if as many are there already. C function:
    /// `virtqueue_enable_cb_delayed()`.
    fn enable_cb_delayed(&mut self) -> bool;

    /// Takes the next used buffer. With callbacks on, this also asks for a signal for the one after
    /// it, before it looks at the ring the next time. C function: `virtqueue_get_buf()`.
    fn get_buf(&mut self) -> Option<Self::Buf>;
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Callbacks are on, and the device will signal what is in the ring or will be. (Nothing is,
    /// but in [`Suppress::Delayed`].)
    Quiescent,
    /// The budget is used up and callbacks are off: the caller must run another pass soon.
    Budget,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// How often the ring was drained.
    pub drains: u32,
    /// How many buffers were taken.
    pub completions: u32,
    /// Why the pass ended.
    pub end: End,
}

/// The handler's memory between passes, one per queue, guarded by the queue's lock.
#[derive(Debug, Default)]
pub struct Handler {
    /// Callbacks are off since a pass ended with [`End::Budget`].
    callbacks_off: bool,
}

impl Handler {
    /// A handler for a fresh virtqueue, whose callbacks are on.
    pub const fn new() -> Self {
        Self {
            callbacks_off: false,
        }
    }

    /// Whether another pass is owed: the last one ended with [`End::Budget`].
    pub const fn is_owed(&self) -> bool {
        self.callbacks_off
    }

    /// Runs the protocol until the ring is quiescent or `budget` buffers were taken, and hands each
    /// buffer to `take`. A budget of 0 counts as 1, so that every pass makes progress.
    ///
    /// The mode may differ from one pass to the next.
    #[inline]
    pub fn run<R: Ring>(
        &mut self,
        ring: &mut R,
        suppress: Suppress,
        budget: u32,
        mut take: impl FnMut(R::Buf),
    ) -> Pass {
        let mut pass = Pass {
            drains: 0,
            completions: 0,
            end: End::Quiescent,
        };
        loop {
            if suppress != Suppress::Off {
                ring.disable_cb();
                self.callbacks_off = true;
            }
            pass.drains = pass.drains.wrapping_add(1);
            while let Some(buf) = ring.get_buf() {
                take(buf);
                pass.completions = pass.completions.wrapping_add(1);
                if pass.completions >= budget {
                    ring.disable_cb();
                    self.callbacks_off = true;
                    pass.end = End::Budget;
                    return pass;
                }
            }
            if !self.callbacks_off {
                return pass;
            }
            self.callbacks_off = false;
            let quiescent = match suppress {
                Suppress::Delayed => ring.enable_cb_delayed(),
                Suppress::Off | Suppress::Loop => ring.enable_cb(),
            };
            if quiescent {
                return pass;
            }
        }
    }
}
