// SPDX-License-Identifier: GPL-2.0

//! The disk's own files under `/sys/block/vdX/`.

use crate::{
    answers::{self, Lifetime},
    config,
    device::BlockDriver,
    limits::Indirect,
    questions,
    settings::{
        self, BatchFile, CoalesceAdaptiveFile, CoalesceMethodFile, CoalesceMinInflightFile,
        CoalesceReqsFile, CoalesceUsecsFile, LockFile, SuppressFile, UsedEventHintFile,
    },
    values::CacheMode,
};
use blk_mq::{Access, Attribute, Disk};
use kernel::{
    fmt::Write,
    prelude::*,
    str::{BStr, Formatter},
};

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
    SerialFile,
    CacheTypeFile,
    LifetimeFile,
);

/// Declares files that cannot be written.
macro_rules! read_only {
    ($($(#[$meta:meta])* $file:ident, $name:literal: |$device:ident| $value:expr;)*) => {$(
        $(#[$meta])*
        pub(crate) struct $file;

        impl Attribute<BlockDriver> for $file {
            const NAME: &'static CStr = kernel::c_str!($name);

            fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
                let $device = disk.device();
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
    const ACCESS: Access = Access::Write;

    fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
        writeln!(out, "{}", disk.device().indirect().name())?;
        Ok(())
    }

    fn store(disk: &Disk<BlockDriver>, text: &[u8]) -> Result {
        let device = disk.device();
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

/// `serial`: the serial number, without a newline as ever; empty if the device has none. What is
/// not printable is escaped.
pub(crate) struct SerialFile;

impl Attribute<BlockDriver> for SerialFile {
    const NAME: &'static CStr = c"serial";

    fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
        if let Some(answer) = questions::serial(disk)? {
            out.write_fmt(fmt!("{}", BStr::from_bytes(answers::serial(&answer))))?;
        }
        Ok(())
    }
}

/// `cache_type`: the device's cache mode. It can be written if the device can change it.
pub(crate) struct CacheTypeFile;

impl Attribute<BlockDriver> for CacheTypeFile {
    const NAME: &'static CStr = c"cache_type";
    const ACCESS: Access = Access::Write;

    fn access(disk: &Disk<BlockDriver>) -> Access {
        if config::has_cache_modes(disk.device().virtio()) {
            Access::Write
        } else {
            Access::Read
        }
    }

    fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
        let mode = config::cache_mode(disk.device().virtio())?;
        writeln!(out, "{}", mode.name())?;
        Ok(())
    }

    fn store(disk: &Disk<BlockDriver>, text: &[u8]) -> Result {
        let mode: CacheMode = settings::parse(disk.device(), "cache_type", text)?;
        disk.device().cache().choose(disk, mode)
    }
}

/// `lifetime`: how worn the device is, if it tells that: one field of its answer a line.
pub(crate) struct LifetimeFile;

impl Attribute<BlockDriver> for LifetimeFile {
    const NAME: &'static CStr = c"lifetime";

    fn access(disk: &Disk<BlockDriver>) -> Access {
        if config::tells_lifetime(disk.device().virtio()) {
            Access::Read
        } else {
            Access::Absent
        }
    }

    fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
        let Lifetime {
            pre_eol_info,
            device_lifetime_est_typ_a,
            device_lifetime_est_typ_b,
        } = questions::lifetime(disk)?;
        writeln!(out, "pre_eol_info {pre_eol_info}")?;
        writeln!(out, "device_lifetime_est_typ_a {device_lifetime_est_typ_a}")?;
        writeln!(out, "device_lifetime_est_typ_b {device_lifetime_est_typ_b}")?;
        Ok(())
    }
}
