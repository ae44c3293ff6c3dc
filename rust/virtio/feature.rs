// SPDX-License-Identifier: GPL-2.0

//! Feature bits, and the table of those that a driver knows.
//!
//! C header: [`include/linux/virtio_config.h`](srctree/include/linux/virtio_config.h)

use core::marker::PhantomData;

/// The features that a driver offers to a device; made by [`feature_table!`](crate::feature_table).
pub trait FeatureTable: 'static {
    /// Offered to modern devices.
    const MODERN: &'static [u32];
    /// Offered to legacy devices (those without `VIRTIO_F_VERSION_1`).
    const LEGACY: &'static [u32];
}

/// A feature bit out of the table `F`.
///
/// Only [`feature_table!`](crate::feature_table) makes values of this type, each along with its
/// entry in the table: a driver cannot ask for a feature that it did not offer.
pub struct Feature<F: FeatureTable> {
    bit: u32,
    _table: PhantomData<F>,
}

impl<F: FeatureTable> Feature<F> {
    #[doc(hidden)]
    pub const fn in_table(bit: u32) -> Self {
        Self {
            bit,
            _table: PhantomData,
        }
    }

    /// The bit's number (`VIRTIO_*_F_*`).
    #[inline]
    pub const fn bit(&self) -> u32 {
        self.bit
    }
}

/// Feature bits that belong to the transport: the core negotiates them for every driver.
pub mod transport {
    /// Buffers may be described by indirect tables (`VIRTIO_RING_F_INDIRECT_DESC`).
    pub const INDIRECT_DESC: u32 = bindings_ext::VIRTIO_RING_F_INDIRECT_DESC;
    /// The `used_event` and `avail_event` fields are in use (`VIRTIO_RING_F_EVENT_IDX`).
    pub const EVENT_IDX: u32 = bindings_ext::VIRTIO_RING_F_EVENT_IDX;
    /// The device is a modern one (`VIRTIO_F_VERSION_1`).
    pub const VERSION_1: u32 = bindings_ext::VIRTIO_F_VERSION_1;
    /// The packed ring layout is in use (`VIRTIO_F_RING_PACKED`).
    pub const RING_PACKED: u32 = bindings_ext::VIRTIO_F_RING_PACKED;
}

/// Defines a feature table, and a constant for each of its features.
///
/// A feature marked `legacy` is offered to legacy devices too.
///
/// # Examples
///
/// ```ignore
/// virtio::feature_table! {
///     /// What this driver knows.
///     pub struct Features {
///         /// The device reports its largest segment count.
///         SEG_MAX = 2, legacy;
///         /// Zoned devices.
///         ZONED = 17, modern;
///     }
/// }
/// ```
#[macro_export]
macro_rules! feature_table {
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            $($(#[$bit_meta:meta])* $name:ident = $bit:expr, $age:ident;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $table;

        impl $table {
            $(
                $(#[$bit_meta])*
                $vis const $name: $crate::Feature<Self> = $crate::Feature::in_table($bit);
            )*
        }

        impl $crate::FeatureTable for $table {
            const MODERN: &'static [u32] = &[$($bit,)*];
            const LEGACY: &'static [u32] = {
                const BITS: [(u32, bool); { [$($bit,)*].len() }] =
                    [$(($bit, $crate::feature_table!(@legacy $age)),)*];
                const COUNT: usize = $crate::feature_table!(@count BITS);
                const TABLE: [u32; COUNT] = $crate::feature_table!(@select BITS, COUNT);
                &TABLE
            };
        }
    };
    (@legacy legacy) => { true };
    (@legacy modern) => { false };
    (@count $bits:ident) => {{
        let mut count = 0;
        let mut i = 0;
        while i < $bits.len() {
            if $bits[i].1 {
                count += 1;
            }
            i += 1;
        }
        count
    }};
    (@select $bits:ident, $count:ident) => {{
        let mut table = [0; $count];
        let mut filled = 0;
        let mut i = 0;
        while i < $bits.len() {
            if $bits[i].1 {
                table[filled] = $bits[i].0;
                filled += 1;
            }
            i += 1;
        }
        table
    }};
}
