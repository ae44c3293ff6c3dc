// SPDX-License-Identifier: GPL-2.0

//! Requests about ranges of the disk, which the device is told in the place of data.
//!
//! The block layer merges discards in two ways. If the disk takes several ranges at a time
//! (`max_discard_segments`), each bio of a request is a range, and they may lie anywhere. If it
//! takes one, the bios of a request follow one another, and the request as a whole is the range.
//! That is also how it merges what it erases; what it zeroes it does not merge.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//! (`blk_rq_nr_discard_segments()`)

use crate::{
    frame::{Frame, RANGE},
    operations::Operations,
    request::{Idle, Op, Request, Started},
};
use kernel::{bindings, prelude::*};

/// The binary logarithm of the bytes in a sector.
const SECTOR_SHIFT: u32 = bindings::SECTOR_SHIFT;

/// A range of the disk, in sectors of 512 bytes whatever the logical block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first sector.
    pub sector: u64,
    /// How many sectors there are.
    pub sectors: u32,
}

impl<const HEADER: usize, const TRAILER: usize, T> Request<T, Idle>
where
    T: Operations<RequestData = Frame<HEADER, TRAILER>>,
{
    /// Writes the header, has the device read the request's ranges, each as `encode` makes it, and
    /// tells the block layer that the request is on its way. For [`Op::Discard`],
    /// [`Op::WriteZeroes`] and [`Op::SecureErase`].
    ///
    /// # Errors
    ///
    /// The request, unchanged, if memory for several ranges ran out.
    #[cold]
    pub fn start_with_ranges(
        mut self,
        header: [u8; HEADER],
        encode: impl Fn(Range) -> [u8; RANGE],
    ) -> Result<Request<T, Started>, Self> {
        if self.has_ranges_apart() {
            let Ok(ranges) = self.ranges_apart(encode) else {
                return Err(self);
            };
            self.data_mut().map_ranges(header, ranges);
        } else {
            let range = Range {
                sector: self.sector(),
                sectors: self.bytes() >> SECTOR_SHIFT,
            };
            self.data_mut().map_range(header, encode(range));
        }
        // SAFETY: The frame was mapped.
        Ok(unsafe { self.mark_started() })
    }

    /// Whether the request has several ranges, a bio each.
    fn has_ranges_apart(&self) -> bool {
        // SAFETY: `ptr` is valid by the type invariant.
        let rq = unsafe { &*self.as_raw() };
        // SAFETY: The queue of a request is valid as long as that.
        let at_most = unsafe { (*rq.q).limits.max_discard_segments };
        self.op() == Op::Discard && at_most > 1 && rq.bio != rq.biotail
    }

    /// The ranges, a bio each.
    fn ranges_apart(&self, encode: impl Fn(Range) -> [u8; RANGE]) -> Result<KVec<[u8; RANGE]>> {
        // SAFETY: `ptr` is valid by the type invariant.
        let rq = unsafe { &*self.as_raw() };
        let (mut next, count) = (rq.bio, rq.nr_phys_segments);
        let mut ranges = KVec::with_capacity(count.into(), GFP_ATOMIC)?;
        // SAFETY: The bios of a request are valid as long as it is, and linked by `bi_next`.
        while let Some(bio) = unsafe { next.as_ref() } {
            let range = Range {
                sector: bio.bi_iter.bi_sector,
                sectors: bio.bi_iter.bi_size >> SECTOR_SHIFT,
            };
            ranges.push(encode(range), GFP_ATOMIC)?;
            next = bio.bi_next;
        }
        Ok(ranges)
    }
}
