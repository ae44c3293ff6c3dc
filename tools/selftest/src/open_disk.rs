// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A disk that somebody in the guest has open when it goes.

use crate::guest::{expect, secs};
use anyhow::Result;
use vm::{Pending, Vm};

/// An open descriptor.
pub struct OpenDisk {
    name: String,
    flag: String,
    holder: Pending,
}

impl OpenDisk {
    /// Opens the disk `id`, for three minutes at most.
    pub fn open(vm: &Vm, id: &str) -> Result<Self> {
        let name = vm.block_device(id)?;
        let flag = format!("/tmp/gone-{id}");
        let holder = vm.spawn(
            secs(180),
            &format!(
                "exec 3</dev/{name}; until test -e {flag}; do sleep 0.05; done
                 dd bs=4k count=1 iflag=direct status=none <&3 2>/dev/null | wc -c"
            ),
        )?;
        Ok(Self { name, flag, holder })
    }

    /// Demands that the disk is gone, and that nothing can be read by the descriptor.
    pub fn expect_gone(self, vm: &Vm) -> Result<()> {
        let Self { name, flag, holder } = self;
        vm.sh(&format!("touch {flag}; test ! -e /sys/block/{name}"))?;
        let read = holder.wait_ok()?;
        expect("bytes that the open descriptor gave", read.trim(), "0")
    }
}
