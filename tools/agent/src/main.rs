// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! PID 1 of the test guest.
//!
//! The first process only prepares the system and collects orphans ([`init`]); its single child
//! serves the host's requests ([`server`]). With two processes the reaper never takes an exit
//! status that the server waits for. When the server ends, the guest powers off.

mod init;
mod script;
mod server;

use std::process::Command;

/// Argument with which the first process starts itself again as the server.
const SERVE: &str = "serve";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        if let Err(error) = server::serve() {
            eprintln!("agent: {error:#}");
        }
        return;
    }
    if !rustix::process::getpid().is_init() {
        eprintln!("vbr-agent is the test guest's init and does nothing on a running system.");
        std::process::exit(2);
    }
    // PID 1 must never return: the kernel would panic and hide the reason.
    if let Err(error) = run() {
        eprintln!("agent: {error:#}");
    }
    init::power_off();
}

fn run() -> anyhow::Result<()> {
    init::prepare()?;
    let server = Command::new("/proc/self/exe").arg(SERVE).spawn()?;
    init::reap_until(server.id())
}
