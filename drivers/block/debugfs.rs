// SPDX-License-Identifier: GPL-2.0

//! The counters' files, `/sys/kernel/debug/virtio_blk_rs/<disk>/queue<N>`.

use crate::queue::Queue;
use blk_mq::Polled;
use kernel::{
    debugfs::{Dir, Scope, Writer},
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
};

/// The file of one queue.
pub(crate) struct File {
    name: CString,
    queue: Arc<Polled<Queue>>,
}

impl Writer for File {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.stats().write(f)
    }
}

/// The files of a disk's queues.
#[pin_data]
pub(crate) struct Directory {
    files: KVec<File>,
}

/// The files of a disk, which are there until this is dropped.
pub(crate) type Files = Pin<KBox<Scope<Directory>>>;

/// Makes the files of the disk `name` below `root`.
pub(crate) fn files(root: &Dir, name: &CStr, queues: &[Arc<Polled<Queue>>]) -> Result<Files> {
    let mut files = KVec::with_capacity(queues.len(), GFP_KERNEL)?;
    for (index, queue) in queues.iter().enumerate() {
        let file = File {
            name: CString::try_from_fmt(fmt!("queue{index}"))?,
            queue: queue.clone(),
        };
        files.push(file, GFP_KERNEL)?;
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
