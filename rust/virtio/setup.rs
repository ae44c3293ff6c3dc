// SPDX-License-Identifier: GPL-2.0

//! A device that is being set up: when it is probed, taken back into service, or started anew.
//!
//! C header: [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h)

use crate::{
    device::{Device, DeviceRef},
    driver::{Adapter, Driver},
    virtqueues::Virtqueues,
};
use core::marker::PhantomData;
use kernel::{
    prelude::*,
    str::CString,
    sync::{new_mutex, Mutex},
};

/// The right to set up a device of driver `T`: nobody else does so meanwhile, and it stays bound.
pub struct Setup<'a, T: Driver> {
    device: &'a Device,
    _driver: PhantomData<T>,
}

impl<'a, T: Driver> Setup<'a, T> {
    pub(crate) fn new(device: &'a Device) -> Self {
        Self {
            device,
            _driver: PhantomData,
        }
    }

    /// The device.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Finds `count` virtqueues. The signals of those before `polled` lead to
    /// [`Driver::buffers_used`]; the others have none. `name` gives each its name for
    /// `/proc/interrupts`. Process context. C function: `virtio_find_vqs()`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the device has virtqueues still; `ENOENT` if it has fewer than `count`; `ENOMEM`,
    /// or what the transport reports.
    pub fn find_vqs(
        &self,
        count: u16,
        polled: u16,
        name: impl FnMut(u16) -> Result<CString>,
    ) -> Result<Virtqueues> {
        if self.device.has_virtqueues() {
            return Err(EBUSY);
        }
        let callback = Adapter::<T>::vq_callback;
        Virtqueues::find(self.device, count, polled, callback, name)
    }

    /// Starts a device without virtqueues anew, with or without a feature of the transport
    /// ([`transport`](crate::transport)), and with all others that it had. Process context. C
    /// function: `virtio_device_restore()` does the same without a change.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the device has virtqueues; `EOPNOTSUPP` if it does not offer the feature that is
    /// wanted; `ENODEV` if it does not want to go without the feature, or what the transport
    /// reports.
    pub fn start_anew(&self, feature: u32, wanted: bool) -> Result {
        if self.device.has_virtqueues() {
            return Err(EBUSY);
        }
        if wanted && !self.device.offers_transport(feature) {
            return Err(EOPNOTSUPP);
        }
        self.device.reset();
        self.device.negotiate(feature, wanted)
    }
}

/// The binding of a device to driver `T`. It can outlast the driver's hold on the device, and knows
/// that.
#[pin_data]
pub struct Binding<T: Driver> {
    device: DeviceRef,
    #[pin]
    lasts: Mutex<bool>,
    _driver: PhantomData<fn() -> T>,
}

impl<T: Driver> Binding<T> {
    pub(crate) fn new(device: &Device) -> impl PinInit<Self, Error> + use<'_, T> {
        try_pin_init!(Self {
            device: device.into(),
            lasts <- new_mutex!(true, "virtio::Binding"),
            _driver: PhantomData,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Calls `f` with the right to set the device up. Waits for others that have it:
    /// [`Driver::freeze`] and [`Driver::restore`] do, [`Driver::remove`] does not. Process context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is not bound any more; what `f` returns.
    pub fn with_setup<R>(&self, f: impl FnOnce(&Setup<'_, T>) -> Result<R>) -> Result<R> {
        let lasts = self.lasts.lock();
        if !*lasts {
            return Err(ENODEV);
        }
        f(&Setup::new(&self.device))
    }

    /// Ends the binding, when nobody sets the device up.
    pub(crate) fn end(&self) {
        *self.lasts.lock() = false;
    }
}
