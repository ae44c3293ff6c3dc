// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A QEMU TCG plugin that counts the guest's instructions between two markers.
//!
//! `-plugin libvbr_plugin.so,out=FILE[,profile=on]` appends one line of JSON to `FILE` whenever the
//! guest has run a marked job: a [`marker::Window`]. The host reads it after the job.
//!
//! Every translated block adds its number of instructions to a user or a kernel counter when it
//! is entered, by the sign of its address, in code that QEMU generates inline: a guest slows down
//! by a small factor only, and what the host does meanwhile does not show in the counts.

mod blocks;
mod options;
mod qemu;
mod recorder;

use std::ffi::{c_char, c_int, c_void};

use crate::{
    options::Options,
    recorder::{Probe, Recorder},
};

/// Tells QEMU which interface this plugin was written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = qemu::API_VERSION;

/// Called by QEMU once, before the guest starts.
///
/// # Safety
///
/// Only for QEMU: `argv` must hold `argc` C strings that are never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::PluginId,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: The caller's promise.
    let arguments = unsafe { qemu::arguments(argc, argv) };
    match Options::parse(&arguments).and_then(Recorder::new) {
        Ok(recorder) => {
            Probe::start(id, recorder);
            0
        }
        Err(reason) => {
            eprintln!("vbr-plugin: {reason}");
            1
        }
    }
}
