// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Reads what the driver and the kernel count: the driver's files in debugfs, and
//! /proc/interrupts.
//!
//! Programs on the host read these texts through an agent, programs in the guest read the files.

mod counters;
mod interrupts;
mod queue_file;

pub use counters::Counters;
pub use interrupts::Interrupts;
pub use queue_file::QueueFile;
