// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A virtio block device whose pace, order and signals are programmable.

use anyhow::{Context, Result};
use clap::Parser;
use device::device::Device;
use device::options::Options;
use device::{control, server, wait};
use std::sync::Arc;

fn main() -> Result<()> {
    let options = Options::parse();
    let device = Arc::new(Device::new(&options)?);
    // Before any thread is started, since each inherits it.
    wait::make_sleep_exact().context("cannot make sleep exact")?;
    let control = server::listen(options.control.as_deref(), options.control_fd)?;
    if let Some(listener) = control {
        control::start(Arc::clone(&device), listener);
    }
    let socket = server::listen(options.socket.as_deref(), options.socket_fd)?;
    server::serve(&device, socket.context("there is no socket to listen at")?)
}
