// SPDX-License-Identifier: GPL-2.0

//! The completion protocol: disable callbacks, drain the used ring, arm callbacks, and repeat until
//! the ring is quiescent.
//!
//! This is the one copy of the loop. The driver runs it on the kernel's virtqueue; the host runs
//! the same file on a model of the ring and lets a model device complete requests at every
//! possible point of it. The file is pure: it imports nothing but `core`.
//!
//! What a pass does is its [`Plan`]: whether callbacks are off while it drains, and what it asks
//! the device for at the end. Plans come from the modes of suppression and from the coalescing of
//! interrupts; the protocol takes any of them at any pass.
//!
//! To end requests takes longer than to collect them, and happens without the queue's lock. What
//! the device returns meanwhile belongs to the same visit: a pass that found something ends with
//! [`End::Again`], and the caller ends what that was. Only then it asks for a signal
//! ([`Handler::rest`]), and runs the next pass if there is something again.
//!
//! # Why no wakeup is lost
//!
//! The handler may only go idle in three ways:
//!
//! - [`End::Quiescent`] or [`Handler::rest`], after [`Ring::enable_cb`] returned `true`: callbacks
//!   were on *before* the ring was seen empty, so whatever the device adds later, it signals. After
//!   the delayed variant: the signal was asked for a buffer that the ring did not hold yet, so it
//!   will come, for what is in the ring as well.
//! - [`End::Quiescent`] with callbacks on all the time, after [`Ring::get_buf`] found nothing: a
//!   ring with callbacks on asks for a signal for the next buffer each time that it hands one out,
//!   and looks at the ring again after that.
//! - [`End::Late`]: no signal was asked for, or one that may never come, because nothing says that
//!   so many buffers will be in flight. The caller owes another pass within a time of its choice.
//!   A pass that finds nothing does not end so, whatever its plan: it asks for the next buffer. So
//!   the passes end when the completions do.
//!
//! In every other case it goes round again, or reports that another call must follow: by
//! [`End::Again`] to its caller, who makes it in the same context; by [`End::Budget`] to anybody
//! ([`Handler::is_owed`]).

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

    /// As [`Ring::enable_cb`], but the signal comes with the buffer number `count`, 1 being the
    /// next one; `false` if as many are there already. The core goes on as if callbacks were off.
    /// A ring that cannot count asks for no signal.
    fn enable_cb_ahead(&mut self, count: u16) -> bool;

    /// Takes the next used buffer. With callbacks on, this also asks for a signal for the one after
    /// it, before it looks at the ring the next time. C function: `virtqueue_get_buf()`.
    fn get_buf(&mut self) -> Option<Self::Buf>;
}

/// What is asked of the device when the ring has been drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// A signal at the next buffer.
    Next,
    /// The same, but only once what was found is dealt with, by [`Handler::rest`].
    Quiescent,
    /// A signal when most of what is in flight is done.
    Delayed,
    /// A signal at the buffer of this number from now, or the caller's pass if that is earlier.
    Ahead(u16),
    /// No signal: the caller's pass collects what comes.
    Timer,
    /// No signal, ever: the queue is polled.
    Never,
}

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Callbacks are disabled before each drain.
    pub disable: bool,
    /// How the pass ends.
    pub rearm: Rearm,
}

impl Plan {
    /// The plan of a pass after which the next buffer is signalled, whatever it found.
    pub const REARM: Self = Self {
        disable: true,
        rearm: Rearm::Next,
    };

    /// The plan while `in_flight` buffers are the device's: after the last of them there is nothing
    /// to look for again.
    #[must_use]
    pub const fn at(self, in_flight: u32) -> Self {
        match self.rearm {
            Rearm::Quiescent if in_flight <= 1 => Self {
                rearm: Rearm::Next,
                ..self
            },
            _ => self,
        }
    }

