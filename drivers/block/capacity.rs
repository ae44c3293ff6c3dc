// SPDX-License-Identifier: GPL-2.0

//! The capacity of a disk, which may change. It is logged in the words of the kernel's own driver,
//! for those who look for them.

use crate::{
    config,
    device::{BlockDevice, Disk},
    limits::SECTOR,
    name::DiskName,
};
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

/// Gives the disk the capacity that its device has by now. Process context.
pub(crate) fn follow(device: &BlockDevice, disk: &Disk) {
    match config::capacity(device.virtio()) {
        Ok(sectors) if sectors == disk.disk.capacity() => {}
        Ok(sectors) => {
            let block = disk.disk.logical_block_size();
            log(device, &disk.index.name(), sectors, block, true);
            disk.disk.set_capacity_and_notify(sectors);
        }
        Err(err) => dev_err!(device.as_ref(), "cannot read the new size: {err:?}\n"),
    }
}
