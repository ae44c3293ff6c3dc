// SPDX-License-Identifier: GPL-2.0

//! A device that is out of service for a while: suspended, reset by its bus, or started anew
//! because it is to be used in another way.
//!
//! The disk stays, and whoever uses it waits. Requests get time to end; then the block layer stops
//! dispatching, and the device is reset. A request that it still had is put back and submitted
//! again later, so that not even a device which has stopped answering loses one or keeps a machine
//! from going to sleep. The new virtqueues take the places of the old ones: queues, tags, settings
//! and counters stay.

use crate::{
    capacity,
    device::{BlockDevice, BlockDriver, Disk},
    limits::{self, Indirect},
    queue,
};
use blk_mq::{without_io, Queues};
use kernel::{prelude::*, str::CString};
use virtio::{transport, Setup, Virtqueues};

/// How long requests get to end before the device is reset, in milliseconds.
const DRAIN_MS: u32 = 10_000;

/// Whether a disk's device serves it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// It does.
    On,
    /// It has no virtqueues: requests wait.
    Off,
}

/// The ring of found virtqueues.
pub(crate) fn ring_of(virtqueues: &Virtqueues) -> limits::Ring {
    limits::Ring {
        size: virtqueues.ring_size(),
        indirect: virtqueues.is_indirect(),
    }
}

/// Finds the virtqueues of a device, on rings as `indirect` wants them.
///
/// # Errors
///
/// What the transport reports, or `ENODEV` if the device does not want to go without indirect
/// descriptors.
pub(crate) fn find_vqs(
    setup: &Setup<'_, BlockDriver>,
    counts: Queues,
    indirect: Indirect,
) -> Result<Virtqueues> {
    let count = u16::try_from(counts.count())?;
    let with_irq = u16::try_from(counts.with_irq)?;
    let find = || {
        setup.find_vqs(count, with_irq, |index| {
            if index < with_irq {
                CString::try_from_fmt(fmt!("req.{index}"))
            } else {
                CString::try_from_fmt(fmt!("req_poll.{}", index.saturating_sub(with_irq)))
            }
        })
    };
    let virtqueues = find()?;
    if virtqueues.is_indirect() && !indirect.is_wanted(ring_of(&virtqueues)) {
        drop(virtqueues);
        setup.start_anew(transport::INDIRECT_DESC, false)?;
        return find();
    }
    Ok(virtqueues)
}

impl BlockDevice {
    /// Takes the device out of service, until [`BlockDevice::restore`]. Process context.
    pub(crate) fn freeze(&self) {
        if let Some(disk) = &mut *self.disk() {
            self.stop(disk);
        }
    }

    /// Takes the device, which was reset and has its features, into service again. Process context.
    ///
    /// # Errors
    ///
    /// What keeps it from that. The disk is dead then: what waits fails.
    pub(crate) fn restore(&self, setup: &Setup<'_, BlockDriver>) -> Result {
        let mut disk = self.disk();
        let Some(disk) = &mut *disk else {
            return Ok(());
        };
        let found = without_io(|| find_vqs(setup, self.queue_counts(), self.indirect()));
        self.start(disk, found)
    }