    /// The plan of a queue that is polled and has no signal.
    pub const POLL: Self = Self {
        disable: true,
        rearm: Rearm::Never,
    };
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Callbacks are on, and the device will signal what is in the ring or will be. (Nothing is,
    /// but after [`Rearm::Delayed`].)
    Quiescent,
    /// The device may signal late, or not at all: the caller must run another pass in time.
    Late,
    /// Something was found; callbacks are as they were during the drain. The caller must call
    /// [`Handler::rest`] as soon as it has ended what it got.
    Again,
    /// The budget is used up and callbacks are off: somebody must run another pass soon.
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

/// What the device was last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Callbacks {
    /// A signal at the next buffer, or at one that is in flight.
    #[default]
    On,
    /// A signal that may never come, or none; a pass will run in time.
    Late,
    /// No signal, while a pass runs or its caller deals with what it found.
    Off,
    /// No signal, and it is anybody's turn to run a pass.
    Owed,
}

/// The handler's memory between passes, one per queue, guarded by the queue's lock.
#[derive(Debug, Default)]
pub struct Handler {
    callbacks: Callbacks,
}

impl Handler {
    /// A handler for a fresh virtqueue, whose callbacks are on.
    pub const fn new() -> Self {
        Self {
            callbacks: Callbacks::On,
        }
    }

    /// Whether another pass is owed at once: the last one ended with [`End::Budget`], or
    /// [`Handler::hasten`] found buffers.
    pub const fn is_owed(&self) -> bool {
        matches!(self.callbacks, Callbacks::Owed)
    }

    /// Runs a pass of the protocol, which takes up to `budget` buffers and hands each to `take`. A
    /// budget of 0 counts as 1, so that every pass makes progress.
    #[inline]
    pub fn run<R: Ring>(
        &mut self,
        ring: &mut R,
        plan: Plan,
        budget: u32,
        mut take: impl FnMut(R::Buf),
    ) -> Pass {
        let mut pass = Pass {
            drains: 0,
            completions: 0,
            end: End::Quiescent,
        };
        if self.is_owed() {
            self.callbacks = Callbacks::Off;
        }
        loop {
            if plan.disable {
                ring.disable_cb();
                self.callbacks = Callbacks::Off;
            }
            pass.drains = pass.drains.wrapping_add(1);
            while let Some(buf) = ring.get_buf() {
                take(buf);
                pass.completions = pass.completions.wrapping_add(1);
                if pass.completions >= budget {
                    ring.disable_cb();
                    self.callbacks = Callbacks::Owed;
                    pass.end = End::Budget;
                    return pass;
                }
            }
            if plan.rearm == Rearm::Quiescent && pass.completions > 0 {
                pass.end = End::Again;
                return pass;
            }
            if let Some(end) = self.rearm(ring, plan.rearm, pass.completions > 0) {
                pass.end = end;
                return pass;
            }
        }
    }

    /// Goes idle after [`End::Again`], with a signal at the next buffer. Returns `false` if there
    /// is or may be one already: then the caller must run another pass at once.
    #[inline]
    pub fn rest<R: Ring>(&mut self, ring: &mut R) -> bool {
        let off = self.callbacks == Callbacks::Off;
        if off {
            self.callbacks = Callbacks::On;
        }
        off && ring.enable_cb()
    }

    /// Ends a pass that has drained the ring; [`None`] if there is something in it again.
    #[inline]
    fn rearm<R: Ring>(&mut self, ring: &mut R, rearm: Rearm, found: bool) -> Option<End> {
        let (idle, callbacks, end) = match rearm {
            Rearm::Ahead(count) if found => {
                (ring.enable_cb_ahead(count), Callbacks::Late, End::Late)
            }
            Rearm::Timer if found => {
                ring.disable_cb();
                (true, Callbacks::Late, End::Late)
            }
            Rearm::Never => (true, Callbacks::Late, End::Late),
            Rearm::Delayed => (ring.enable_cb_delayed(), Callbacks::On, End::Quiescent),
            _ if self.callbacks == Callbacks::On => (true, Callbacks::On, End::Quiescent),
            _ => (ring.enable_cb(), Callbacks::On, End::Quiescent),
        };
        self.callbacks = callbacks;
        idle.then_some(end)
    }

    /// Has the next buffer signalled at once, for one that must not wait. Returns whether the last
    /// pass ended with [`End::Late`], so that there was something to do. If buffers are there
    /// already, a pass is owed ([`Handler::is_owed`]).
    #[inline]
    pub fn hasten<R: Ring>(&mut self, ring: &mut R) -> bool {
        let late = self.callbacks == Callbacks::Late;
        if late {
            self.callbacks = if ring.enable_cb() {
                Callbacks::On
            } else {
                Callbacks::Owed
            };
        }
        late
    }
}
