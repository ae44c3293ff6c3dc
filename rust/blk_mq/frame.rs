// SPDX-License-Identifier: GPL-2.0

//! The frame of a request: what surrounds its data on the way to the device.
//!
//! Devices of the virtio kind are given a header to read, the data, and a trailer to write. The
//! frame holds header and trailer and the scatterlists for all three. It lies behind the
//! `struct request`, one per tag, and is built once: a request costs no more than its own data.
//!
//! The last byte of the trailer is the status. That is all that a device writes for most requests;
//! for those with an answer of some more bytes, the list of the trailer covers all of it until the
//! request leaves the driver.
//!
//! Ranges of the disk, which some operations have in the place of data, are in the frame if there
//! is one, and otherwise in memory that the frame frees with the request.
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h)

use bindings_ext::{ext_sg_set_req_bvec, SG_CHUNK_SIZE};
use core::ptr::NonNull;
use kernel::{bindings, prelude::*, types::Opaque};
use virtio::Chain;

/// Data of up to this many segments needs no allocation. Longer lists are chained from the kernel's
/// memory pools (`sg_alloc_table_chained()`).
const INLINE_SEGMENTS: usize = 2;

/// The length of the status, the last byte of the trailer.
const STATUS: usize = 1;

/// What no device may write past the trailer, and nothing else lives in: some devices store a whole
/// word at a trailer of one byte.
const GUARD: usize = 8;

/// The preset of the trailer: no device status has all bits set, so a trailer that the device did
/// not write is told from any that it did.
const PRESET: u8 = 0xff;

/// The length of an encoded range in bytes.
pub const RANGE: usize = 16;

/// The list of the data is a chained one.
const CHAIN: u8 = 1 << 0;

/// The ranges are in memory of their own.
const RANGES: u8 = 1 << 1;

/// The list of the trailer covers all of it.
const WHOLE_TRAILER: u8 = 1 << 2;

/// Header, trailer and scatterlists of a request. `TRAILER` is the length of the longest trailer.
///
/// # Invariants
///
/// - `header_list` describes `header`, `trailer_list` the last byte of `trailer`, or all of it with
///   [`WHOLE_TRAILER`]; both end there.
/// - With [`CHAIN`], `table` was allocated by `sg_alloc_table_chained()` with `inline` as its first
///   chunk; otherwise `inline` holds no chain link.
/// - Without [`RANGES`], `ranges` is empty.
#[repr(C)]
pub struct Frame<const HEADER: usize, const TRAILER: usize> {
    header_list: Opaque<bindings::scatterlist>,
    trailer_list: Opaque<bindings::scatterlist>,
    inline: Opaque<[bindings::scatterlist; INLINE_SEGMENTS]>,
    table: bindings::sg_table,
    entries: u32,
    /// What is to be undone when the request leaves the driver: nothing, as a rule.
    extras: u8,
    to_device: bool,
    header: Aligned<[u8; HEADER]>,
    trailer: Opaque<[u8; TRAILER]>,
    _guard: [u8; GUARD],
    range: Aligned<[u8; RANGE]>,
    ranges: KVec<[u8; RANGE]>,
}

/// Bytes that are written in words.
#[repr(align(8))]
struct Aligned<T>(T);

// SAFETY: The frame belongs to whoever has its request; nothing in it is tied to a thread.
unsafe impl<const HEADER: usize, const TRAILER: usize> Send for Frame<HEADER, TRAILER> {}

// SAFETY: `&Frame` gives access to nothing but plain values.
unsafe impl<const HEADER: usize, const TRAILER: usize> Sync for Frame<HEADER, TRAILER> {}

