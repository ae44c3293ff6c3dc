// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Counts the guest instructions that each driver spends on an I/O.
//!
//! One guest is booted under TCG with a plugin that counts instructions. In it the same job runs on
//! null_blk, on the C driver and on ours with each setting, in several passes that alternate.
//! What a driver costs is the difference to null_blk, which fio, io_uring and the block layer
//! cost as well. The method is explained in Documentation/cost.rst.

pub mod chart;
mod guest;
mod job;
pub mod measure;
mod profile;
mod report;
mod settings;
mod symbols;
pub mod table;
mod windows;

pub use guest::Guest;
pub use job::Job;
pub use report::{rounded, Environment, Function, Outcome, Pass, Report};
pub use settings::Setting;
