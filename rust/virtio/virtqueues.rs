// SPDX-License-Identifier: GPL-2.0

//! The virtqueues of a device: how they are made and deleted, together.
//!
//! C header: [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h)

use crate::{
    device::{Device, DeviceRef},
    feature::transport,
    token::Token,
    virtqueue::Virtqueue,
};
use bindings_ext as bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    str::CString,
    sync::{
        atomic::{Atomic, Full},
        Arc, UniqueArc,
    },
};

/// What all virtqueues of a device share. They are deleted when the last reference goes.
///
/// # Invariants
///
/// The device's virtqueues were found once, and are deleted only when this is dropped.
pub(crate) struct Vqs {
    device: DeviceRef,
    was_reset: Atomic<bool>,
    /// The core keeps pointers to the names.
    _names: KVec<CString>,
}

impl Vqs {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Resets the device, unless that was done. Process context; may sleep.
    pub(crate) fn reset(&self) {
        if !self.was_reset.xchg(true, Full) {
            self.device.reset();
        }
    }
}

impl Drop for Vqs {
    fn drop(&mut self) {
        self.reset();
        let vdev = self.device.as_raw();
        // SAFETY: The device is valid by the invariants of `Device`, and so are its operations.
        if let Some(del_vqs) = unsafe { (*(*vdev).config).del_vqs } {
            // SAFETY: By the type invariant the virtqueues exist, and nobody refers to them any
            // more. The device was reset.
            unsafe { del_vqs(vdev) };
        }
    }
}

/// Virtqueues of a device that is not live yet: nothing can be submitted.
pub struct Virtqueues {
    vqs: Arc<Vqs>,
    raw: KVec<NonNull<bindings::virtqueue>>,
}

impl Virtqueues {
    /// Finds `count` virtqueues. Those from `polled` on have no signal; the others each have their
    /// own where the transport can do that, spread over the CPUs. `name` gives each its name, which
    /// shows in `/proc/interrupts`.
    pub(crate) fn find(
        device: &Device,
        count: u16,
        polled: u16,
        callback: unsafe extern "C" fn(*mut bindings::virtqueue),
        mut name: impl FnMut(u16) -> Result<CString>,
    ) -> Result<Self> {
        let mut names = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        let mut infos = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for index in 0..count {
            let name = name(index)?;
            infos.push(
                bindings::virtqueue_info {
                    name: name.as_char_ptr(),
                    callback: (index < polled).then_some(callback),
                    ctx: false,
                },
                GFP_KERNEL,
            )?;
            names.push(name, GFP_KERNEL)?;
        }
        let mut found = KVec::<*mut bindings::virtqueue>::from_elem(
            core::ptr::null_mut(),
            count.into(),
            GFP_KERNEL,
        )?;
        let mut affinity = kernel::bindings::irq_affinity::default();
        // Nothing may fail once the virtqueues exist, so the memory for them comes first.
        let vqs = UniqueArc::<Vqs>::new_uninit(GFP_KERNEL)?;
        let mut raw = KVec::with_capacity(count.into(), GFP_KERNEL)?;

        let vdev = device.as_raw();
        // SAFETY: The device is valid by the invariants of `Device`, and so are its operations.
        let find_vqs = unsafe { (*(*vdev).config).find_vqs }.ok_or(ENODEV)?;
        // SAFETY: The arrays have `count` entries each; the names live as long as the virtqueues
        // (they move into `Vqs` without moving their bytes).
        to_result(unsafe {
            find_vqs(
                vdev,
                count.into(),
                found.as_mut_ptr(),
                infos.as_mut_ptr(),
                &mut affinity,
            )
        })?;

        // INVARIANT: The virtqueues were found just now.
        let vqs = vqs.write(Vqs {
            device: device.into(),
            was_reset: Atomic::new(false),
            _names: names,
        });
        for vq in found {
            raw.push(NonNull::new(vq).ok_or(ENODEV)?, GFP_KERNEL)?;
        }
        let vqs = vqs.into();
        Ok(Self { vqs, raw })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The number of descriptors in the ring of the first queue, before any is in use.
    pub fn ring_size(&self) -> u32 {
        self.raw.first().map_or(0, |vq| {
            // SAFETY: The virtqueue is valid while `vqs` exists.
            unsafe { bindings::virtqueue_get_vring_size(vq.as_ptr()) }
        })
    }

    /// Whether a buffer of several parts takes one descriptor only (an indirect table).
    pub fn is_indirect(&self) -> bool {
        self.vqs.device().has_transport(transport::INDIRECT_DESC)
    }

    /// Sets `DRIVER_OK`: the device is live, and the virtqueues may be used. Process context.
    /// C function: `virtio_device_ready()`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the device is reset then.
    pub fn ready<T: Token>(self) -> Result<KVec<Virtqueue<T>>> {
        let mut queues = KVec::with_capacity(self.raw.len(), GFP_KERNEL)?;
        // SAFETY: The device is valid by the invariants of `Device`, its virtqueues were found, and
        // `DRIVER_OK` is not set: `self` is consumed by the one call that sets it.
        unsafe { bindings::ext_virtio_device_ready(self.vqs.device().as_raw()) };
        for ptr in self.raw {
            // SAFETY: `ptr` is one of the virtqueues of `vqs`; each is wrapped once, here.
            let queue = unsafe { Virtqueue::new(ptr, self.vqs.clone()) };
            queues.push(queue, GFP_KERNEL)?;
        }
        Ok(queues)
    }
}
