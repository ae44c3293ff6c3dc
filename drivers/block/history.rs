// SPDX-License-Identifier: GPL-2.0

//! What coalescing chose for a queue lately: the file `queue<N>_history` in debugfs.

use crate::{coalesce::Wait, histogram::bucket};
use blk_mq::now_ns;
use kernel::fmt;

/// How many changes are remembered.
const LENGTH: usize = 64;

/// A change of what coalescing chose.
#[derive(Clone, Copy)]
struct Change {
    at: u64,
    depth: u32,
    wait: Wait,
}

/// The last changes, guarded by the queue's lock.
#[derive(Clone, Copy)]
pub(crate) struct History {
    changes: [Option<Change>; LENGTH],
    next: usize,
    now: Wait,
}

impl History {
    pub(crate) const fn new() -> Self {
        Self {
            changes: [None; LENGTH],
            next: 0,
            now: Wait { reqs: 0, usecs: 0 },
        }
    }

    /// What was chosen last; no requests and no time if nothing waits.
    pub(crate) fn now(&self) -> Wait {
        self.now
    }

    /// Notes what was chosen. Returns whether it changed by a factor of two, or to or from
    /// nothing; only that is remembered.
    #[inline]
    pub(crate) fn note(&mut self, depth: u32, wait: Wait) -> bool {
        let scale = |number: u32| bucket(number.into(), u32::BITS as usize);
        let changed = scale(wait.usecs) != scale(self.now.usecs)
            || scale(wait.reqs.into()) != scale(self.now.reqs.into());
        self.now = wait;
        if changed {
            self.remember(depth, wait);
        }
        changed
    }

    #[cold]
    fn remember(&mut self, depth: u32, wait: Wait) {
        if let Some(change) = self.changes.get_mut(self.next) {
            *change = Some(Change {
                at: now_ns(),
                depth,
                wait,
            });
        }
        self.next = self.next.wrapping_add(1) % LENGTH;
    }

    /// Writes one change a line, oldest first: nanoseconds since the boot, depth, requests and
    /// microseconds.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (newer, older) = self.changes.split_at(self.next.min(LENGTH));
        for change in older.iter().chain(newer).flatten() {
            let Change { at, depth, wait } = change;
            writeln!(f, "{at} {depth} {} {}", wait.reqs, wait.usecs)?;
        }
        Ok(())
    }
}
