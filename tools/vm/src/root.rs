// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Where a guest's root file system is, and what it boots from to get there.

use crate::environment::Environment;
use crate::machine::MODULE;
use crate::tree::Tree;
use anyhow::{Context, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where a guest's root file system is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Root {
    /// The sysroot, shared over virtio-fs, together with a folder that host and guest write to.
    #[default]
    Share,
    /// The guest's memory, with the programs that tests need. Nothing is shared: a guest that is
    /// to sleep must not have virtio-fs, whose driver refuses to.
    Memory,
    /// The first disk, which the Rust driver is bound to before there is a root. The disk holds a
    /// [`Tree::system`].
    Disk,
}

/// The init of [`Root::Disk`]: what an initramfs does.
const FIND_ROOT: &str = "#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs devtmpfs /dev
busybox insmod /virtio_blk_rs.ko || exec busybox poweroff -f
for try in $(busybox seq 200); do
    test -b /dev/vda && break
    busybox sleep 0.05
done
busybox mount -t ext4 /dev/vda /root || exec busybox poweroff -f
busybox umount /dev
exec busybox switch_root /root /mnt/agent
";

impl Root {
    /// Writes the initramfs that the guest boots from, if there is one, into the folder `run_dir`.
    pub(crate) fn initramfs(
        self,
        environment: &Environment,
        run_dir: &Path,
    ) -> Result<Option<PathBuf>> {
        let folder = run_dir.join("initramfs");
        let tree = match self {
            Self::Share => return Ok(None),
            Self::Memory => {
                let tree = Tree::tools(&folder, environment)?;
                tree.copy(&environment.agent, "init")?;
                tree
            }
            Self::Disk => {
                let tree = Tree::new(&folder)?;
                tree.copy(Path::new("/usr/bin/busybox"), "bin/busybox")?;
                tree.copy(&environment.module, MODULE)?;
                tree.folder("dev")?;
                tree.folder("root")?;
                let init = folder.join("init");
                std::fs::write(&init, FIND_ROOT)
                    .and_then(|()| {
                        std::fs::set_permissions(&init, PermissionsExt::from_mode(0o755))
                    })
                    .with_context(|| format!("cannot write {}", init.display()))?;
                tree
            }
        };
        let archive = run_dir.join("initramfs.cpio");
        tree.archive(&archive)?;
        tree.remove()?;
        Ok(Some(archive))
    }
}
