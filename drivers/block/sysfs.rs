// SPDX-License-Identifier: GPL-2.0

//! The disk's own files under `/sys/block/vdX/`.

use crate::{
    device::{BlockDevice, BlockDriver},
    suppress::Suppress,
};
use blk_mq::Attribute;
use kernel::{
    fmt::Write,
    prelude::*,
    str::{BStr, Formatter},
};

/// All files of a disk.
pub(crate) type Files = (SuppressFile, QueuesFile, DepthFile);

/// `suppress`: the mode of interrupt suppression, from the next interrupt on.
pub(crate) struct SuppressFile;

impl Attribute<BlockDriver> for SuppressFile {
    const NAME: &'static CStr = c"suppress";
    const WRITABLE: bool = true;

    fn show(device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
        writeln!(out, "{}", device.suppress().name())?;
        Ok(())
    }

    fn store(device: &BlockDevice, text: &[u8]) -> Result {
        let Some(suppress) = Suppress::parse(text) else {
            dev_err!(
                device.as_ref(),
                "suppress: '{}' is out of range; write one of: {}\n",
                BStr::from_bytes(text.trim_ascii()),
                Suppress::RANGE
            );
            return Err(EINVAL);
        };
        device.set_suppress(suppress);
        Ok(())
    }
}

/// `num_request_queues`: how many queues the disk has.
pub(crate) struct QueuesFile;

impl Attribute<BlockDriver> for QueuesFile {
    const NAME: &'static CStr = c"num_request_queues";

    fn show(device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
        writeln!(out, "{}", device.queue_count())?;
        Ok(())
    }
}

/// `queue_depth`: how many requests each queue has in flight at most.
pub(crate) struct DepthFile;

impl Attribute<BlockDriver> for DepthFile {
    const NAME: &'static CStr = c"queue_depth";

    fn show(device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
        writeln!(out, "{}", device.queue_depth())?;
        Ok(())
    }
}
