// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What all measurements share: drivers that take turns on a disk, medians with intervals, and
//! progress on the terminal.

pub mod drivers;
mod host;
mod progress;
mod statistics;

pub use drivers::Knobs;
pub use host::Host;
pub use progress::Progress;
pub use statistics::{median, paired_ratios, spread_percent, Estimate};
