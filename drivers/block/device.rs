// SPDX-License-Identifier: GPL-2.0

//! A block device: how it comes into service and leaves it for good. How it does so for a while is
//! in [`restart`].

use crate::{
    cache::Cache,
    capacity, config, debugfs,
    fault::Steps,
    index::{self, Index, Indices},
    limits::{self, Indirect, Limits},
    lock::DeviceLock,
    name::DiskName,
    params,
    queue::{self, Queue},
    ranges::{self, Ranges},
    request::Order,
    restart::{self, Service},
    settings::Settings,
    suppress::Suppress,
    sysfs,
    values::CacheMode,
    zone_report, zoned, zones,
};
use blk_mq::{DiskBuilder, GenDisk, Geometry, Major, Polled, Queues, TagSet, ZonedLimits};
use kernel::{
    debugfs::Dir,
    device,
    fmt::{self, Display},
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        lock::mutex::MutexGuard,
        new_mutex, Arc, Mutex,
    },
};
use trace::QueueId;
use virtio::{transport, Binding, Device, Driver, IdTable, Probe, Setup};

/// The device numbers of a disk: its own, and those of its first partitions.
const DISK_MINORS: u32 = 16;

/// The driver.
pub(crate) struct BlockDriver;

/// What all devices share.
pub(crate) struct Shared {
    indices: Arc<Indices>,
    major: Major,
    debugfs: Dir,
}

impl Shared {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            indices: Indices::new()?,
            // The name by which tools know virtio disks in /proc/devices.
            major: Major::register(c"virtblk")?,
            debugfs: Dir::new(c"virtio_blk_rs"),
        })
    }
}

/// A device and its queues. It is alive as long as anybody has its disk open; its virtqueues go
/// when the device is removed.
#[pin_data]
pub(crate) struct BlockDevice {
    device: ARef<Device>,
    binding: Arc<Binding<BlockDriver>>,
    /// Those that are polled come last.
    queues: KVec<Arc<Polled<Queue>>>,
    counts: Queues,
    /// What the disk's limits were derived from.
    ring_size: u32,
    depth: u32,
    geometry: Option<Geometry>,
    zones: Option<zones::Limits>,
    indirect: Atomic<u32>,
    lock: Arc<DeviceLock>,
    #[pin]
    cache: Cache,
    #[pin]
    settings: Mutex<Settings>,
    #[pin]
    disk: Mutex<Option<Disk>>,
    /// The disk is being removed.
    leaving: Atomic<bool>,
}

/// A disk. What is first goes first.
pub(crate) struct Disk {
    _files: debugfs::Files,
    pub(crate) disk: GenDisk<BlockDriver>,
    pub(crate) service: Service,
    pub(crate) index: Index,
}

impl BlockDevice {
    /// The queue `index`.
    #[inline]
    pub(crate) fn queue(&self, index: u32) -> Option<&Arc<Polled<Queue>>> {
        self.queues.get(index as usize)
    }

    /// All queues.
    pub(crate) fn queues(&self) -> &[Arc<Polled<Queue>>] {
        &self.queues
    }

    /// The device on its bus.
    pub(crate) fn virtio(&self) -> &Device {
        &self.device
    }

    /// The geometry, if the device has one of its own.
    pub(crate) fn geometry(&self) -> Option<Geometry> {
        self.geometry
    }

    /// The cache mode.
    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The byte order of requests.
    pub(crate) fn order(&self) -> Order {
        config::order(&self.device)
    }

    /// How many queues there are of each kind.
    pub(crate) fn queue_counts(&self) -> Queues {
        self.counts
    }

    /// How many requests each queue has in flight at most.
    pub(crate) fn queue_depth(&self) -> u32 {
        self.depth
    }

    /// The number of descriptors in the ring of each queue.
    pub(crate) fn ring_size(&self) -> u32 {
        self.ring_size
    }

    /// What is wanted of indirect descriptors.
    pub(crate) fn indirect(&self) -> Indirect {
        Indirect::from_raw(self.indirect.load(Relaxed))
    }

    /// Sets what is wanted of indirect descriptors, from the next start of the device on.
    pub(crate) fn set_indirect(&self, indirect: Indirect) {
        self.indirect.store(indirect as u32, Relaxed);
    }

    /// The binding of the device.
    pub(crate) fn binding(&self) -> &Binding<BlockDriver> {
        &self.binding
    }

