// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Serves one connection to QEMU after the other; the content outlives them.

use crate::backend::Backend;
use crate::device::Device;
use anyhow::{anyhow, Context, Result};
use std::fs;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use vhost::vhost_user::{Error as ProtocolError, Listener};
use vhost_user_backend::{Error, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

/// Makes a listening socket at `path`, or of the inherited descriptor.
pub fn listen(path: Option<&Path>, descriptor: Option<i32>) -> Result<Option<UnixListener>> {
    if let Some(descriptor) = descriptor {
        // SAFETY: The caller of this program has promised that the descriptor is its own.
        let listener = unsafe { UnixListener::from_raw_fd(descriptor) };
        listener
            .local_addr()
            .with_context(|| format!("the descriptor {descriptor} is no listening socket"))?;
        return Ok(Some(listener));
    }
    let Some(path) = path else { return Ok(None) };
    // What a killed program has left behind.
    let _ = fs::remove_file(path);
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))?;
    Ok(Some(listener))
}

/// Serves for ever.
pub fn serve(device: &Arc<Device>, listener: UnixListener) -> Result<()> {
    let mut listener = Listener::from(listener);
    loop {
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let backend = Arc::new(Backend::new(Arc::clone(device), &memory));
        let name = "vhost-user".to_owned();
        let mut daemon = VhostUserDaemon::new(name, Arc::clone(&backend), memory)
            .map_err(|error| anyhow!("cannot start the queues: {error}"))?;
        daemon
            .start(&mut listener)
            .map_err(|error| anyhow!("cannot accept a connection: {error}"))?;
        match daemon.wait() {
            Ok(())
            | Err(Error::HandleRequest(
                ProtocolError::Disconnected | ProtocolError::PartialMessage,
            )) => {}
            Err(error) => eprintln!("the connection has ended: {error}"),
        }
        backend.shut_down();
    }
}
