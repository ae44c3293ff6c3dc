// SPDX-License-Identifier: GPL-2.0

//! A virtqueue that is in use.
//!
//! C header: [`include/linux/virtio.h`](srctree/include/linux/virtio.h) (virtio 1.2, section 2.6
//! "Virtqueues")

use crate::{feature::transport, token::Token, used_event::UsedEvent, virtqueues::Vqs};
use bindings_ext as bindings;
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{prelude::*, sync::Arc};

/// A virtqueue whose device is live (`DRIVER_OK` is set), for buffers owned by tokens `T`.
///
/// All methods but those of [`Kick`] must be serialised: keep the value in the queue's lock.
/// Methods without another note may run in any context.
///
/// Dropping it resets the device if that was not done before, and drops the tokens that the device
/// still had. That may sleep: take the queue out of its lock first.
///
/// # Invariants
///
/// `ptr` is one of the virtqueues of `vqs`, which keeps it valid; its buffers' data pointers come
/// from [`Token::into_raw`] of `T`.
pub struct Virtqueue<T: Token> {
    ptr: NonNull<bindings::virtqueue>,
    vqs: Arc<Vqs>,
    indirect: bool,
    size: u32,
    /// [`None`] if the device does not look at such a field.
    used_event: Option<UsedEvent>,
    _token: PhantomData<T>,
}

// SAFETY: The tokens in the queue are `Send`; the rest may be used from any thread that has the
// value, as the C API asks only for serialisation.
unsafe impl<T: Token> Send for Virtqueue<T> {}

/// Why a buffer was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No descriptors are free now; buffers are in flight, so some will be.
    Full,
    /// Memory or mapping resources ran out; nothing in flight need free them. Try again later.
    Resource,
    /// The buffer can never be added: the queue is broken, or has fewer descriptors in all.
    Failed,
}

/// Where the field that tells the device when to signal points while callbacks are disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedEventHint {
    /// At the next buffer that the driver will offer: all in flight can be used without a signal.
    Avail,
    /// Just behind the next used buffer: the device passes it again after 65,535 more.
    Behind,
}

/// A token that the queue did not take.
pub struct Rejected<T> {
    /// The token, unchanged.
    pub token: T,
    /// Why it was not taken.
    pub reason: Reason,
}

/// A buffer that the device has returned.
pub struct Used<T> {
    /// The buffer's owner. Its id was in range and in flight: the core checked.
    pub token: T,
    /// How many bytes the device claims to have written. Not to be believed: see [`Used::within`].
    written: u32,
}

impl<T> Used<T> {
    /// The number of bytes that the device claims to have written, if it is at most `capacity`,
    /// what the buffer's writable part holds.
    #[inline]
    pub fn within(&self, capacity: u32) -> Option<u32> {
        (self.written <= capacity).then_some(self.written)
    }
}

/// A kick that is due, prepared under the queue's lock and to be sent after it.
#[must_use = "the device does not see new buffers before it is notified"]
pub struct Kick {
    ptr: NonNull<bindings::virtqueue>,
    _vqs: Arc<Vqs>,
}

impl Kick {
    /// Notifies the device. Any context; without the queue's lock.
    #[doc(alias = "virtqueue_notify")]
    #[inline]
    pub fn notify(self) {
        // SAFETY: `_vqs` keeps the virtqueue valid. `virtqueue_notify()` needs no serialisation.
        unsafe { bindings::virtqueue_notify(self.ptr.as_ptr()) };
    }
}

impl<T: Token> Virtqueue<T> {
    /// # Safety
    ///
    /// `ptr` must be one of the virtqueues of `vqs`, unused so far, and must be wrapped only once.
    pub(crate) unsafe fn new(ptr: NonNull<bindings::virtqueue>, vqs: Arc<Vqs>) -> Self {
        let indirect = vqs.device().has_transport(transport::INDIRECT_DESC);
        // SAFETY: `ptr` is valid by the requirement of this function.
        let size = unsafe { bindings::virtqueue_get_vring_size(ptr.as_ptr()) };
        // SAFETY: `ptr` is valid by the requirement of this function, its ring has the split format
        // if the packed one was not negotiated, and the queue keeps `vqs` as long as this.
        let used_event = unsafe { UsedEvent::new(vqs.device(), ptr) };
        // INVARIANT: By the requirement of this function; the queue has no buffers yet.
        Self {
            ptr,
            vqs,
            indirect,
            size,
            used_event,
            _token: PhantomData,
        }
    }

    /// The number of descriptors in the ring.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether a buffer of several parts takes one descriptor only (an indirect table).
    #[inline]
    pub fn is_indirect(&self) -> bool {
        self.indirect
    }

    #[inline]
    fn free(&self) -> u32 {
        // SAFETY: `ptr` is valid by the type invariant; `&self` is serialised with the writers.
        unsafe { (*self.ptr.as_ptr()).num_free }
    }

    /// Whether the device has any buffers.
    #[inline]
    pub fn is_in_flight(&self) -> bool {
        self.free() < self.size
    }

    /// Whether the device broke the protocol, or is gone: nothing will be returned any more.
    #[doc(alias = "virtqueue_is_broken")]
    #[inline]
    pub fn is_broken(&self) -> bool {
        // SAFETY: `ptr` is valid by the type invariant.
        unsafe { bindings::virtqueue_is_broken(self.ptr.as_ptr()) }
    }

