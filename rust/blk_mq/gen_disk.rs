// SPDX-License-Identifier: GPL-2.0

//! A disk.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use crate::{
    attribute::Attributes, disk::Disk, geometry, limits::Limits, major::Major,
    operations::Operations, raw_device, tag_set::TagSet, zones,
};
use core::{marker::PhantomData, ops::Deref, ptr::NonNull};
use kernel::{
    bindings, device,
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::Arc,
};

/// Describes a disk to be made. It has as many partitions as its table names.
pub struct DiskBuilder {
    limits: Limits,
    capacity: u64,
    read_only: bool,
    numbers: Option<Numbers>,
}

/// Device numbers: those of the disk and its first partitions.
struct Numbers {
    major: u32,
    first_minor: u32,
    count: u32,
}

impl DiskBuilder {
    /// A disk with these limits, writable and of no capacity, with a device number from the block
    /// layer's extended range.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            capacity: 0,
            read_only: false,
            numbers: None,
        }
    }

    /// Sets the capacity, in sectors of 512 bytes.
    pub fn capacity(mut self, sectors: u64) -> Self {
        self.capacity = sectors;
        self
    }

    /// Sets whether the disk can only be read.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Gives the disk number `index` the `count` minor numbers of `major` that are its own, if
    /// there are so many: the first one for itself, the others for its first partitions.
    pub fn numbers(mut self, major: &Major, index: u32, count: u32) -> Self {
        let first_minor = index.checked_mul(count);
        let first_minor = first_minor.filter(|first| *first <= Major::MINORS.saturating_sub(count));
        self.numbers = first_minor.map(|first_minor| Numbers {
            major: major.number(),
            first_minor,
            count,
        });
        self
    }

    /// Makes the disk and adds it under `name`, as a child of `parent` and with the attributes `A`.
    /// The block layer reads its partition table before this returns. Process context.
    ///
    /// C functions: `blk_mq_alloc_disk()`, `device_add_disk()`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for limits that contradict each other, or a name of 32 bytes and more; `EEXIST` if
    /// the name is taken; `ENOMEM`.
    pub fn add<T: Operations, A: Attributes<T>>(
        self,
        name: &CStr,
        parent: &device::Device,
        tag_set: Arc<TagSet<T>>,
    ) -> Result<GenDisk<T>> {
        let mut limits = self.limits.to_raw();
        // SAFETY: The tag set is valid, and held by the disk that is made here.
        let disk = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                tag_set.as_raw(),
                &mut limits,
                core::ptr::null_mut(),
                kernel::static_lock_class!().as_ptr(),
            )
        })?;
        let disk = NonNull::new(disk).ok_or(ENOMEM)?;
        let raw = disk.as_ptr();
        // SAFETY: The disk is valid and not added, so nobody else uses it. `free_disk()` takes the
        // reference to the device back.
        unsafe {
            (*raw).private_data = Arc::into_raw(tag_set.device().clone()).cast_mut().cast();
            (*raw).fops = &Fops::<T>::OPS;
            if let Some(numbers) = self.numbers {
                (*raw).major = numbers.major as c_int;
                (*raw).first_minor = numbers.first_minor as c_int;
                (*raw).minors = numbers.count as c_int;
            }
        }
        // INVARIANT: The disk is valid and not added.
        let mut disk = GenDisk {
            disk,
            added: false,
            _tag_set: tag_set,
        };
        let name = name.to_bytes_with_nul();
        // SAFETY: As above.
        let slot = unsafe { &mut (*raw).disk_name };
        let slot = slot.get_mut(..name.len()).ok_or(EINVAL)?;
        for (to, from) in slot.iter_mut().zip(name) {
            *to = *from;
        }
        // SAFETY: As above; `parent` outlives the disk, which holds a reference to it, and the
        // groups are `'static`.
        unsafe {
            bindings::set_disk_ro(raw, self.read_only);
            bindings::set_capacity(raw, self.capacity);
        }
        if self.limits.zoned.is_some() {
            disk.revalidate_zones()?;
        }
        // SAFETY: As above; `parent` outlives the disk, which holds a reference to it, and the
        // groups are `'static`.
        unsafe {
            to_result(bindings::device_add_disk(
                raw_device(parent),
                raw,
                A::GROUPS.as_ptr().cast_mut(),
            ))?;
        }
        // INVARIANT: The disk was added.
        disk.added = true;
        Ok(disk)
    }
}

