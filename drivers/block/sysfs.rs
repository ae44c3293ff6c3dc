// SPDX-License-Identifier: GPL-2.0

//! The disk's own files under `/sys/block/vdX/`.

use crate::{
    device::{BlockDevice, BlockDriver},
    settings::{
        BatchFile, CoalesceAdaptiveFile, CoalesceMethodFile, CoalesceMinInflightFile,
        CoalesceReqsFile, CoalesceUsecsFile, LockFile, SuppressFile, UsedEventHintFile,
    },
};
use blk_mq::Attribute;
use kernel::{fmt::Write, prelude::*, str::Formatter};

/// All files of a disk.
pub(crate) type Files = (
    SuppressFile,
    CoalesceUsecsFile,
    CoalesceReqsFile,
    CoalesceMethodFile,
    CoalesceMinInflightFile,
    CoalesceAdaptiveFile,
    BatchFile,
    UsedEventHintFile,
    LockFile,
    QueuesFile,
    PollQueuesFile,
    DepthFile,
);

/// Declares files that show a number and cannot be written.
macro_rules! numbers {
    ($($(#[$meta:meta])* $file:ident, $name:literal: $number:expr;)*) => {$(
        $(#[$meta])*
        pub(crate) struct $file;

        impl Attribute<BlockDriver> for $file {
            const NAME: &'static CStr = kernel::c_str!($name);

            fn show(device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
                let number: fn(&BlockDevice) -> u32 = $number;
                writeln!(out, "{}", number(device))?;
                Ok(())
            }
        }
    )*};
}

numbers! {
    /// `num_request_queues`: how many queues the disk has, polled ones included.
    QueuesFile, "num_request_queues": |device| device.queue_counts().count();
    /// `poll_queues`: how many of them are polled.
    PollQueuesFile, "poll_queues": |device| device.queue_counts().polled;
    /// `queue_depth`: how many requests each queue has in flight at most.
    DepthFile, "queue_depth": |device| device.queue_depth();
}
