// SPDX-License-Identifier: GPL-2.0

//! The files of a disk below `/sys/kernel/debug/virtio_blk_rs/<disk>/`: the counters of each queue
//! (`queue<N>`), what coalescing chose for it lately (`queue<N>_history`), and all settings and
//! what became of them (`status`).

use crate::{device::BlockDevice, queue::Queue};
use blk_mq::Polled;
use kernel::{
    debugfs::{Dir, Scope, Writer},
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
};

/// A file.
pub(crate) struct File {
    name: CString,
    content: Content,
}

/// What a file shows.
enum Content {
    Counters(Arc<Polled<Queue>>),
    History(Arc<Polled<Queue>>),
    Status(Arc<BlockDevice>),
}

impl Writer for File {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Counters(queue) => queue.write_counters(f),
            Content::History(queue) => queue.history().write(f),
            Content::Status(device) => device.write_status(f),
        }
    }
}

/// The files of a disk.
#[pin_data]
pub(crate) struct Directory {
    files: KVec<File>,
}

/// The files of a disk, which are there until this is dropped.
pub(crate) type Files = Pin<KBox<Scope<Directory>>>;

/// Makes the files of the disk `name` below `root`.
pub(crate) fn files(root: &Dir, name: &CStr, device: &Arc<BlockDevice>) -> Result<Files> {
    let mut files = KVec::new();
    let mut add = |name: fmt::Arguments<'_>, content| {
        let name = CString::try_from_fmt(name)?;
        files.push(File { name, content }, GFP_KERNEL)?;
        Ok::<_, Error>(())
    };
    add(fmt!("status"), Content::Status(device.clone()))?;
    for (index, queue) in device.queues().iter().enumerate() {
        add(fmt!("queue{index}"), Content::Counters(queue.clone()))?;
        add(
            fmt!("queue{index}_history"),
            Content::History(queue.clone()),
        )?;
    }
    KBox::pin_init(
        root.scope(
            try_pin_init!(Directory { files }? Error),
            name,
            |directory, dir| {
                for file in &directory.files {
                    dir.read_only_file(&file.name, file);
                }
            },
        ),
        GFP_KERNEL,
    )
}
