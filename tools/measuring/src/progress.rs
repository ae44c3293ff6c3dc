// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Tells how far the measurement is.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often a line is written where no bar can be drawn.
const INTERVAL: Duration = Duration::from_secs(15);

/// A bar on a terminal, a line now and then elsewhere.
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    started: Instant,
    last_line: Instant,
}

impl Progress {
    /// Starts with nothing done of `steps`.
    pub fn new(steps: u64) -> Self {
        let style = ProgressStyle::with_template("[{elapsed_precise}] {bar:30} {pos}/{len} {msg}")
            .expect("the template is valid");
        let bar = ProgressBar::new(steps).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(500));
        let now = Instant::now();
        Self {
            bar,
            terminal: std::io::stderr().is_terminal(),
            started: now,
            last_line: now,
        }
    }

    /// Says what is being done now.
    pub fn doing(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
        if !self.terminal && self.last_line.elapsed() > INTERVAL {
            self.last_line = Instant::now();
            let (done, steps) = (self.bar.position(), self.bar.length().unwrap_or_default());
            let seconds = self.started.elapsed().as_secs();
            eprintln!("[{seconds:4} s] {done} of {steps} done, now {what}");
        }
    }

    /// One step is done.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Everything is done.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