    /// Offers a buffer to the device. The device sees it at the next kick, or earlier.
    ///
    /// # Errors
    ///
    /// The token comes back with the [`Reason`].
    #[doc(alias = "virtqueue_add_sgs")]
    #[inline]
    pub fn add(&mut self, mut token: T) -> Result<(), Rejected<T>> {
        let chain = token.describe();
        let needed = if self.indirect { 1 } else { chain.descriptors };
        // The core would notify the device from under the lock when it finds the ring full.
        if self.free() < needed {
            let reason = if self.is_in_flight() {
                Reason::Full
            } else {
                Reason::Failed
            };
            return Err(Rejected { token, reason });
        }
        let mut lists = chain.lists;
        let data = token.into_raw();
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises. The lists are
        // valid, terminated, and stay so as long as the device has them, by the requirements of
        // `Token`; `data` is not null.
        let err = unsafe {
            bindings::virtqueue_add_sgs(
                self.ptr.as_ptr(),
                lists.as_mut_ptr(),
                chain.readable,
                chain.writable,
                data.as_ptr(),
                bindings::GFP_ATOMIC,
            )
        };
        if err == 0 {
            return Ok(());
        }
        // SAFETY: `data` comes from `into_raw()` above and was not taken by the queue.
        let token = unsafe { T::from_raw(data) };
        let reason = match Error::from_errno(err) {
            // Only an indirect table that could not be had leads here: the ring is full for a
            // direct chain. With nothing in flight, only memory can help.
            ENOSPC if self.is_in_flight() => Reason::Full,
            ENOSPC | ENOMEM => Reason::Resource,
            _ => Reason::Failed,
        };
        Err(Rejected { token, reason })
    }

    /// Takes the next buffer that the device has returned.
    #[doc(alias = "virtqueue_get_buf")]
    #[inline]
    pub fn get_buf(&mut self) -> Option<Used<T>> {
        let mut written = 0;
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises.
        let data = unsafe { bindings::virtqueue_get_buf(self.ptr.as_ptr(), &mut written) };
        let data = NonNull::new(data)?;
        if let Some(used_event) = &mut self.used_event {
            used_event.advance();
        }
        // SAFETY: By the type invariant `data` comes from `into_raw()`. The core checks that the
        // used id is one of a buffer in flight and forgets it, so it is returned once only.
        let token = unsafe { T::from_raw(data) };
        Some(Used { token, written })
    }

    /// Tells the device that no signal is wanted; it may send one all the same.
    #[doc(alias = "virtqueue_disable_cb")]
    #[inline]
    pub fn disable_cb(&mut self) {
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises.
        unsafe { bindings::virtqueue_disable_cb(self.ptr.as_ptr()) };
    }

    /// Asks for a signal for the next used buffer; `false` if there are some already.
    #[doc(alias = "virtqueue_enable_cb")]
    #[inline]
    pub fn enable_cb(&mut self) -> bool {
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises.
        unsafe { bindings::virtqueue_enable_cb(self.ptr.as_ptr()) }
    }

    /// Asks for a signal when three quarters of the buffers in flight are used; `false` if they are
    /// already.
    #[doc(alias = "virtqueue_enable_cb_delayed")]
    #[inline]
    pub fn enable_cb_delayed(&mut self) -> bool {
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises.
        unsafe { bindings::virtqueue_enable_cb_delayed(self.ptr.as_ptr()) }
    }

    /// Whether a signal can be asked for at a certain buffer ahead: split ring and
    /// `VIRTIO_RING_F_EVENT_IDX`.
    #[inline]
    pub fn has_used_event(&self) -> bool {
        self.used_event.is_some()
    }

    /// Asks for a signal at the used buffer number `count` from now, 1 being the next one; `false`
    /// if as many are there already. Without [`Virtqueue::has_used_event`] no signal is asked for.
    /// The core takes callbacks to be off meanwhile (virtio 1.2, section 2.7.7 "Used Buffer
    /// Notification Suppression").
    #[inline]
    pub fn enable_cb_ahead(&mut self, count: u16) -> bool {
        self.disable_cb();
        match &self.used_event {
            Some(used_event) => used_event.arm(count),
            None => true,
        }
    }

    /// Rewrites the field that tells the device when to signal, while callbacks are disabled: a
    /// hint for a device that would signal all the same. Does nothing without
    /// [`Virtqueue::has_used_event`].
    #[inline]
    pub fn hint_used_event(&mut self, hint: UsedEventHint) {
        if let Some(used_event) = &self.used_event {
            used_event.hint(hint);
        }
    }

    /// Makes the buffers that were added visible; [`Some`] if the device wants to be notified.
    #[doc(alias = "virtqueue_kick_prepare")]
    #[inline]
    pub fn kick_prepare(&mut self) -> Option<Kick> {
        // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises.
        let wanted = unsafe { bindings::virtqueue_kick_prepare(self.ptr.as_ptr()) };
        wanted.then(|| Kick {
            ptr: self.ptr,
            _vqs: self.vqs.clone(),
        })
    }
}

impl<T: Token> Virtqueue<T> {
    /// Resets the device, unless that was done, and hands each buffer that it still had to `take`.
    /// Process context; may sleep.
    #[doc(alias = "virtqueue_detach_unused_buf")]
    pub fn retire(mut self, take: impl FnMut(T)) {
        self.detach_all(take);
    }

    fn detach_all(&mut self, mut take: impl FnMut(T)) {
        self.vqs.reset();
        loop {
            // SAFETY: `ptr` is valid by the type invariant and `&mut self` serialises. The device
            // was reset above, so it owns no buffer.
            let data = unsafe { bindings::virtqueue_detach_unused_buf(self.ptr.as_ptr()) };
            let Some(data) = NonNull::new(data) else {
                break;
            };
            // SAFETY: `data` comes from `into_raw()` by the type invariant; the core has forgotten
            // it now.
            take(unsafe { T::from_raw(data) });
        }
    }
}

impl<T: Token> Drop for Virtqueue<T> {
    fn drop(&mut self) {
        self.detach_all(drop);
    }
}
