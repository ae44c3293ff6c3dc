// SPDX-License-Identifier: GPL-2.0

//! The capacity of a disk in the kernel's log, in the words of the kernel's own driver, for those
//! who look for them there.

use crate::{device::BlockDevice, limits::SECTOR, name::DiskName};
use blk_mq::Size;
use kernel::prelude::*;

/// Logs the capacity of the disk `name`, `sectors` sectors, in blocks of `block` bytes. `new` is
/// set if it had another one before.
pub(crate) fn log(device: &BlockDevice, name: &DiskName, sectors: u64, block: u32, new: bool) {
    let per_block = u64::from(block.max(SECTOR) / SECTOR);
    let blocks = sectors.div_ceil(per_block);
    dev_notice!(
        device.as_ref(),
        "[{name}] {}{blocks} {block}-byte logical blocks ({}/{})\n",
        if new { "new size: " } else { "" },
        Size::decimal(blocks, block),
        Size::binary(blocks, block)
    );
}
