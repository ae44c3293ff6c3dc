// SPDX-License-Identifier: GPL-2.0

//! Typed fields of a device's configuration space.
//!
//! A field that exists only with a feature is a [`Gated`] field: reading it gives [`None`] when the
//! feature was not negotiated. Fields wider than 32 bits are read under the generation counter, so
//! that a value is never put together from two configurations.
//!
//! C header: [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h) (virtio 1.2,
//! section 2.5 "Device Configuration Space")

use crate::feature::{Feature, FeatureTable};
use core::marker::PhantomData;

mod private {
    pub trait Sealed {}
}

/// An integer that the configuration space can hold.
///
/// Up to 32 bits are read in one access of the value's own width; wider values in 32-bit halves, as
/// section 2.5.1 of the specification wants it.
pub trait Value: private::Sealed + Sized {
    /// The width in bytes.
    const SIZE: usize;

    /// The value from its bytes in little-endian order.
    fn from_le_bytes(bytes: [u8; 8]) -> Self;

    /// The value from its bytes in the guest's own order, which legacy devices use.
    fn from_ne_bytes(bytes: [u8; 8]) -> Self;
}

macro_rules! impl_value {
    ($($int:ty: [$($i:literal),*];)*) => {
        $(
            impl private::Sealed for $int {}

            impl Value for $int {
                const SIZE: usize = size_of::<$int>();

                fn from_le_bytes(bytes: [u8; 8]) -> Self {
                    <$int>::from_le_bytes([$(bytes[$i],)*])
                }

                fn from_ne_bytes(bytes: [u8; 8]) -> Self {
                    <$int>::from_ne_bytes([$(bytes[$i],)*])
                }
            }
        )*
    };
}

impl_value! {
    u8: [0];
    u16: [0, 1];
    u32: [0, 1, 2, 3];
    u64: [0, 1, 2, 3, 4, 5, 6, 7];
}

/// A field that every device has.
pub struct Field<V: Value> {
    offset: u32,
    _value: PhantomData<V>,
}

impl<V: Value> Field<V> {
    /// The field at `offset` bytes from the start of the configuration space.
    pub const fn at(offset: usize) -> Self {
        Self {
            offset: offset as u32,
            _value: PhantomData,
        }
    }

    pub(crate) const fn offset(&self) -> u32 {
        self.offset
    }
}

/// A field that exists only if a feature was negotiated.
pub struct Gated<V: Value, F: FeatureTable> {
    pub(crate) field: Field<V>,
    pub(crate) feature: Feature<F>,
}

impl<V: Value, F: FeatureTable> Gated<V, F> {
    /// The field at `offset` bytes, which comes with `feature`.
    pub const fn at(offset: usize, feature: Feature<F>) -> Self {
        Self {
            field: Field::at(offset),
            feature,
        }
    }
}
