// SPDX-License-Identifier: GPL-2.0

//! The disk's own files under `/sys/block/vdX/`.

use crate::{
    device::{BlockDevice, BlockDriver},
    limits::Indirect,
    settings::{
        self, BatchFile, CoalesceAdaptiveFile, CoalesceMethodFile, CoalesceMinInflightFile,
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
    IndirectFile,
);

/// Declares files that cannot be written.
macro_rules! read_only {
    ($($(#[$meta:meta])* $file:ident, $name:literal: |$device:ident| $value:expr;)*) => {$(
        $(#[$meta])*
        pub(crate) struct $file;

        impl Attribute<BlockDriver> for $file {
            const NAME: &'static CStr = kernel::c_str!($name);

            fn show($device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
                writeln!(out, "{}", $value)?;
                Ok(())
            }
        }
    )*};
}

read_only! {
    /// `num_request_queues`: how many queues the disk has, polled ones included.
    QueuesFile, "num_request_queues": |device| device.queue_counts().count();
    /// `poll_queues`: how many of them are polled.
    PollQueuesFile, "poll_queues": |device| device.queue_counts().polled;
    /// `queue_depth`: how many requests each queue has in flight at most.
    DepthFile, "queue_depth": |device| device.queue_depth();
}

/// `indirect`: what is wanted of indirect descriptors. A change starts the device anew.
pub(crate) struct IndirectFile;

impl Attribute<BlockDriver> for IndirectFile {
    const NAME: &'static CStr = c"indirect";
    const WRITABLE: bool = true;

    fn show(device: &BlockDevice, out: &mut Formatter<'_>) -> Result {
        writeln!(out, "{}", device.indirect().name())?;
        Ok(())
    }

    fn store(device: &BlockDevice, text: &[u8]) -> Result {
        let indirect = settings::parse::<Indirect>(device, "indirect", text)?;
        device.use_indirect(indirect).inspect_err(|err| {
            dev_err!(
                device.as_ref(),
                "indirect stays {}, as the device did not start with {} ({err:?})\n",
                device.indirect().name(),
                indirect.name()
            );
        })
    }
}
