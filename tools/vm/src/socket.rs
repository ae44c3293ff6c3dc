// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Sockets at which helper processes listen.

use anyhow::{Context, Result};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A listening socket of a new name. An abstract address leaves no file behind and has no short
/// limit on its folder's length.
pub fn listen() -> Result<(UnixListener, SocketAddr)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("virtio_blk_rs-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok((listener, address)),
            // A program in another PID namespace may have the same number.
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("cannot create a socket"),
        }
    }
}

/// A listening socket of a name that was used before, by a process that has ended.
pub fn listen_again(name: &str) -> Result<(UnixListener, SocketAddr)> {
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)
        .with_context(|| format!("cannot listen at {name} again"))?;
    Ok((listener, address))
}

/// The name of an abstract address.
pub fn name(address: &SocketAddr) -> Result<String> {
    let name = address.as_abstract_name();
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    Ok(name.context("the socket has no name")?.to_owned())
}
