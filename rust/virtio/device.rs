// SPDX-License-Identifier: GPL-2.0

//! A virtio device.
//!
//! C header: [`include/linux/virtio.h`](srctree/include/linux/virtio.h)

use crate::{
    config::{Field, Gated, Value},
    feature::{transport, Feature, FeatureTable},
};
use bindings_ext as bindings;
use core::ptr::NonNull;
use kernel::{
    bindings::{bus_for_each_dev, device, device_find_child, device_match_name, put_device},
    error::to_result,
    ffi::{c_int, c_void},
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
    types::Opaque,
};

/// How often a wide field is read again because the configuration changed meanwhile. A device that
/// changes it faster than that is broken.
const GENERATION_RETRIES: u32 = 64;

/// A `struct virtio_device`.
///
/// # Invariants
///
/// `self.0` is a valid `struct virtio_device` that was registered with the virtio bus.
#[repr(transparent)]
pub struct Device(Opaque<bindings::virtio_device>);

// SAFETY: A `struct virtio_device` may be used and released from any thread.
unsafe impl Send for Device {}

// SAFETY: What `&Device` offers is synchronised by the transport or reads what never changes while
// a driver is bound.
unsafe impl Sync for Device {}

impl Device {
    /// # Safety
    ///
    /// `ptr` must point to a valid `struct virtio_device` for the whole of `'a`.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::virtio_device) -> &'a Self {
        // SAFETY: By the requirement of this function; `Device` is transparent.
        unsafe { &*ptr.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::virtio_device {
        self.0.get()
    }

    fn ops(&self) -> &bindings::virtio_config_ops {
        // SAFETY: By the type invariant the device is registered, so `config` points to the
        // transport's operations, which outlive it and never change.
        unsafe { &*(*self.as_raw()).config }
    }

    /// Whether the feature bit `bit` is among the negotiated ones.
    fn has_bit(&self, bit: u32) -> bool {
        // SAFETY: By the type invariant. The union holds the same bits in either form, and they do
        // not change but by who sets the device up, one of them at a time.
        let words = unsafe { (*self.as_raw()).__bindgen_anon_1.features_array.as_ref() };
        words
            .get((bit / u64::BITS) as usize)
            .is_some_and(|word| word & (1 << (bit % u64::BITS)) != 0)
    }

    /// Whether a feature of the driver's table was negotiated.
    pub fn has<F: FeatureTable>(&self, feature: Feature<F>) -> bool {
        self.has_bit(feature.bit())
    }

    /// Whether a feature of the transport ([`transport`]) was negotiated.
    pub fn has_transport(&self, bit: u32) -> bool {
        self.has_bit(bit)
    }

    /// Reads a field of the configuration space. Process context; may sleep.
    ///
    /// # Errors
    ///
    /// `EIO` if the device has no readable configuration space, or keeps changing it while a wide
    /// field is read.
    pub fn read<V: Value>(&self, field: &Field<V>) -> Result<V> {
        let mut bytes = [0; 8];
        if V::SIZE <= 4 {
            self.get(field.offset(), V::SIZE, &mut bytes)?;
        } else {
            self.get_wide(field.offset(), &mut bytes)?;
        }
        Ok(if self.is_little_endian() {
            V::from_le_bytes(bytes)
        } else {
            V::from_ne_bytes(bytes)
        })
    }

    /// Reads a field that comes with a feature: [`None`] if the feature was not negotiated.
    ///
    /// # Errors
    ///
    /// As for [`Device::read`].
    pub fn read_gated<V: Value, F: FeatureTable>(&self, gated: &Gated<V, F>) -> Result<Option<V>> {
        if !self.has_bit(gated.feature.bit()) {
            return Ok(None);
        }
        self.read(&gated.field).map(Some)
    }

    /// Writes a byte that comes with a feature. Process context; may sleep. C function:
    /// `virtio_cwrite8()`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the feature was not negotiated; `EIO` if the transport cannot write.
    pub fn write_gated<F: FeatureTable>(&self, gated: &Gated<u8, F>, value: u8) -> Result {
        if !self.has_bit(gated.feature.bit()) {
            return Err(EOPNOTSUPP);
        }
        let set = self.ops().set.ok_or(EIO)?;
        let offset = gated.field.offset();
        // SAFETY: By the type invariant; there is one byte to write.
        unsafe { set(self.as_raw(), offset, (&raw const value).cast(), 1) };
        Ok(())
    }

    /// Whether the device's fields are little-endian (all are on a little-endian guest).
    pub(crate) fn is_little_endian(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::ext_virtio_is_little_endian(self.as_raw()) }
    }

    fn get(&self, offset: u32, len: usize, bytes: &mut [u8; 8]) -> Result {
        let get = self.ops().get.ok_or(EIO)?;
        let len = len.min(bytes.len());
        // SAFETY: By the type invariant; `bytes` holds at least `len` bytes.
        unsafe { get(self.as_raw(), offset, bytes.as_mut_ptr().cast(), len as u32) };
        Ok(())
    }

    /// Reads a wide field until two readings in a row agree, each within one generation. The
    /// generation alone does not do: there are devices, QEMU among them, that change the value
    /// first and count the generation later.
    fn get_wide(&self, offset: u32, bytes: &mut [u8; 8]) -> Result {
        let get = self.ops().get.ok_or(EIO)?;
        let mut last = None;
        for _ in 0..GENERATION_RETRIES {
            let before = self.generation();
            // SAFETY: By the type invariant; `bytes` holds eight bytes.
            unsafe { get(self.as_raw(), offset, bytes.as_mut_ptr().cast(), 8) };
            let reading = (self.generation() == before).then_some(*bytes);
            if reading.is_some() && reading == last {
                return Ok(());
            }
            last = reading;
        }
        dev_err!(
            self.as_ref(),
            "the configuration space changes without end (offset {offset})\n"
        );
        Err(EIO)
    }

