// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the marker in the guest, the TCG plugin in QEMU and `vbr-cost` on the host agree on.
//!
//! The guest brackets a job with two long NOPs whose displacements are magic: real processors and
//! other emulators ignore them, so a marked job costs nothing anywhere. The plugin meets them while
//! it translates code ([`Edge::recognise`]), counts what executes in between and appends one
//! [`Window`] for each bracket to its output file, as a line of JSON.

mod edge;
mod window;

pub use edge::Edge;
pub use window::{Block, Window};
