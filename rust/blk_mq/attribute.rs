// SPDX-License-Identifier: GPL-2.0

//! Attributes of a disk: files under `/sys/block/<disk>/`.
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h) (`struct device_attribute`)

use crate::{disk::Disk, operations::Operations};
use core::marker::PhantomData;
use kernel::{
    bindings, container_of,
    ffi::{c_char, c_int},
    prelude::*,
    str::Formatter,
};

/// What can be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: the disk does not have it.
    Absent,
    /// It can be read (mode 0444).
    Read,
    /// It can be read, and written by its owner (mode 0644).
    Write,
}

impl Access {
    const fn mode(self) -> bindings::umode_t {
        match self {
            Self::Absent => 0,
            Self::Read => 0o444,
            Self::Write => 0o644,
        }
    }
}

/// A file under `/sys/block/<disk>/` of driver `T`. All functions run in process context.
pub trait Attribute<T: Operations>: 'static {
    /// The file's name.
    const NAME: &'static CStr;

    /// What can be done with the file at most.
    const ACCESS: Access = Access::Read;

    /// What can be done with the file of this disk. Called when the disk is added.
    fn access(disk: &Disk<T>) -> Access {
        let _ = disk;
        Self::ACCESS
    }

    /// Writes the value to `out`, with a newline. At most a page.
    ///
    /// # Errors
    ///
    /// What the reader of the file gets.
    fn show(disk: &Disk<T>, out: &mut Formatter<'_>) -> Result;

    /// Takes what was written to the file, if it can be.
    ///
    /// # Errors
    ///
    /// What the writer gets; the old value stays.
    fn store(disk: &Disk<T>, text: &[u8]) -> Result {
        let _ = (disk, text);
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

/// An attribute for sysfs, and what else there is to know of it.
#[repr(C)]
struct Entry<T: Operations> {
    attribute: bindings::device_attribute,
    access: fn(&Disk<T>) -> Access,
}

impl<T: Operations, A: Attribute<T>> Table<T, A> {
    const ENTRY: &'static Entry<T> = &Entry {
        attribute: bindings::device_attribute {
            attr: bindings::attribute {
                name: kernel::str::as_char_ptr_in_const_context(A::NAME),
                mode: A::ACCESS.mode(),
            },
            __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 {
                show: Some(Self::show),
            },
            __bindgen_anon_2: bindings::device_attribute__bindgen_ty_2 {
                store: Some(Self::store),
            },
        },
        access: A::access,
    };

    /// # Safety
    ///
    /// For sysfs: `device` is that of a registered disk of `T`; `page` has room for a page.
    unsafe extern "C" fn show(
        device: *mut bindings::device,
        _attribute: *mut bindings::device_attribute,
        page: *mut c_char,
    ) -> isize {
        // SAFETY: sysfs calls this for a registered disk of `T`, with a buffer of a page.
        let (disk, page) = unsafe {
            (
                Disk::<T>::from_device(device),
                core::slice::from_raw_parts_mut(page.cast::<u8>(), bindings::PAGE_SIZE),
            )
        };
        let mut out = Formatter::new(page);
        match A::show(disk, &mut out) {
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
        let (disk, text) = unsafe {
            (
                Disk::<T>::from_device(device),
                core::slice::from_raw_parts(text.cast::<u8>(), len),
            )
        };
        match A::store(disk, text) {
            Ok(()) => len as isize,
            Err(err) => err.to_errno() as isize,
        }
    }
}

/// Tells sysfs the mode of a file.
///
/// # Safety
///
/// For sysfs: `kobj` is that of a disk of `T` that is being added, `attribute` is one of a group
/// that [`group`] made for `T`.
unsafe extern "C" fn is_visible<T: Operations>(
    kobj: *mut bindings::kobject,
    attribute: *mut bindings::attribute,
    _index: c_int,
) -> bindings::umode_t {
    // SAFETY: The object is embedded in the disk's device. The attribute is the first field of an
    // `Entry<T>`, which is `'static`.
    let (disk, entry) = unsafe {
        (
            Disk::from_device(container_of!(kobj, bindings::device, kobj)),
            &*attribute.cast::<Entry<T>>(),
        )
    };
    (entry.access)(disk).mode()
}

/// The attribute itself, for a list of them.
const fn entry<T: Operations, A: Attribute<T>>() -> *const bindings::attribute {
    core::ptr::from_ref(Table::<T, A>::ENTRY).cast()
}

/// A group of the attributes in `list`, which are those of entries for `T`, and end with a null
/// pointer.
const fn group<T: Operations, const N: usize>(
    list: &'static [*const bindings::attribute; N],
) -> bindings::attribute_group {
    bindings::attribute_group {
        __bindgen_anon_1: bindings::attribute_group__bindgen_ty_1 {
            is_visible: Some(is_visible::<T>),
        },
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
                &group::<T, _>(&[$(entry::<T, $name>(),)+ core::ptr::null()]);
        }
    };
}

impl_attributes!(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, U);
