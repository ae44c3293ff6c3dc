// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Shares folders with the guest: one virtiofsd process a folder.

use crate::process::Supervised;
use crate::socket::listen;
use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where Debian's package puts the daemon; it is in no PATH.
const VIRTIOFSD: &str = "/usr/libexec/virtiofsd";

/// What the guest may do with a shared folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody writes to it, so the guest caches without asking.
    ReadOnly,
    /// Host and guest both write.
    ReadWrite,
}

/// Starts a daemon for `folder`. Returns it with the socket that QEMU talks to it through.
pub fn share(folder: &Path, access: Access) -> Result<(Supervised, OwnedFd)> {
    const LISTENER_FD: i32 = 3;
    let (listener, address) = listen()?;
    let mut command = Command::new(VIRTIOFSD);
    command
        .arg("--shared-dir")
        .arg(folder)
        .args(["--fd", &LISTENER_FD.to_string()])
        // The guest is ours, and a sandbox needs rights that containers lack.
        .args(["--sandbox", "none", "--log-level", "error"])
        .stdin(Stdio::null());
    match access {
        Access::ReadOnly => command.args(["--cache", "always", "--readonly"]),
        Access::ReadWrite => command.args(["--cache", "auto"]),
    };
    command
        .fd_mappings(vec![FdMapping {
            parent_fd: listener.into(),
            child_fd: LISTENER_FD,
        }])
        .context("cannot hand the socket to virtiofsd")?;
    let daemon = Supervised::spawn(command)?;
    let socket = UnixStream::connect_addr(&address).context("cannot connect to virtiofsd")?;
    Ok((daemon, socket.into()))
}