    fn generation(&self) -> u32 {
        match self.ops().generation {
            // SAFETY: By the type invariant.
            Some(generation) => unsafe { generation(self.as_raw()) },
            None => 0,
        }
    }

    /// Resets the device: it forgets all buffers. Callbacks that run already have ended when this
    /// returns. Process context; may sleep. C functions: `virtio_reset_device()`,
    /// `virtio_synchronize_cbs()`.
    pub(crate) fn reset(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::virtio_reset_device(self.as_raw()) };
        self.synchronize_callbacks();
    }

    /// Waits for the end of callbacks that run. Process context; may sleep.
    pub(crate) fn synchronize_callbacks(&self) {
        // Not all transports do this when they reset a device.
        // SAFETY: By the type invariant.
        unsafe { bindings::ext_virtio_synchronize_cbs(self.as_raw()) };
    }

    /// The status byte (virtio 1.2, section 2.1 "Device Status Field"). Process context.
    pub(crate) fn status(&self) -> u8 {
        match self.ops().get_status {
            // SAFETY: By the type invariant.
            Some(get_status) => unsafe { get_status(self.as_raw()) },
            None => 0,
        }
    }

    /// Whether some device of the bus has a child called `name`: a disk, for example. Process
    /// context.
    pub fn bus_has_child(&self, name: &CStr) -> bool {
        /// # Safety
        ///
        /// `device` must be valid, and `name` a string.
        unsafe extern "C" fn has_child(device: *mut device, name: *mut c_void) -> c_int {
            // SAFETY: The bus calls this with a valid device; `name` is the string passed below.
            let child = unsafe { device_find_child(device, name, Some(device_match_name)) };
            if child.is_null() {
                return 0;
            }
            // SAFETY: `device_find_child()` took a reference.
            unsafe { put_device(child) };
            1
        }
        // SAFETY: The device is registered by the type invariant, so it has a bus. The string lives
        // until the call returns.
        let found = unsafe {
            bus_for_each_dev(
                (*self.as_raw()).dev.bus,
                core::ptr::null_mut(),
                name.as_char_ptr().cast_mut().cast(),
                Some(has_child),
            )
        };
        found != 0
    }

    /// Whether the device has virtqueues.
    pub(crate) fn has_virtqueues(&self) -> bool {
        // SAFETY: By the type invariant; the list is changed only by who sets the device up, which
        // the caller does.
        unsafe {
            let list = &raw const (*self.as_raw()).vqs;
            (*list).next.cast_const() != list
        }
    }

    /// Whether the device offers a feature of the transport ([`transport`]), negotiated or not.
    /// Process context.
    pub fn offers_transport(&self, bit: u32) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::ext_virtio_offers(self.as_raw(), bit) }
    }

    /// Negotiates features again, after a reset and before virtqueues are found, with or without
    /// `bit` (virtio 1.2, section 3.1.1 "Driver Requirements: Device Initialization").
    pub(crate) fn negotiate(&self, bit: u32, wanted: bool) -> Result {
        let vdev = self.as_raw();
        let finalize_features = self.ops().finalize_features.ok_or(ENODEV)?;
        // SAFETY: The device is valid by the type invariant and being set up, so nobody else uses
        // its features or its status.
        unsafe {
            bindings::virtio_add_status(vdev, bindings::VIRTIO_CONFIG_S_ACKNOWLEDGE);
            bindings::virtio_add_status(vdev, bindings::VIRTIO_CONFIG_S_DRIVER);
            bindings::ext_virtio_assign_bit(vdev, bit, wanted);
            to_result(finalize_features(vdev))?;
        }
        if !self.has_bit(transport::VERSION_1) {
            return Ok(());
        }
        // SAFETY: As above.
        unsafe { bindings::virtio_add_status(vdev, bindings::VIRTIO_CONFIG_S_FEATURES_OK) };
        if u32::from(self.status()) & bindings::VIRTIO_CONFIG_S_FEATURES_OK == 0 {
            let how = if wanted { "refuses" } else { "insists on" };
            dev_err!(self.as_ref(), "the device {how} feature {bit}\n");
            return Err(ENODEV);
        }
        Ok(())
    }

    /// The number of the device on the bus: the one in `virtio0`.
    pub fn index(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).index as u32 }
    }

    /// The largest buffer in bytes that the device can be given in one piece.
    /// C function: `virtio_max_dma_size()`.
    pub fn max_dma_size(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { bindings::virtio_max_dma_size(self.as_raw()) }
    }
}

impl AsRef<kernel::device::Device> for Device {
    fn as_ref(&self) -> &kernel::device::Device {
        // SAFETY: By the type invariant, the embedded `struct device` is valid and counted.
        unsafe { kernel::device::Device::from_raw(&raw mut (*self.as_raw()).dev) }
    }
}

// SAFETY: The references are those of the embedded `struct device`, whose release frees the
// `struct virtio_device` around it.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        self.as_ref().inc_ref();
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By the requirement of this function there is a reference to give up.
        unsafe { put_device(&raw mut (*obj.cast::<bindings::virtio_device>().as_ptr()).dev) }
    }
}

/// A counted reference to a device.
pub(crate) type DeviceRef = ARef<Device>;