    /// The disk, from when it was added until it is removed. Process context.
    pub(crate) fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock()
    }

    /// The settings. Process context.
    pub(crate) fn settings(&self) -> Settings {
        *self.settings.lock()
    }

    /// Changes the settings of all queues, at once. Process context.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.settings.lock();
        change(&mut settings);
        self.lock.set_scope(settings.lock);
        for queue in &self.queues {
            queue::configure(queue, &settings);
        }
    }

    /// Writes the settings and what became of them, one a line. Process context.
    pub(crate) fn write_status(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings();
        settings.write(f)?;
        writeln!(f, "poll_queues {}", self.counts.polled)?;
        writeln!(f, "num_request_queues {}", self.counts.count())?;
        writeln!(f, "queue_depth {}", self.depth)?;
        writeln!(f, "indirect {}", self.indirect().name())?;
        for (name, bit) in [
            ("event_idx", transport::EVENT_IDX),
            ("packed", transport::RING_PACKED),
            ("indirect_in_use", transport::INDIRECT_DESC),
        ] {
            writeln!(f, "{name} {}", u32::from(self.device.has_transport(bit)))?;
        }
        let can_count = self.queues.first().is_some_and(|queue| queue.can_count());
        let method = settings.coalesce_method.on(can_count);
        writeln!(f, "method_in_use {}", method.name())
    }

    /// What the zones can do, if the disk has any.
    pub(crate) fn zones(&self) -> Option<&zones::Limits> {
        self.zones.as_ref()
    }

    /// Whether the disk is being removed.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Notes that the disk is being removed.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Relaxed);
    }

    fn is_broken(&self) -> bool {
        self.queues.iter().any(|queue| queue.is_broken())
    }

    /// Takes all queues out of service for good. Process context; may sleep.
    pub(crate) fn close_queues(&self) {
        for queue in &self.queues {
            queue::close(queue);
        }
    }
}

