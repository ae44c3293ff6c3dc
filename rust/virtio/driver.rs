// SPDX-License-Identifier: GPL-2.0

//! Registration of drivers with the virtio bus.
//!
//! C header: [`include/linux/virtio.h`](srctree/include/linux/virtio.h)

use crate::{
    device::Device,
    feature::FeatureTable,
    setup::{Binding, Setup},
};
use bindings_ext as bindings;
use core::{marker::PhantomData, ops::Deref};
use kernel::{
    container_of,
    device_id::RawDeviceId,
    error::{from_result, to_result},
    ffi::{c_int, c_uint},
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Full, Relaxed, Release},
        Arc,
    },
    types::Opaque,
};

/// A driver of virtio devices.
///
/// All functions are called in process context, except [`Driver::buffers_used`].
pub trait Driver: Sized + 'static {
    /// The features that the driver knows.
    type Features: FeatureTable;

    /// What all devices of the driver share; it lives in the [`Registration`].
    type Shared: Send + Sync;

    /// A device's data, which its callbacks reach from [`Probe::attach`] until
    /// [`Driver::remove`] has returned.
    type Data: Send + Sync;

    /// The devices that the driver can serve.
    const ID_TABLE: IdTable;

    /// Takes a device into service. [`Probe::attach`] must have been called for the data that is
    /// returned.
    ///
    /// # Errors
    ///
    /// Whatever keeps the device from being used; it is reset, and the data dropped.
    fn probe(probe: &Probe<'_, Self>, shared: &Self::Shared) -> Result<Arc<Self::Data>>;

    /// Takes a device out of service: when this returns, the driver must not submit anything to its
    /// virtqueues any more, and must have dropped them.
    fn remove(device: &Device, data: Arc<Self::Data>);

    /// Takes a device out of service for a while, because it is suspended or reset by its bus: when
    /// this returns, the driver must have dropped its virtqueues. [`Driver::restore`] or
    /// [`Driver::remove`] follows. C callbacks: `freeze`, `reset_prepare`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the device from being taken out of service; it is in service then.
    fn freeze(device: &Device, data: &Self::Data) -> Result;

    /// Takes a device into service again. It was reset, and has the features that it had. C
    /// callbacks: `restore`, `reset_done`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the device from being used.
    fn restore(setup: &Setup<'_, Self>, data: &Self::Data) -> Result;

    /// The configuration space has changed. Never at the same time as [`Driver::remove`].
    fn config_changed(device: &Device, data: &Self::Data) {
        let _ = (device, data);
    }

    /// The device has returned buffers of the virtqueue `index`. Hard interrupt context, as a rule:
    /// must not sleep.
    fn buffers_used(data: &Self::Data, index: u32);
}

/// A device id for a table of [`Driver::ID_TABLE`].
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct DeviceId(bindings::virtio_device_id);

impl DeviceId {
    /// Block devices (virtio 1.2, section 5.2), of any vendor.
    pub const BLOCK: Self = Self::any_vendor(bindings::VIRTIO_ID_BLOCK);

    /// The device type `device` (`VIRTIO_ID_*`), of any vendor.
    pub const fn any_vendor(device: u32) -> Self {
        Self(bindings::virtio_device_id {
            device,
            vendor: bindings::VIRTIO_DEV_ANY_ID,
        })
    }
}

// SAFETY: `DeviceId` is a transparent wrapper of the raw type.
unsafe impl RawDeviceId for DeviceId {
    type RawType = bindings::virtio_device_id;
}

/// A table of device ids.
pub type IdTable = &'static dyn kernel::device_id::IdTable<DeviceId, ()>;

/// Declares a table of device ids, from which the module's aliases are made.
///
/// # Examples
///
/// ```ignore
/// virtio::device_table! { BLOCK_DEVICES, [virtio::DeviceId::BLOCK] }
/// ```
#[macro_export]
macro_rules! device_table {
    ($name:ident, [$($id:expr),* $(,)?]) => {
        ::kernel::module_device_table!("virtio", $crate::DeviceId, $name, @none, [$($id),*]);
    };
}

/// What the bus knows of a device of driver `T`; `vdev->priv` points to it.
#[pin_data]
struct Bound<T: Driver> {
    binding: Arc<Binding<T>>,
    data: Arc<T::Data>,
    #[pin]
    config_work: Opaque<kernel::bindings::work_struct>,
}

/// A device while it is probed.
pub struct Probe<'a, T: Driver> {
    setup: Setup<'a, T>,
    binding: Arc<Binding<T>>,
}

impl<'a, T: Driver> Deref for Probe<'a, T> {
    type Target = Setup<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.setup
    }
}

