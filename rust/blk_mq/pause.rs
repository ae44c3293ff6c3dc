// SPDX-License-Identifier: GPL-2.0

//! A disk that stands still for a while, with what is submitted meanwhile waiting.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

use crate::{gen_disk::GenDisk, operations::Operations};
use bindings_ext as ext;
use kernel::bindings;

impl<T: Operations> GenDisk<T> {
    /// Lets requests end for up to `limit_ms` milliseconds, and stops dispatching further ones.
    /// Returns whether all have ended. Whoever submits waits until [`GenDisk::resume`], but the
    /// disk's queue is not left frozen: a frozen queue would block those who only want to change
    /// it. Process context, in [`without_io`].
    ///
    /// C functions: `blk_freeze_queue_start()`, `blk_mq_freeze_queue_wait_timeout()`,
    /// `blk_mq_quiesce_queue()`, `blk_mq_unfreeze_queue()`.
    pub fn pause(&self, limit_ms: u32) -> bool {
        // SAFETY: The disk is valid by the type invariant, and so is its queue. The queue is
        // unfrozen by the one who has frozen it.
        unsafe {
            let queue = (*self.as_raw()).queue;
            bindings::blk_freeze_queue_start(queue);
            let limit = bindings::__msecs_to_jiffies(limit_ms);
            let left = bindings::blk_mq_freeze_queue_wait_timeout(queue, limit);
            bindings::blk_mq_quiesce_queue(queue);
            bindings::blk_mq_unfreeze_queue_nomemrestore(queue);
            left != 0
        }
    }

    /// Dispatches requests again: those that waited, those that were put back
    /// ([`Request::requeue`](crate::Request::requeue)), and those of queues that were stopped.
    /// Process context.
    ///
    /// C functions: `blk_mq_unquiesce_queue()`, `blk_mq_start_stopped_hw_queues()`,
    /// `blk_mq_kick_requeue_list()`.
    pub fn resume(&self) {
        // SAFETY: The disk is valid by the type invariant, and so is its queue.
        unsafe {
            let queue = (*self.as_raw()).queue;
            bindings::blk_mq_unquiesce_queue(queue);
            bindings::blk_mq_start_stopped_hw_queues(queue, true);
            bindings::blk_mq_kick_requeue_list(queue);
        }
    }
}

/// Calls `f`, in which allocations do not wait for I/O: that of a disk that stands still would not
/// end. Process context. C functions: `memalloc_noio_save()`, `memalloc_noio_restore()`.
pub fn without_io<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: The scope is that of this function and this task, so scopes are nested.
    let flags = unsafe { ext::ext_memalloc_noio_save() };
    let result = f();
    // SAFETY: As above.
    unsafe { ext::ext_memalloc_noio_restore(flags) };
    result
}
