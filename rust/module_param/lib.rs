// SPDX-License-Identifier: GPL-2.0

//! Module parameters that can be read and written at runtime.
//!
//! The parameters of the `module!` macro can be set when the module is loaded, and then neither
//! read nor changed. Those of [`params!`](crate::params) are files under
//! `/sys/module/<module>/parameters/` (mode 0644), shown by `modinfo`. A value that is out of range
//! is refused with `EINVAL` and one line in the kernel's log that names value, range and remedy;
//! the old value stays.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

use core::marker::PhantomData;
use kernel::{
    bindings,
    ffi::{c_char, c_int},
    fmt::{self, Write},
    prelude::*,
    str::{BStr, Formatter},
    sync::atomic::{Atomic, Relaxed},
};

/// The prefix of what this crate logs, as the `module!` macro makes it for a driver crate.
const __LOG_PREFIX: &[u8] = b"virtio_blk_rs\0";

/// The type of a parameter.
pub trait Value: Sized + Copy + 'static {
    /// What may be written, for messages: `off, loop, delayed` or `the numbers from 0 to 9`.
    const RANGE: &'static str;

    /// Parses what was written, with or without a newline behind it.
    fn parse(text: &[u8]) -> Option<Self>;

    /// The value as the number that is stored.
    fn to_raw(self) -> u32;

    /// The value of a number that [`Value::to_raw`] has made.
    fn from_raw(raw: u32) -> Self;

    /// Writes the value as users see it.
    fn show(self, out: &mut dyn Write) -> fmt::Result;
}

/// A parameter. Made by [`params!`](crate::params).
pub struct Param<V: Value> {
    raw: Atomic<u32>,
    _value: PhantomData<fn() -> V>,
}

impl<V: Value> Param<V> {
    #[doc(hidden)]
    pub const fn new(raw: u32) -> Self {
        Self {
            raw: Atomic::new(raw),
            _value: PhantomData,
        }
    }

    /// The value now. Any context.
    pub fn get(&self) -> V {
        V::from_raw(self.raw.load(Relaxed))
    }

    #[doc(hidden)]
    pub const OPS: bindings::kernel_param_ops = bindings::kernel_param_ops {
        flags: 0,
        set: Some(Self::set),
        get: Some(Self::show),
        free: None,
    };

    /// # Safety
    ///
    /// `param` must be made by `params!` with a `Param<V>`.
    unsafe fn of<'a>(param: *const bindings::kernel_param) -> &'a Self {
        // SAFETY: `arg` points to the parameter's static, by the requirement of this function.
        unsafe { &*(*param).__bindgen_anon_1.arg.cast::<Self>() }
    }

    /// # Safety
    ///
    /// For the core: `param` was made by `params!` with a `Param<V>`; `text` is a string or null.
    unsafe extern "C" fn set(text: *const c_char, param: *const bindings::kernel_param) -> c_int {
        // SAFETY: The parameter was made by `params!`; its name is a string.
        let (this, name) = unsafe { (Self::of(param), CStr::from_char_ptr((*param).name)) };
        let text = if text.is_null() {
            &[]
        } else {
            // SAFETY: The core passes a string.
            unsafe { CStr::from_char_ptr(text) }.to_bytes()
        };
        match V::parse(text) {
            Some(value) => {
                this.raw.store(value.to_raw(), Relaxed);
                0
            }
            None => {
                pr_err!(
                    "parameter {}: '{}' is out of range; write one of: {}\n",
                    BStr::from_bytes(name.to_bytes()),
                    BStr::from_bytes(text.trim_ascii()),
                    V::RANGE
                );
                EINVAL.to_errno()
            }
        }
    }

    /// # Safety
    ///
    /// For the core: `param` was made by `params!` with a `Param<V>`; `page` has room for a page.
    unsafe extern "C" fn show(page: *mut c_char, param: *const bindings::kernel_param) -> c_int {
        // SAFETY: The parameter was made by `params!`; the core passes a buffer of a page.
        let (this, page) = unsafe {
            (
                Self::of(param),
                core::slice::from_raw_parts_mut(page.cast::<u8>(), bindings::PAGE_SIZE),
            )
        };
        let mut out = Formatter::new(page);
        if this.get().show(&mut out).is_err() || out.write_char('\n').is_err() {
            return EINVAL.to_errno();
        }
        out.bytes_written() as c_int
    }
}

#[doc(hidden)]
pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = text.as_bytes()[i];
        i += 1;
    }
    bytes
}

#[doc(hidden)]
pub use kernel::{bindings as __bindings, module_param::KernelParam as __KernelParam};

/// Declares module parameters: for each a static, and its file and its line in `modinfo`.
///
/// # Examples
///
/// ```ignore
/// module_param::params! {
///     /// How many queues there are at most.
///     pub(crate) static MAX_QUEUES: Count = 0;
///     name: "max_queues",
///     type: "uint",
///     description: "How many queues there are at most.",
/// }
/// ```
#[macro_export]
macro_rules! params {
    ($(
        $(#[$meta:meta])*
        $vis:vis static $param:ident: $value:ty = $default:expr;
        name: $name:literal,
        type: $type:literal,
        description: $description:literal,
    )*) => {$(
        $(#[$meta])*
        $vis static $param: $crate::Param<$value> = $crate::Param::new($default);

        const _: () = {
            const PARM: &str = concat!("parm=", $name, ":", $description, "\0");
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static __PARM: [u8; PARM.len()] = $crate::bytes(PARM);

            const PARMTYPE: &str = concat!("parmtype=", $name, ":", $type, "\0");
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static __PARMTYPE: [u8; PARMTYPE.len()] = $crate::bytes(PARMTYPE);

            #[link_section = "__param"]
            #[used(compiler)]
            static __PARAM: $crate::__KernelParam =
                $crate::__KernelParam::new($crate::__bindings::kernel_param {
                    name: concat!($name, "\0").as_ptr().cast(),
                    mod_: (&raw const $crate::__bindings::__this_module).cast_mut(),
                    ops: &$crate::Param::<$value>::OPS,
                    perm: 0o644,
                    level: -1,
                    flags: 0,
                    __bindgen_anon_1: $crate::__bindings::kernel_param__bindgen_ty_1 {
                        arg: (&raw const $param).cast_mut().cast(),
                    },
                });
        };
    )*};
}