    /// Has the device use indirect descriptors as wanted from now on, for which it is started anew
    /// if need be. Process context; waits for the requests in flight.
    ///
    /// # Errors
    ///
    /// `EBUSY` while the device is out of service, `ENODEV` if it is being removed; what the device
    /// reports, which then goes on as before. If it cannot be started any more, the disk is dead.
    pub(crate) fn use_indirect(&self, indirect: Indirect) -> Result {
        self.binding().with_setup(|setup| {
            let mut disk = self.disk();
            let disk = (*disk).as_mut().ok_or(ENODEV)?;
            if disk.service == Service::Off {
                return Err(EBUSY);
            }
            let ring = limits::Ring {
                size: self.ring_size(),
                indirect: true,
            };
            let offered = setup.device().offers_transport(transport::INDIRECT_DESC);
            let wanted = offered && indirect.is_wanted(ring);
            if wanted != setup.device().has_transport(transport::INDIRECT_DESC) {
                let start_anew = |wanted, indirect| {
                    without_io(|| {
                        setup.start_anew(transport::INDIRECT_DESC, wanted)?;
                        find_vqs(setup, self.queue_counts(), indirect)
                    })
                };
                self.stop(disk);
                let found = start_anew(wanted, indirect);
                let refused = found.as_ref().err().copied();
                let found = found.or_else(|_| start_anew(!wanted, self.indirect()));
                self.start(disk, found)?;
                if let Some(err) = refused {
                    return Err(err);
                }
            }
            self.set_indirect(indirect);
            Ok(())
        })
    }

    /// Takes the virtqueues out of service.
    fn stop(&self, disk: &mut Disk) {
        disk.service = Service::Off;
        let left = without_io(|| {
            disk.disk.pause(DRAIN_MS);
            self.queues().iter().fold(0u32, |left, queue| {
                left.saturating_add(queue::suspend(queue))
            })
        });
        if left > 0 {
            dev_warn!(
                self.as_ref(),
                "{left} requests had not ended after {DRAIN_MS} ms; the device was reset and will \
                 be given them again\n"
            );
        }
    }

    /// Puts virtqueues that were found, or what kept them from that, in the places of the old ones.
    fn start(&self, disk: &mut Disk, found: Result<Virtqueues>) -> Result {
        let result = without_io(|| self.put(found?));
        match result {
            Ok(()) => {
                disk.service = Service::On;
                disk.disk.resume();
                // A change while the device was away has not been announced.
                capacity::follow(self, disk);
            }
            Err(err) => {
                dev_err!(
                    self.as_ref(),
                    "the device cannot be started again ({err:?}): its disk is dead\n"
                );
                self.give_up(disk);
                disk.service = Service::On;
            }
        }
        result
    }

    fn put(&self, virtqueues: Virtqueues) -> Result {
        let size = virtqueues.ring_size();
        if size < self.ring_size() {
            dev_err!(
                self.as_ref(),
                "the rings have shrunk to {size} descriptors; at least {} are needed\n",
                self.ring_size()
            );
            return Err(EINVAL);
        }
        self.cache().restore(self.virtio())?;
        for (queue, vq) in self.queues().iter().zip(virtqueues.ready()?) {
            queue::resume(queue, vq);
        }
        Ok(())
    }

    /// Whether the requests in flight end in time, on a disk that is about to be removed. The
    /// kernel then writes what is dirty, and those requests have as much time each. Process
    /// context.
    pub(crate) fn drains(&self, disk: &Disk) -> bool {
        self.leave();
        disk.disk.limit_timeout(DRAIN_MS);
        let all_ended = without_io(|| disk.disk.pause(DRAIN_MS));
        disk.disk.resume();
        if !all_ended {
            self.warn_of_reset();
        }
        all_ended
    }

    /// Has a device that holds a request for too long give it back, if its disk is being removed,
    /// which would wait for that otherwise. Process context.
    pub(crate) fn expired(&self) {
        if self.is_leaving() {
            self.warn_of_reset();
            self.close_queues();
        }
    }

    fn warn_of_reset(&self) {
        dev_warn!(
            self.as_ref(),
            "requests had not ended after {DRAIN_MS} ms; the device is reset, and they fail\n"
        );
    }

    /// Lets everything that waits for the device fail: the disk is marked dead, so that nothing new
    /// comes, and the device is reset, so that it owns nothing any more. Process context.
    pub(crate) fn give_up(&self, disk: &Disk) {
        disk.disk.mark_dead();
        disk.disk.quiesce();
        self.close_queues();
        disk.disk.unquiesce();
        if disk.service == Service::Off {
            disk.disk.resume();
        }
    }
}
