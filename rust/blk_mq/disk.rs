// SPDX-License-Identifier: GPL-2.0

//! A disk, as those see it who are called for it.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use crate::operations::Operations;
use bindings_ext as ext;
use core::marker::PhantomData;
use kernel::{bindings, container_of, error::to_result, prelude::*, types::Opaque};

/// A `struct gendisk` of driver `T`.
///
/// # Invariants
///
/// `inner` is a valid disk on a tag set of `T`. Its `private_data` comes from `Arc::into_raw()` of
/// the device of that set, and holds the reference until the disk is freed.
#[repr(transparent)]
pub struct Disk<T: Operations> {
    inner: Opaque<bindings::gendisk>,
    _driver: PhantomData<fn() -> T>,
}

impl<T: Operations> Disk<T> {
    /// # Safety
    ///
    /// `ptr` must be a disk that [`DiskBuilder::add`](crate::DiskBuilder::add) made for `T`, and
    /// must not be freed during `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::gendisk) -> &'a Self {
        // SAFETY: By the requirement of this function; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The disk whose device is `device` (`dev_to_disk()`).
    ///
    /// # Safety
    ///
    /// As for [`Disk::from_raw`].
    pub(crate) unsafe fn from_device<'a>(device: *mut bindings::device) -> &'a Self {
        // SAFETY: The device of a disk lies in the block device of its whole, which points to the
        // disk.
        unsafe {
            let bdev = container_of!(device, bindings::block_device, bd_device);
            Self::from_raw((*bdev).bd_disk)
        }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::gendisk {
        self.inner.get()
    }

    pub(crate) fn queue(&self) -> *mut bindings::request_queue {
        // SAFETY: The disk is valid by the type invariant, and keeps its queue.
        unsafe { (*self.as_raw()).queue }
    }

    /// The driver's device.
    pub fn device(&self) -> &T::Device {
        // SAFETY: By the type invariant.
        unsafe { &*(*self.as_raw()).private_data.cast::<T::Device>() }
    }

    /// The capacity in sectors of 512 bytes. Any context. C function: `get_capacity()`.
    pub fn capacity(&self) -> u64 {
        // SAFETY: The disk is valid by the type invariant. Others may change the value, so it is
        // read as the block layer does (`bdev_nr_sectors()`), in one go.
        unsafe { (&raw const (*(*self.as_raw()).part0).bd_nr_sectors).read_volatile() }
    }

    /// The logical block in bytes. C function: `queue_logical_block_size()`.
    pub fn logical_block_size(&self) -> u32 {
        // SAFETY: The disk is valid by the type invariant, and so is its queue. The block size does
        // not change.
        unsafe { (*self.queue()).limits.logical_block_size }
    }

    /// Sets whether the device has a volatile write cache, that is whether flushes are sent. Waits
    /// for the end of all that is in flight. Process context. C functions:
    /// `queue_limits_start_update()`, `queue_limits_commit_update_frozen()`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the limits contradict each other.
    pub fn set_write_cache(&self, write_cache: bool) -> Result {
        // SAFETY: The disk is valid by the type invariant, and so is its queue. The update is
        // committed below, which ends it.
        let mut limits = unsafe { ext::ext_queue_limits_start_update(self.queue()) };
        if write_cache {
            limits.features |= ext::BLK_FEAT_WRITE_CACHE;
        } else {
            limits.features &= !ext::BLK_FEAT_WRITE_CACHE;
        }
        // SAFETY: The update was started just now.
        to_result(unsafe { bindings::queue_limits_commit_update_frozen(self.queue(), &mut limits) })
    }

    /// Has requests that are dispatched from now on expire after `limit_ms` milliseconds, if they
    /// would not sooner. Process context. C function: `blk_queue_rq_timeout()`.
    pub fn limit_timeout(&self, limit_ms: u32) {
        let queue = self.queue();
        // SAFETY: The disk is valid by the type invariant, and so is its queue. The value is
        // changed by whoever writes `queue/io_timeout`, and any is right.
        unsafe {
            let limit = bindings::__msecs_to_jiffies(limit_ms) as u32;
            let now = (&raw const (*queue).rq_timeout).read_volatile();
            bindings::blk_queue_rq_timeout(queue, now.min(limit));
        }
    }

    /// Makes durable what has been written, if flushes are sent at all. Process context. C
    /// function: `blkdev_issue_flush()`.
    ///
    /// # Errors
    ///
    /// `EIO`, or what else the device's answer means.
    pub fn flush(&self) -> Result {
        // SAFETY: The disk is valid by the type invariant, and so is its block device.
        to_result(unsafe { bindings::blkdev_issue_flush((*self.as_raw()).part0) })
    }
}
