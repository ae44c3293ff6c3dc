// SPDX-License-Identifier: GPL-2.0

//! The knobs of a disk. Each is a module parameter, which is the default for disks that are bound
//! from now on, a file under `/sys/block/vdX/`, and a line of the file `status` in debugfs.

use crate::{
    coalesce::{Coalesce, Method},
    device::{BlockDevice, BlockDriver},
    suppress::Suppress,
    values::{Hint, Scope, Switch, UpTo, MAX_RING, MAX_USECS},
};
use blk_mq::{Access, Attribute, Disk};
use kernel::{
    fmt::{self, Write},
    prelude::*,
    str::{BStr, Formatter},
};
use module_param::Value;

/// Declares the knobs: for each its field, its parameter and its file.
macro_rules! knobs {
    ($(
        $(#[$meta:meta])*
        $field:ident, $param:ident, $file:ident: $value:ty = $default:expr;
        name: $name:literal,
        type: $type:literal,
        description: $description:literal,
    )*) => {
        /// The settings of a disk.
        #[derive(Clone, Copy)]
        pub(crate) struct Settings {$(
            $(#[$meta])*
            pub(crate) $field: $value,
        )*}

        module_param::params! {$(
            $(#[$meta])*
            static $param: $value = $default;
            name: $name,
            type: $type,
            description: $description,
        )*}

        impl Settings {
            /// The settings of a new disk.
            pub(crate) fn from_params() -> Self {
                Self {$(
                    $field: $param.get(),
                )*}
            }

            /// Writes one setting a line, its name and its value.
            pub(crate) fn write(&self, out: &mut dyn Write) -> fmt::Result {
                $(
                    out.write_str(concat!($name, " "))?;
                    self.$field.show(out)?;
                    out.write_str("\n")?;
                )*
                Ok(())
            }
        }

        $(
            $(#[$meta])*
            pub(crate) struct $file;

            impl Attribute<BlockDriver> for $file {
                const NAME: &'static CStr = kernel::c_str!($name);
                const ACCESS: Access = Access::Write;

                fn show(disk: &Disk<BlockDriver>, out: &mut Formatter<'_>) -> Result {
                    disk.device().settings().$field.show(out)?;
                    out.write_str("\n")?;
                    Ok(())
                }

                fn store(disk: &Disk<BlockDriver>, text: &[u8]) -> Result {
                    let device = disk.device();
                    let value = parse(device, $name, text)?;
                    device.configure(|settings| settings.$field = value);
                    Ok(())
                }
            }
        )*
    };
}

knobs! {
    /// How interrupts are suppressed while completions are collected.
    suppress, SUPPRESS, SuppressFile: Suppress = Suppress::Loop as u32;
    name: "suppress",
    type: "string",
    description: "Interrupt suppression of new disks: off (drain without disabling callbacks), \
        loop (disable, drain, enable until quiescent; the default), delayed (as loop, but ask for \
        a signal only when 3/4 of what is in flight is done). Per disk: /sys/block/vdX/suppress",

    /// The longest that a completion waits for an interrupt.
    coalesce_usecs, COALESCE_USECS, CoalesceUsecsFile: UpTo<MAX_USECS> = 0;
    name: "coalesce_usecs",
    type: "uint",
    description: "Longest wait of a completion for its interrupt in microseconds, 0 to 100000; 0 \
        (the default): none waits, or, with coalesce_adaptive, 2000. Per disk: \
        /sys/block/vdX/coalesce_usecs",

    /// The completions that end a wait.
    coalesce_reqs, COALESCE_REQS, CoalesceReqsFile: UpTo<MAX_RING> = 0;
    name: "coalesce_reqs",
    type: "uint",
    description: "Completions that end the wait for an interrupt, 0 to 32768; 0 (the default): \
        only coalesce_usecs does. Per disk: /sys/block/vdX/coalesce_reqs",

    /// How a wait is put to the device.
    coalesce_method, COALESCE_METHOD, CoalesceMethodFile: Method = Method::Auto as u32;
    name: "coalesce_method",
    type: "string",
    description: "How the device is kept from signalling: event (used_event ahead, and a timer), \
        timer (callbacks off, and a timer), auto (the default: what is best for the ring). Per \
        disk: /sys/block/vdX/coalesce_method",

    /// Below so many requests in flight nothing waits.
    coalesce_min_inflight, COALESCE_MIN_INFLIGHT, CoalesceMinInflightFile: UpTo<MAX_RING> = 8;
    name: "coalesce_min_inflight",
    type: "uint",
    description: "Requests in flight on a queue below which no completion waits for its \
        interrupt, 0 to 32768, 8 by default. Per disk: /sys/block/vdX/coalesce_min_inflight",

    /// The wait follows the load.
    coalesce_adaptive, COALESCE_ADAPTIVE, CoalesceAdaptiveFile: Switch = 0;
    name: "coalesce_adaptive",
    type: "uint",
    description: "1: coalescing follows the load of each queue, within coalesce_usecs and \
        coalesce_reqs if they are not 0; 0 (the default): it is as set. Per disk: \
        /sys/block/vdX/coalesce_adaptive",

    /// Completed requests are ended together.
    batch, BATCH, BatchFile: Switch = 1;
    name: "batch",
    type: "uint",
    description: "1 (the default): completed requests are ended in batches; 0: one by one. Per \
        disk: /sys/block/vdX/batch",

    /// What `used_event` says while callbacks are disabled.
    used_event_hint, USED_EVENT_HINT, UsedEventHintFile: Hint = Hint::Core as u32;
    name: "used_event_hint",
    type: "string",
    description: "What used_event says while callbacks are disabled: core (the default: as the \
        virtio core leaves it), avail (the next buffer to be offered), behind (just behind the \
        next used buffer). Per disk: /sys/block/vdX/used_event_hint",

    /// What a lock is for.
    lock, LOCK, LockFile: Scope = Scope::Queue as u32;
    name: "lock",
    type: "string",
    description: "Scope of the lock around a virtqueue: queue (the default), device (all queues \
        share one, for comparison). Per disk: /sys/block/vdX/lock",
}

impl Settings {
    /// The settings of coalescing.
    #[inline]
    pub(crate) fn coalesce(&self) -> Coalesce {
        Coalesce {
            usecs: self.coalesce_usecs.0,
            reqs: self.coalesce_reqs.0,
            method: self.coalesce_method,
            min_in_flight: self.coalesce_min_inflight.0,
            adaptive: self.coalesce_adaptive.0,
        }
    }
}

/// Parses what was written to a file, or says what may be.
pub(crate) fn parse<V: Value>(device: &BlockDevice, name: &str, text: &[u8]) -> Result<V> {
    V::parse(text).ok_or_else(|| {
        dev_err!(
            device.as_ref(),
            "{name}: '{}' is out of range; write one of: {}\n",
            BStr::from_bytes(text.trim_ascii()),
            V::RANGE
        );
        EINVAL
    })
}
