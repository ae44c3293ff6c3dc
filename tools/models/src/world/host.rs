// SPDX-License-Identifier: GPL-2.0

//! The device of a single thread: it acts between the steps of the driver, as a script tells it.

use crate::driver::completion::Ring;
use crate::virtqueue::{Device, Driver, Request, Taken};
use std::collections::VecDeque;

/// At which steps of a pass the device acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Before every operation on the ring.
    EveryStep,
    /// After each buffer that was taken.
    AfterBuffer,
    /// Before callbacks are enabled: after the ring was seen empty.
    BeforeEnable,
    /// Between two passes of a visit: while what the first has collected is ended.
    BetweenPasses,
}

/// The device and the interrupt that it raised.
pub struct Host {
    device: Box<dyn Device>,
    held: VecDeque<Taken>,
    /// The requests in the order of their completion.
    pub completed: Vec<Request>,
    /// An interrupt waits to be handled.
    pub pending: bool,
    /// The signals sent so far.
    pub signals: u32,
    /// The device completes the newest request first.
    pub newest_first: bool,
    pace: Pace,
    script: VecDeque<u8>,
}

impl Host {
    /// A device that acts during passes as `script` says: so many completions at each step of
    /// `pace`.
    pub(super) fn new(device: Box<dyn Device>, pace: Pace, script: Vec<u8>) -> Self {
        Self {
            device,
            held: VecDeque::new(),
            completed: Vec::new(),
            pending: false,
            signals: 0,
            newest_first: false,
            pace,
            script: script.into(),
        }
    }

    /// Completes up to `count` requests, and decides about a signal after each.
    pub fn complete(&mut self, count: usize) {
        for _ in 0..count {
            while let Some(taken) = self.device.take() {
                self.held.push_back(taken);
            }
            let next = if self.newest_first {
                self.held.pop_back()
            } else {
                self.held.pop_front()
            };
            let Some(taken) = next else {
                return;
            };
            self.device.complete(taken);
            self.completed.push(taken.request);
            if self.device.must_signal() {
                self.signals += 1;
                self.pending = true;
            }
        }
    }

    /// The driver has left the ring, and will be back at once.
    pub(super) fn between_passes(&mut self) {
        self.act(Pace::EveryStep);
        self.act(Pace::BetweenPasses);
    }

    fn act(&mut self, now: Pace) {
        if self.pace == now {
            let count = self.script.pop_front().unwrap_or(0);
            self.complete(count.into());
        }
    }
}

/// A virtqueue before whose operations the device acts.
pub(super) struct Interposed<'a> {
    pub(super) virtqueue: &'a mut Box<dyn Driver>,
    pub(super) host: &'a mut Host,
}

impl Ring for Interposed<'_> {
    type Buf = Request;

    fn disable_cb(&mut self) {
        self.host.act(Pace::EveryStep);
        self.virtqueue.disable_cb();
    }

    fn enable_cb(&mut self) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb()
    }

    fn enable_cb_delayed(&mut self) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb_delayed()
    }

    fn enable_cb_ahead(&mut self, count: u16) -> bool {
        self.host.act(Pace::EveryStep);
        self.host.act(Pace::BeforeEnable);
        self.virtqueue.enable_cb_ahead(count)
    }

    fn get_buf(&mut self) -> Option<Request> {
        self.host.act(Pace::EveryStep);
        let buf = self.virtqueue.get_buf()?;
        self.host.act(Pace::AfterBuffer);
        Some(buf)
    }
}