/// The operations of the disks of a driver `T`.
struct Fops<T>(PhantomData<T>);

impl<T: Operations> Fops<T> {
    const OPS: bindings::block_device_operations = bindings::block_device_operations {
        owner: (&raw const bindings::__this_module).cast_mut(),
        free_disk: Some(Self::free_disk),
        getgeo: Some(geometry::getgeo::<T>),
        #[cfg(CONFIG_BLK_DEV_ZONED)]
        report_zones: Some(zones::report_zones::<T>),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// For the block layer: nobody uses `disk` any more; it was made by [`DiskBuilder::add`].
    unsafe extern "C" fn free_disk(disk: *mut bindings::gendisk) {
        // SAFETY: `private_data` comes from `Arc::into_raw()`, and this is called once.
        drop(unsafe { Arc::<T::Device>::from_raw((*disk).private_data.cast()) });
    }
}

/// A disk. Dropping it removes it: no request is started after that, and those that are must end
/// first, so this waits for the device. Process context.
///
/// # Invariants
///
/// `disk` is a valid disk of `T`, and added if `added` is set.
pub struct GenDisk<T: Operations> {
    disk: NonNull<bindings::gendisk>,
    added: bool,
    _tag_set: Arc<TagSet<T>>,
}

// SAFETY: The C functions used on a disk may be called from any thread.
unsafe impl<T: Operations> Send for GenDisk<T> {}

// SAFETY: As above.
unsafe impl<T: Operations> Sync for GenDisk<T> {}

impl<T: Operations> GenDisk<T> {
    pub(crate) fn as_raw(&self) -> *mut bindings::gendisk {
        self.disk.as_ptr()
    }

    /// Sets the capacity in sectors of 512 bytes, and tells user space if it changed. Process
    /// context. C function: `set_capacity_and_notify()`.
    pub fn set_capacity_and_notify(&self, sectors: u64) {
        // SAFETY: The disk is valid by the type invariant.
        unsafe { bindings::set_capacity_and_notify(self.disk.as_ptr(), sectors) };
    }

    /// Says that the device is gone: what is submitted from now on fails. Process context.
    /// C function: `blk_mark_disk_dead()`.
    pub fn mark_dead(&self) {
        // SAFETY: The disk is valid by the type invariant.
        unsafe { bindings::blk_mark_disk_dead(self.disk.as_ptr()) };
    }

    /// Stops dispatching requests, and waits for those dispatches that run. Process context.
    /// C function: `blk_mq_quiesce_queue()`.
    pub fn quiesce(&self) {
        // SAFETY: The disk is valid by the type invariant, and so is its queue.
        unsafe { bindings::blk_mq_quiesce_queue((*self.disk.as_ptr()).queue) };
    }

    /// Dispatches requests again. C function: `blk_mq_unquiesce_queue()`.
    pub fn unquiesce(&self) {
        // SAFETY: The disk is valid by the type invariant, and so is its queue.
        unsafe { bindings::blk_mq_unquiesce_queue((*self.disk.as_ptr()).queue) };
    }
}

impl<T: Operations> Deref for GenDisk<T> {
    type Target = Disk<T>;

    fn deref(&self) -> &Disk<T> {
        // SAFETY: The disk is valid by the type invariant, and was made by `DiskBuilder::add()`,
        // which set its private data.
        unsafe { Disk::from_raw(self.disk.as_ptr()) }
    }
}

impl<T: Operations> Drop for GenDisk<T> {
    fn drop(&mut self) {
        let disk = self.disk.as_ptr();
        if self.added {
            // SAFETY: The disk was added, by the type invariant.
            unsafe { bindings::del_gendisk(disk) };
        }
        // SAFETY: The disk is valid by the type invariant.
        let data = unsafe { (*disk).private_data };
        // SAFETY: The disk is valid by the type invariant, and this gives up its first reference.
        unsafe { bindings::put_disk(disk) };
        if !self.added {
            // SAFETY: The pointer comes from `Arc::into_raw()`. The block layer calls `free_disk()`
            // only for a disk that was added.
            drop(unsafe { Arc::<T::Device>::from_raw(data.cast()) });
        }
    }
}