impl<const HEADER: usize, const TRAILER: usize> Frame<HEADER, TRAILER> {
    /// A frame for the tags of a tag set.
    pub fn new() -> impl PinInit<Self, Error> {
        let init = |slot: *mut Self| {
            // SAFETY: `slot` is valid for writes, and all-zero is a valid value of every field but
            // `ranges`, which is written. The memory is behind a `struct request`: from pages or
            // `kmalloc()`, so `sg_init_one()` may take its address.
            unsafe {
                slot.write_bytes(0, 1);
                (&raw mut (*slot).ranges).write(KVec::new());
                bindings::sg_init_one(
                    Opaque::cast_into(&raw const (*slot).header_list),
                    (&raw const (*slot).header).cast(),
                    HEADER as u32,
                );
                Self::list_trailer(slot, STATUS);
                Self::clear_inline(slot);
            }
            // INVARIANT: Both lists were set up, nothing is chained, and there are no ranges.
            Ok(())
        };
        // SAFETY: The closure initialises the whole slot, or would leave it untouched.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// # Safety
    ///
    /// `slot` must be valid for writes.
    unsafe fn clear_inline(slot: *mut Self) {
        // SAFETY: By the requirement of this function; the list has that many entries.
        unsafe {
            bindings::sg_init_table(
                Opaque::cast_into(&raw const (*slot).inline).cast(),
                INLINE_SEGMENTS as u32,
            )
        };
    }

    /// Makes the list of the trailer describe its last `length` bytes.
    ///
    /// # Safety
    ///
    /// `slot` must be valid for writes, and the device must not own it.
    unsafe fn list_trailer(slot: *mut Self, length: usize) {
        const { assert!(TRAILER >= STATUS) };
        // SAFETY: By the requirement of this function. The bytes are in the frame: see `new()`.
        unsafe {
            let end = (&raw const (*slot).trailer).cast::<u8>().add(TRAILER);
            bindings::sg_init_one(
                Opaque::cast_into(&raw const (*slot).trailer_list),
                end.sub(length).cast(),
                length as u32,
            );
        }
    }

    #[inline]
    fn status_ptr(&self) -> *mut u8 {
        self.trailer
            .get()
            .cast::<u8>()
            .wrapping_add(TRAILER - STATUS)
    }

    /// Writes the header and presets the status. There is no data yet.
    #[inline]
    fn begin(&mut self, header: [u8; HEADER], to_device: bool) {
        self.header = Aligned(header);
        // SAFETY: The device does not own the frame, so the trailer may be written.
        unsafe { self.status_ptr().write(PRESET) };
        self.to_device = to_device;
        self.entries = 0;
    }

    /// Writes the header, presets the status, and maps the data of `rq` into the lists.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: no memory for a long list; nothing is mapped.
    ///
    /// # Safety
    ///
    /// `rq` must be the request that the frame belongs to, owned by the caller, with `segments`
    /// segments of data. The frame must not be mapped.
    #[inline]
    pub(crate) unsafe fn map(
        &mut self,
        rq: *mut bindings::request,
        segments: u32,
        to_device: bool,
        header: [u8; HEADER],
    ) -> Result {
        self.begin(header, to_device);
        if segments == 0 {
            return Ok(());
        }
        // SAFETY: `rq` has data, and the inline list is not in use.
        if segments == 1 && unsafe { ext_sg_set_req_bvec(self.data_list(), rq) } {
            self.entries = 1;
            return Ok(());
        }
        if segments as usize > INLINE_SEGMENTS {
            self.chain_list(segments)?;
        }
        let mut last = core::ptr::null_mut();
        // SAFETY: `rq` is valid and its data has `segments` segments, for which the list has room.
        let entries = unsafe { bindings::__blk_rq_map_sg(rq, self.data_list(), &mut last) };
        self.entries = entries as u32;
        Ok(())
    }

    #[cold]
    fn chain_list(&mut self, segments: u32) -> Result {
        const { assert!(INLINE_SEGMENTS <= SG_CHUNK_SIZE) };
        self.table.sgl = self.inline.get().cast();
        // SAFETY: The inline list has as many entries as stated and is not in use.
        kernel::error::to_result(unsafe {
            bindings::sg_alloc_table_chained(
                &mut self.table,
                segments as i32,
                self.table.sgl,
                INLINE_SEGMENTS as u32,
            )
        })?;
        // INVARIANT: The table was allocated with the inline list as its first chunk.
        self.extras |= CHAIN;
        Ok(())
    }

    /// Writes the header, presets the status, and has the device read `range` as data. The frame
    /// must not be mapped.
    pub(crate) fn map_range(&mut self, header: [u8; HEADER], range: [u8; RANGE]) {
        self.begin(header, true);
        self.range = Aligned(range);
        self.list_ranges(&raw const self.range.0, 1);
    }

    /// As [`Self::map_range`], with several of them.
    pub(crate) fn map_ranges(&mut self, header: [u8; HEADER], ranges: KVec<[u8; RANGE]>) {
        self.begin(header, true);
        self.ranges = ranges;
        self.extras |= RANGES;
        self.list_ranges(self.ranges.as_ptr(), self.ranges.len());
    }

    fn list_ranges(&mut self, ranges: *const [u8; RANGE], count: usize) {
        // SAFETY: The inline list is not in use; the ranges are in the frame (see `new()`) or from
        // `kmalloc()`.
        unsafe { bindings::sg_init_one(self.data_list(), ranges.cast(), (count * RANGE) as u32) };
        self.entries = 1;
    }

    /// Has the device write the whole trailer, and presets that. The frame must have been mapped.
    pub(crate) fn use_whole_trailer(&mut self) {
        // SAFETY: The device does not own the frame.
        unsafe {
            self.trailer.get().write([PRESET; TRAILER]);
            Self::list_trailer(self, TRAILER);
        }
        // INVARIANT: The list covers the whole trailer.
        self.extras |= WHOLE_TRAILER;
    }

    #[cold]
    fn release_extras(&mut self) {
        if self.extras & CHAIN != 0 {
            // SAFETY: By the type invariant the table was allocated that way. The inline list is
            // free again after that.
            unsafe {
                bindings::sg_free_table_chained(&mut self.table, INLINE_SEGMENTS as u32);
                Self::clear_inline(self);
            }
        }
        if self.extras & RANGES != 0 {
            self.ranges = KVec::new();
        }
        if self.extras & WHOLE_TRAILER != 0 {
            // SAFETY: The device does not own the frame any more.
            unsafe { Self::list_trailer(self, STATUS) };
        }
        // INVARIANT: The table is gone and the inline list was initialised, there are no ranges,
        // and the list of the trailer is the usual one.
        self.extras = 0;
    }

    #[inline]
    fn data_list(&mut self) -> *mut bindings::scatterlist {
        // The first entry of a chained list is that of the inline list, too.
        self.inline.get().cast()
    }

    /// The memory of header, data and trailer.
    #[inline]
    pub(crate) fn describe(&mut self) -> Chain {
        let chain = Chain::new().readable(self.header_list.get(), 1);
        let chain = match (self.entries, self.to_device) {
            (0, _) => chain,
            (entries, true) => chain.readable(self.data_list(), entries),
            (entries, false) => chain.writable(self.data_list(), entries),
        };
        chain.writable(self.trailer_list.get(), 1)
    }

    /// Keeps a header that was made before the request is mapped.
    pub(crate) fn put_header(&mut self, header: [u8; HEADER]) {
        self.header = Aligned(header);
    }

    /// The header that was written last.
    pub(crate) fn header(&self) -> [u8; HEADER] {
        self.header.0
    }

    /// What the device wrote into the last byte of the trailer; all bits are set if it wrote
    /// nothing.
    #[inline]
    pub(crate) fn status(&self) -> u8 {
        // SAFETY: As in `trailer()`.
        unsafe { self.status_ptr().read_volatile() }
    }

    /// What the device wrote into the trailer, if that was used as a whole; all bits are set where
    /// it wrote nothing.
    #[inline]
    pub(crate) fn trailer(&self) -> [u8; TRAILER] {
        // SAFETY: The bytes are initialised. The read is volatile as the device wrote them, and may
        // be broken enough to do so still.
        unsafe { self.trailer.get().read_volatile() }
    }
}

impl<const HEADER: usize, const TRAILER: usize> RequestData for Frame<HEADER, TRAILER> {
    #[inline]
    fn is_plain(&self) -> bool {
        self.extras == 0
    }

    /// Releases what the request has beyond the frame's own memory: nothing, as a rule.
    #[inline]
    fn release(&mut self) {
        if self.extras != 0 {
            self.release_extras();
        }
    }
}

/// The private data of a request: built once per tag, used by one request after the other.
pub trait RequestData: Send + Sync {
    /// Whether there is nothing to release, and nothing in the device's answer but a status: as a
    /// rule.
    fn is_plain(&self) -> bool;

    /// Releases what the data holds for the current request, which leaves the driver.
    fn release(&mut self);
}

/// The private data behind `rq` (`blk_mq_rq_to_pdu()`).
///
/// # Safety
///
/// `rq` must be a request of a tag set whose private data is a `D`.
#[inline]
pub(crate) unsafe fn data_ptr<D>(rq: NonNull<bindings::request>) -> NonNull<D> {
    // SAFETY: The tag set allocates each request with its private data behind it.
    unsafe { rq.add(1).cast() }
}
