// SPDX-License-Identifier: GPL-2.0

//! Ownership of what a virtqueue is given.

use core::ptr::NonNull;
use kernel::{bindings, ffi::c_void};

/// The most scatterlists of one buffer: header, data, trailer.
pub(crate) const MAX_LISTS: usize = 3;

/// The memory of one buffer, as scatterlists: first those that the device reads, then those that
/// it writes (virtio 1.2, section 2.7.4.2 demands this order).
pub struct Chain {
    pub(crate) lists: [*mut bindings::scatterlist; MAX_LISTS],
    pub(crate) readable: u32,
    pub(crate) writable: u32,
    pub(crate) descriptors: u32,
}

impl Chain {
    /// An empty chain.
    #[inline]
    pub const fn new() -> Self {
        Self {
            lists: [core::ptr::null_mut(); MAX_LISTS],
            readable: 0,
            writable: 0,
            descriptors: 0,
        }
    }

    /// Appends `list`, which takes `entries` descriptors and is read by the device. Lists past the
    /// third, and readable ones behind a writable one, are ignored.
    #[inline]
    pub fn readable(mut self, list: *mut bindings::scatterlist, entries: u32) -> Self {
        if self.writable == 0 && self.push(list, entries) {
            self.readable += 1;
        }
        self
    }

    /// Appends `list`, which takes `entries` descriptors and is written by the device. Lists past
    /// the third are ignored.
    #[inline]
    pub fn writable(mut self, list: *mut bindings::scatterlist, entries: u32) -> Self {
        if self.push(list, entries) {
            self.writable += 1;
        }
        self
    }

    #[inline]
    fn push(&mut self, list: *mut bindings::scatterlist, entries: u32) -> bool {
        let used = self.readable.wrapping_add(self.writable) as usize;
        let Some(slot) = self.lists.get_mut(used) else {
            return false;
        };
        *slot = list;
        self.descriptors = self.descriptors.wrapping_add(entries);
        true
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

/// The owner of a buffer's memory.
///
/// [`Virtqueue::add`](crate::Virtqueue::add) consumes the token, so nothing can reach the memory
/// while the device has it; [`Virtqueue::get_buf`](crate::Virtqueue::get_buf) makes the token
/// again. A token that is dropped (because its queue is) must release what it owns.
///
/// # Safety
///
/// - [`Token::describe`] must describe memory that the token owns, with as many entries in each
///   list as stated; memory and lists must stay valid, and untouched by anybody but the device,
///   from [`Token::into_raw`] until [`Token::from_raw`].
/// - The pointer of [`Token::into_raw`] must be unique among the tokens of a queue.
pub unsafe trait Token: Sized + Send {
    /// The token's memory.
    fn describe(&mut self) -> Chain;

    /// Gives the token up for a pointer that stands for it.
    fn into_raw(self) -> NonNull<c_void>;

    /// Takes the token back.
    ///
    /// # Safety
    ///
    /// `ptr` must come from [`Token::into_raw`], must not have been taken back since, and the
    /// device must not own the memory any more.
    unsafe fn from_raw(ptr: NonNull<c_void>) -> Self;
}
