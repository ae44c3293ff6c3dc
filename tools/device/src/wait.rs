// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How a worker waits, and what ends its waiting early.

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{read, write, Errno};
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A clock that begins with the program.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts it.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Ends a worker's waiting from another thread.
#[derive(Debug)]
pub struct Bell {
    rung: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    /// A bell that has not been rung.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let rung = AtomicBool::new(false);
        Ok(Self { rung, event })
    }

    /// Ends the waiting, or the next one.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        // It can only fail because it was rung 2^64 times.
        let _ = write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Whether it was rung since it was last silenced.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Makes it possible to wait again.
    pub fn silence(&self) {
        if self.rung.swap(false, Ordering::AcqRel) {
            self.drain();
        }
    }

    fn drain(&self) {
        // It fails if there is nothing to be read.
        let _ = read(&self.event, &mut [0_u8; 8]);
    }
}

/// Sleeps for `nanoseconds`, until the bell is rung, or until `kick` can be read; returns whether
/// it can.
pub fn sleep(nanoseconds: u64, bell: &Bell, kick: Option<BorrowedFd<'_>>) -> io::Result<bool> {
    const SECOND: u64 = 1_000_000_000;
    let time = Timespec {
        tv_sec: i64::try_from(nanoseconds / SECOND).map_err(io::Error::other)?,
        tv_nsec: (nanoseconds % SECOND) as _,
    };
    let mut events = vec![PollFd::from_borrowed_fd(bell.event.as_fd(), PollFlags::IN)];
    events.extend(kick.map(|kick| PollFd::from_borrowed_fd(kick, PollFlags::IN)));
    match poll(&mut events, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if events[0].revents().contains(PollFlags::IN) {
        // Who rings says so first, so that a bell that was silenced in between ends a wait, too.
        bell.drain();
    }
    let kick = events.get(1);
    Ok(kick.is_some_and(|kick| kick.revents().contains(PollFlags::IN)))
}

/// Lets the kernel end the sleep of this thread, and of those that it starts, within a nanosecond
/// instead of within 50 microseconds.
pub fn make_sleep_exact() -> io::Result<()> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn sleep_lasts_as_long_as_it_should() {
        make_sleep_exact().unwrap();
        let (clock, bell) = (Clock::start(), Bell::new().unwrap());
        let before = clock.now();
        assert!(!sleep(2_000_000, &bell, None).unwrap());
        assert!(clock.now() - before >= 2_000_000);
    }

    #[test]
    fn a_bell_ends_sleep_once() {
        let bell = Arc::new(Bell::new().unwrap());
        let other = Arc::clone(&bell);
        let thread = std::thread::spawn(move || other.ring());
        let clock = Clock::start();
        sleep(60_000_000_000, &bell, None).unwrap();
        assert!(clock.now() < 30_000_000_000);
        thread.join().unwrap();
        assert!(bell.is_rung());
        bell.silence();
        assert!(!bell.is_rung());
        let before = clock.now();
        sleep(1_000_000, &bell, None).unwrap();
        assert!(clock.now() - before >= 1_000_000);
    }

    #[test]
    fn a_kick_ends_sleep() {
        let bell = Bell::new().unwrap();
        let kick = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        assert!(sleep(60_000_000_000, &bell, Some(kick.as_fd())).unwrap());
    }
}