/// The pure files write by `core`'s traits; the kernel's macros want its own.
macro_rules! impl_display {
    ($($type:ty),*) => {$(
        impl Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

impl_display!(
    limits::Error,
    zones::Error,
    zone_report::Error,
    ranges::Warning,
    DiskName,
    Suppress
);

impl AsRef<device::Device> for BlockDevice {
    fn as_ref(&self) -> &device::Device {
        (*self.device).as_ref()
    }
}

/// Says why a device cannot be used.
fn refusal(device: &Device, err: impl Display) -> Error {
    dev_err!(device.as_ref(), "{err}\n");
    EINVAL
}

impl Driver for BlockDriver {
    type Features = config::Features;
    type Shared = Shared;
    type Data = BlockDevice;

    const ID_TABLE: IdTable = &crate::BLOCK_DEVICES;

    fn probe(probe: &Probe<'_, Self>, shared: &Shared) -> Result<Arc<BlockDevice>> {
        let device = probe.device();
        let refuse = |err: limits::Error| refusal(device, err);
        let mut steps = Steps::of(device);

        let num_queues = config::num_queues(device)?;
        let max =
            limits::max_queues(num_queues, params::NUM_REQUEST_QUEUES.get().0).map_err(refuse)?;
        let count = u16::try_from(blk_mq::num_possible_queues(max)).unwrap_or(u16::MAX);
        let polled = limits::poll_queues(count, params::POLL_QUEUES.get().0);
        let with_irq = count.saturating_sub(polled);
        let counts = Queues {
            with_irq: with_irq.into(),
            polled: polled.into(),
        };
        let indirect = params::INDIRECT.get();
        // Only when they are found is the depth of their rings known.
        let virtqueues = restart::find_vqs(probe, counts, indirect)?;
        let ring = restart::ring_of(&virtqueues);
        steps.done("virtqueues")?;
        let machine = limits::Machine {
            max_dma_size: device.max_dma_size(),
            max_block_size: blk_mq::Limits::MAX_BLOCK_SIZE,
        };
        let limits = Limits::new(&config::limits(device)?, ring, machine).map_err(refuse)?;
        let zones = zoned::limits(config::zones(device)?, limits.logical_block_size)
            .map_err(|err| refusal(device, err))?;
        let mut ranges = Ranges::new(&config::ranges(device)?, &limits, |warning| {
            dev_warn!(device.as_ref(), "{warning}\n");
        });
        let sectors = config::capacity(device)?;
        let geometry = config::geometry(device)?;
        if zones.is_some() && ranges.max_discard_sectors > 0 {
            dev_warn!(
                device.as_ref(),
                "discards are not used: zones are reset instead\n"
            );
            ranges.max_discard_sectors = 0;
        }
        steps.done("configuration")?;
        let builder = DiskBuilder::new(blk_mq::Limits {
            logical_block_size: limits.logical_block_size,
            physical_block_size: zones
                .map_or(limits.physical_block_size, |zones| zones.write_granularity),
            alignment_offset: limits.alignment_offset,
            io_min: zones.map_or(limits.io_min, |zones| zones.write_granularity),
            io_opt: limits.io_opt,
            max_segments: limits.max_segments,
            max_segment_size: limits.max_segment_size,
            max_discard_sectors: ranges.max_discard_sectors,
            max_discard_segments: ranges.max_discard_ranges,
            discard_granularity: ranges.discard_granularity,
            max_write_zeroes_sectors: ranges.max_write_zeroes_sectors,
            max_secure_erase_sectors: ranges.max_secure_erase_sectors,
            write_cache: config::cache_mode(device)? == CacheMode::WriteBack,
            zoned: zones.map(|zones| ZonedLimits {
                zone_sectors: zones.zone_sectors,
                max_open_zones: zones.max_open_zones,
                max_active_zones: zones.max_active_zones,
                max_append_sectors: zones.max_append_sectors,
                write_granularity: zones.write_granularity,
            }),
        });

        let depth = limits::queue_depth(params::QUEUE_DEPTH.get().0, ring);
        let settings = Settings::from_params();
        let lock = Arc::pin_init(DeviceLock::new(settings.lock), GFP_KERNEL)?;
        let order = config::order(device);
        let mut queues = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for (index, vq) in virtqueues.ready()?.into_iter().enumerate() {
            let polled = index >= with_irq.into();
            let id = QueueId {
                device: device.index(),
                queue: u32::try_from(index).unwrap_or(u32::MAX),
            };
            let queue = Queue::new(vq, id, polled, order, settings, lock.clone());
            queues.push(Arc::pin_init(queue, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        steps.done("queues")?;
        let data = Arc::pin_init(
            try_pin_init!(BlockDevice {
                device: device.into(),
                binding: probe.binding(),
                queues,
                counts,
                ring_size: ring.size,
                depth,
                geometry,
                zones,
                indirect: Atomic::new(indirect as u32),
                lock,
                cache <- Cache::new(),
                settings <- new_mutex!(settings, "virtio_blk_rs::settings"),
                disk <- new_mutex!(None, "virtio_blk_rs::disk"),
                leaving: Atomic::new(false),
            }? Error),
            GFP_KERNEL,
        )?;
        steps.done("device")?;
        probe.attach(data.clone())?;
        steps.done("callbacks")?;
        let tag_set = Arc::pin_init(TagSet::new(data.clone(), counts, depth), GFP_KERNEL)?;
        steps.done("tag set")?;
        let index = Index::take(&shared.indices, device)?;
        let name = index.name();
        let name = index::c_str(&name)?;
        steps.done("name")?;
        let files = debugfs::files(&shared.debugfs, name, &data)?;
        steps.done("debugfs")?;
        dev_info!(
            device.as_ref(),
            "{}: queues: {count}, descriptors: {}, depth: {depth}, suppress: {}\n",
            index.name(),
            ring.size,
            settings.suppress
        );
        capacity::log(
            &data,
            &index.name(),
            sectors,
            limits.logical_block_size,
            false,
        );
        let builder = builder
            .capacity(sectors)
            .read_only(config::is_read_only(device))
            .numbers(&shared.major, index.value(), DISK_MINORS);
        let disk = builder.add::<_, sysfs::Files>(name, device.as_ref(), tag_set)?;
        steps.done("disk")?;
        *data.disk.lock() = Some(Disk {
            _files: files,
            disk,
            service: Service::On,
            index,
        });
        Ok(data)
    }

    fn remove(_device: &Device, data: Arc<BlockDevice>) {
        let disk = data.disk.lock().take();
        if let Some(disk) = &disk {
            let serves = disk.service == Service::On && !data.is_broken();
            if !serves || !data.drains(disk) {
                data.give_up(disk);
            }
        }
        drop(disk);
        data.close_queues();
    }

    fn freeze(_device: &Device, data: &BlockDevice) -> Result {
        data.freeze();
        Ok(())
    }

    fn restore(setup: &Setup<'_, Self>, data: &BlockDevice) -> Result {
        data.restore(setup)
    }

    fn config_changed(_device: &Device, data: &BlockDevice) {
        if let Some(disk) = &*data.disk.lock() {
            capacity::follow(data, disk);
        }
    }

    #[inline]
    fn buffers_used(data: &BlockDevice, index: u32) {
        if let Some(queue) = data.queue(index) {
            queue::interrupt(queue);
        }
    }
}