impl<T: Driver> Probe<'_, T> {
    /// The device's binding to the driver, from now until it is removed or the probe has failed.
    pub fn binding(&self) -> Arc<Binding<T>> {
        self.binding.clone()
    }

    /// Makes `data` reachable from the device's callbacks. What the device signals before this is
    /// ignored: so attach before the first buffer is added.
    ///
    /// # Errors
    ///
    /// `EBUSY` if something is attached; `ENOMEM`.
    pub fn attach(&self, data: Arc<T::Data>) -> Result {
        let slot = Adapter::<T>::slot(self.device());
        if !slot.load(Relaxed).is_null() {
            return Err(EBUSY);
        }
        let bound = KBox::try_pin_init(
            try_pin_init!(Bound::<T> {
                binding: self.binding.clone(),
                data,
                config_work <- Opaque::ffi_init(|work| {
                    // SAFETY: `work` is valid for writes and pinned; the work is cancelled before
                    // its memory goes.
                    unsafe {
                        kernel::bindings::init_work_with_key(
                            work,
                            Some(Adapter::<T>::config_work),
                            false,
                            c"virtio config".as_char_ptr(),
                            kernel::static_lock_class!().as_ptr(),
                        )
                    };
                }),
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: The value stays where it is until `Adapter::detach()` makes the box again.
        let ptr = KBox::into_raw(unsafe { Pin::into_inner_unchecked(bound) });
        slot.store(ptr, Release);
        Ok(())
    }
}

/// The C side of a driver `T`.
pub struct Adapter<T: Driver>(PhantomData<T>);

impl<T: Driver> Adapter<T> {
    /// `vdev->priv`, which belongs to the driver of a bound device.
    fn slot(device: &Device) -> &Atomic<*mut Bound<T>> {
        // SAFETY: The device is valid by its invariants. While it is bound to this driver, `priv`
        // is accessed through this function only; it is aligned as any pointer.
        unsafe { Atomic::from_ptr((&raw mut (*device.as_raw()).priv_).cast()) }
    }

    fn bound(device: &Device) -> Option<&Bound<T>> {
        let ptr = Self::slot(device).load(Acquire);
        // SAFETY: The pointer is null, or one that `Probe::attach()` stored. It stays valid until
        // `detach()`, which runs when callbacks and work have ended.
        unsafe { ptr.as_ref() }
    }

    /// Resets the device if the driver has not, and takes the data back from `vdev->priv`.
    fn detach(device: &Device) {
        if device.status() != 0 {
            device.reset();
        }
        let ptr = Self::slot(device).xchg(core::ptr::null_mut(), Full);
        if !ptr.is_null() {
            device.synchronize_callbacks();
            // SAFETY: `Probe::attach()` made the pointer from a pinned box. Callbacks that saw it
            // have ended, further ones do not see it, and the work was cancelled or never queued.
            drop(Pin::from(unsafe { KBox::from_raw(ptr) }));
        }
    }

    extern "C" fn probe(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The bus calls this with a valid device.
        let device = unsafe { Device::from_raw(vdev) };
        // SAFETY: A device that is being probed has this driver, which is the one embedded in a
        // `Registration<T>` that stays until all devices are unbound.
        let registration = unsafe {
            let driver = (*vdev).dev.driver;
            let driver = container_of!(driver, bindings::virtio_driver, driver);
            &*container_of!(Opaque::cast_from(driver), Registration<T>, driver)
        };
        Self::slot(device).store(core::ptr::null_mut(), Relaxed);
        from_result(|| {
            let binding = Arc::pin_init(Binding::new(device), GFP_KERNEL)?;
            let probe = Probe {
                setup: Setup::new(device),
                binding: binding.clone(),
            };
            let result = T::probe(&probe, &registration.shared);
            if result.is_err() {
                binding.end();
                Self::detach(device);
            }
            result.map(|_| 0)
        })
    }

    extern "C" fn remove(vdev: *mut bindings::virtio_device) {
        // SAFETY: The bus calls this with a valid device that is bound to this driver.
        let device = unsafe { Device::from_raw(vdev) };
        if let Some(bound) = Self::bound(device) {
            // SAFETY: The work was initialised by `Probe::attach()`. The bus has disabled changes
            // of the configuration, so it is not queued again.
            unsafe { kernel::bindings::cancel_work_sync(bound.config_work.get()) };
            T::remove(device, bound.data.clone());
            bound.binding.end();
        }
        Self::detach(device);
    }

    extern "C" fn freeze(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The bus calls this with a valid device that is bound to this driver.
        let device = unsafe { Device::from_raw(vdev) };
        let Some(bound) = Self::bound(device) else {
            return 0;
        };
        // SAFETY: The work was initialised by `Probe::attach()`. The bus has disabled changes of
        // the configuration, so it is not queued again.
        unsafe { kernel::bindings::flush_work(bound.config_work.get()) };
        from_result(|| {
            bound
                .binding
                .with_setup(|_| T::freeze(device, &bound.data))?;
            Ok(0)
        })
    }

    extern "C" fn restore(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The bus calls this with a valid device that is bound to this driver.
        let device = unsafe { Device::from_raw(vdev) };
        let Some(bound) = Self::bound(device) else {
            return 0;
        };
        from_result(|| {
            bound
                .binding
                .with_setup(|setup| T::restore(setup, &bound.data))?;
            Ok(0)
        })
    }

    extern "C" fn config_changed(vdev: *mut bindings::virtio_device) {
        // SAFETY: The bus calls this with a valid device that is bound to this driver.
        let device = unsafe { Device::from_raw(vdev) };
        if let Some(bound) = Self::bound(device) {
            // SAFETY: The work is initialised, and cancelled before it is freed.
            unsafe {
                kernel::bindings::queue_work_on(
                    kernel::bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                    kernel::bindings::system_dfl_wq,
                    bound.config_work.get(),
                )
            };
        }
    }

    extern "C" fn config_work(work: *mut kernel::bindings::work_struct) {
        // SAFETY: The work is the one in a `Bound<T>`, which stays valid while it runs.
        let bound = unsafe { &*container_of!(Opaque::cast_from(work), Bound<T>, config_work) };
        T::config_changed(bound.binding.device(), &bound.data);
    }

    /// # Safety
    ///
    /// For the core: `vq` is a virtqueue of a device that is bound to this driver.
    pub(crate) unsafe extern "C" fn vq_callback(vq: *mut bindings::virtqueue) {
        // SAFETY: The core calls this with a valid virtqueue of a valid device.
        let (vdev, index) = unsafe { ((*vq).vdev, (*vq).index) };
        // SAFETY: As above.
        let device = unsafe { Device::from_raw(vdev) };
        if let Some(bound) = Self::bound(device) {
            T::buffers_used(&bound.data, index);
        }
    }
}

/// The registration of a driver. Dropping it unbinds the driver from all its devices.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Driver> {
    #[pin]
    driver: Opaque<bindings::virtio_driver>,
    shared: T::Shared,
}

// SAFETY: What is reachable through `&Registration` is `shared`, which is `Sync`.
unsafe impl<T: Driver> Sync for Registration<T> {}

// SAFETY: Registering and unregistering may happen on different threads; `shared` is `Send`.
unsafe impl<T: Driver> Send for Registration<T> {}

impl<T: Driver> Registration<T> {
    /// Registers the driver under `name` and binds it to the devices that are there.
    /// C function: `register_virtio_driver()`.
    pub fn new(
        name: &'static CStr,
        module: &'static ThisModule,
        shared: T::Shared,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            shared,
            driver <- Opaque::ffi_init(|driver: *mut bindings::virtio_driver| {
                // SAFETY: `driver` is valid for writes. All pointers are to `'static` data.
                unsafe {
                    driver.write(bindings::virtio_driver::default());
                    (*driver).driver.name = name.as_char_ptr();
                    (*driver).id_table = T::ID_TABLE.as_ptr();
                    (*driver).feature_table = T::Features::MODERN.as_ptr();
                    (*driver).feature_table_size = T::Features::MODERN.len() as c_uint;
                    (*driver).feature_table_legacy = T::Features::LEGACY.as_ptr();
                    (*driver).feature_table_size_legacy = T::Features::LEGACY.len() as c_uint;
                    (*driver).probe = Some(Adapter::<T>::probe);
                    (*driver).remove = Some(Adapter::<T>::remove);
                    (*driver).config_changed = Some(Adapter::<T>::config_changed);
                    (*driver).freeze = Some(Adapter::<T>::freeze);
                    (*driver).restore = Some(Adapter::<T>::restore);
                    (*driver).reset_prepare = Some(Adapter::<T>::freeze);
                    (*driver).reset_done = Some(Adapter::<T>::restore);
                }
            }),
            _: {
                // SAFETY: All fields are initialised. The registration is pinned, and unregisters
                // when it is dropped; when this fails, nothing is registered.
                to_result(unsafe {
                    bindings::__register_virtio_driver(
                        Opaque::cast_into(&raw const (*this.as_ptr()).driver),
                        module.as_ptr(),
                    )
                })?;
            },
        })
    }
}

#[pinned_drop]
impl<T: Driver> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The driver was registered by `Registration::new()`.
        unsafe { bindings::unregister_virtio_driver(self.driver.get()) };
    }
}
