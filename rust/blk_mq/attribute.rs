// SPDX-License-Identifier: GPL-2.0

//! Attributes of a disk: files under `/sys/block/<disk>/`.
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h) (`struct device_attribute`)

use crate::operations::Operations;
use core::marker::PhantomData;
use kernel::{bindings, container_of, ffi::c_char, prelude::*, str::Formatter};

/// A file under `/sys/block/<disk>/` of driver `T`. All functions run in process context.
pub trait Attribute<T: Operations>: 'static {
    /// The file's name.
    const NAME: &'static CStr;

    /// Whether the file can be written (mode 0644 instead of 0444).
    const WRITABLE: bool = false;

    /// Writes the value to `out`, with a newline. At most a page.
    ///
    /// # Errors
    ///
    /// What the reader of the file gets.
    fn show(device: &T::Device, out: &mut Formatter<'_>) -> Result;

    /// Takes what was written to the file, if it can be.
    ///
    /// # Errors
    ///
    /// What the writer gets; the old value stays.
    fn store(device: &T::Device, text: &[u8]) -> Result {
        let _ = (device, text);
        Err(EPERM)
    }
}

/// A group of attributes: a tuple of types that implement [`Attribute`].
pub trait Attributes<T: Operations>: 'static {
    #[doc(hidden)]
    const GROUP: &'static bindings::attribute_group;

    /// The groups of a disk, as `device_add_disk()` takes them.
    #[doc(hidden)]
    const GROUPS: &'static [*const bindings::attribute_group; 2] =
        &[core::ptr::from_ref(Self::GROUP), core::ptr::null()];
}

struct Table<T, A>(PhantomData<(T, A)>);

impl<T: Operations, A: Attribute<T>> Table<T, A> {
    const ATTRIBUTE: &'static bindings::device_attribute = &bindings::device_attribute {
        attr: bindings::attribute {
            name: kernel::str::as_char_ptr_in_const_context(A::NAME),
            mode: if A::WRITABLE { 0o644 } else { 0o444 },
        },
        __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 {
            show: Some(Self::show),
        },
        __bindgen_anon_2: bindings::device_attribute__bindgen_ty_2 {
            store: Some(Self::store),
        },
    };

    /// # Safety
    ///
    /// `device` must be that of a disk of `T`, which is registered.
    unsafe fn data<'a>(device: *mut bindings::device) -> &'a T::Device {
        // SAFETY: The device of a disk lies in the block device of its whole, which points to the
        // disk (`dev_to_disk()`). Its `private_data` comes from `Arc::into_raw()`, and holds its
        // reference until the disk is freed.
        unsafe {
            let bdev = container_of!(device, bindings::block_device, bd_device);
            &*(*(*bdev).bd_disk).private_data.cast::<T::Device>()
        }
    }

    /// # Safety
    ///
    /// For sysfs: `device` is that of a registered disk of `T`; `page` has room for a page.
    unsafe extern "C" fn show(
        device: *mut bindings::device,
        _attribute: *mut bindings::device_attribute,
        page: *mut c_char,
    ) -> isize {
        // SAFETY: sysfs calls this for a registered disk of `T`, with a buffer of a page.
        let (data, page) = unsafe {
            (
                Self::data(device),
                core::slice::from_raw_parts_mut(page.cast::<u8>(), bindings::PAGE_SIZE),
            )
        };
        let mut out = Formatter::new(page);
        match A::show(data, &mut out) {
            Ok(()) => out.bytes_written().min(bindings::PAGE_SIZE) as isize,
            Err(err) => err.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// For sysfs: `device` is that of a registered disk of `T`; `text` has `len` bytes.
    unsafe extern "C" fn store(
        device: *mut bindings::device,
        _attribute: *mut bindings::device_attribute,
        text: *const c_char,
        len: usize,
    ) -> isize {
        // SAFETY: sysfs calls this for a registered disk of `T`, with `len` bytes of text.
        let (data, text) = unsafe {
            (
                Self::data(device),
                core::slice::from_raw_parts(text.cast::<u8>(), len),
            )
        };
        match A::store(data, text) {
            Ok(()) => len as isize,
            Err(err) => err.to_errno() as isize,
        }
    }
}

/// The attribute itself, for a list of them.
const fn entry<T: Operations, A: Attribute<T>>() -> *const bindings::attribute {
    core::ptr::from_ref(Table::<T, A>::ATTRIBUTE).cast()
}

/// A group of the attributes in `list`, which ends with a null pointer.
const fn group<const N: usize>(
    list: &'static [*const bindings::attribute; N],
) -> bindings::attribute_group {
    bindings::attribute_group {
        __bindgen_anon_2: bindings::attribute_group__bindgen_ty_2 {
            attrs_const: core::ptr::from_ref(list).cast(),
        },
        ..pin_init::zeroed()
    }
}

/// Implements [`Attributes`] for the tuple of all names, and for those with fewer of them.
macro_rules! impl_attributes {
    ($last:ident) => {
        impl_attributes!(@one $last);
    };
    ($first:ident, $($rest:ident),+) => {
        impl_attributes!(@one $first, $($rest),+);
        impl_attributes!($($rest),+);
    };
    (@one $($name:ident),+) => {
        impl<T: Operations, $($name: Attribute<T>),+> Attributes<T> for ($($name,)+) {
            const GROUP: &'static bindings::attribute_group =
                &group(&[$(entry::<T, $name>(),)+ core::ptr::null()]);
        }
    };
}

impl_attributes!(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P);
