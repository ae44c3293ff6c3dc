// SPDX-License-Identifier: GPL-2.0

//! What is decided when a disk is bound. What is set without a restart is in
//! [`settings`](crate::settings).

use crate::{
    limits::Indirect,
    values::{UpTo, MAX_DEPTH, MAX_PROBE_STEPS, MAX_QUEUES},
};

module_param::params! {
    /// The most queues of new disks; 0 for no limit.
    pub(crate) static NUM_REQUEST_QUEUES: UpTo<MAX_QUEUES> = 0;
    name: "num_request_queues",
    type: "uint",
    description: "Limit of the number of request queues of new disks, 0 to 65535; 0 (the default) \
        for no limit. There are never more than CPUs",

    /// The depth of the queues of new disks; 0 to fill the ring.
    pub(crate) static QUEUE_DEPTH: UpTo<MAX_DEPTH> = 0;
    name: "queue_depth",
    type: "uint",
    description: "Requests in flight per queue of new disks, 0 to 10240; 0 (the default) fills the \
        ring",

    /// How requests of new disks are described.
    pub(crate) static INDIRECT: Indirect = Indirect::Auto as u32;
    name: "indirect",
    type: "string",
    description: "Indirect descriptors of new disks: auto (the default: not where the ring has 768 \
        descriptors or more), on (where the device can), off. Per disk: /sys/block/vdX/indirect, \
        which starts the device anew",

    /// How many of the queues of new disks are polled.
    pub(crate) static POLL_QUEUES: UpTo<MAX_QUEUES> = 0;
    name: "poll_queues",
    type: "uint",
    description: "Queues of new disks that are polled and have no interrupt, 0 (the default) to \
        65535. They are taken from the device's last ones; at least one keeps its interrupt",

    /// The step after which the probe of new disks fails; 0 for none.
    pub(crate) static FAIL_PROBE: UpTo<MAX_PROBE_STEPS> = 0;
    name: "fail_probe",
    type: "uint",
    description: "For tests of the driver: new disks are refused after this step of the set-up, 0 \
        (the default: after none) to 9",
}
