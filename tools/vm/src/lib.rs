// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Boots the test guest under QEMU and talks to it.
//!
//! The guest is a stock kernel whose root file system is the sysroot, shared read-only over
//! virtio-fs, and whose init is our agent. This crate is the only place that starts QEMU:
//!
//! ```no_run
//! use vm::{Backend, Disk, Driver, Vm};
//!
//! # fn main() -> anyhow::Result<()> {
//! let vm = Vm::builder().vcpus(2).disk(Disk::new("test", Backend::null(1 << 30))).boot()?;
//! vm.load(Driver::Rust, "suppress=loop")?;
//! let name = vm.block_device("test")?;
//! vm.sh(&format!("dd if=/dev/{name} of=/dev/null bs=1M count=64 iflag=direct"))?;
//! println!("{:?}", vm.interrupts("test")?);
//! vm.shutdown()
//! # }
//! ```
//!
//! Whatever way a program ends, no QEMU stays behind: [`Vm`] kills its processes when dropped,
//! SIGINT and SIGTERM do the same, and the kernel does it if the program itself is killed.

mod accel;
mod agent_client;
mod backend;
mod builder;
mod check;
mod command_line;
mod console;
mod device;
mod device_config;
mod devices;
mod disk;
mod environment;
mod features;
mod guest;
mod hotplug;
mod machine;
mod process;
mod qmp;
mod root;
mod run_dir;
mod socket;
mod tree;
mod tsc;
mod virtiofs;

pub use self::device::Device;
pub use ::device::{Order, Policy, Signal, Snapshot as DeviceCounts, Wait};
pub use accel::{Accel, Chosen};
pub use agent::JOB_DIR;
pub use agent_client::{Output, Pending};
pub use backend::Backend;
pub use builder::VmBuilder;
pub use console::Trouble;
pub use counters::{Counters, Interrupts};
pub use device_config::{DeviceConfig, FrontEnd};
pub use disk::{Disk, Transport};
pub use environment::Environment;
pub use features::feature_names;
pub use guest::Driver;
pub use machine::Vm;
pub use qmp::Monitor;
pub use root::Root;
pub use tree::Tree;
