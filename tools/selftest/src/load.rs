// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Verified I/O on disks, while something is done to them that they must survive.

use crate::fio::{self, Running};
use crate::guest::{expect_idle, expect_settled, wait_for_requests};
use crate::lab::Lab;
use anyhow::Result;
use vm::Vm;

/// Jobs on some disks of a guest.
pub struct Load<'a> {
    vm: &'a Vm,
    disks: &'a [&'a str],
    jobs: Vec<Running>,
}

impl<'a> Load<'a> {
    /// Starts a job on each of the disks ([`fio::start_endless`]).
    pub fn start(vm: &'a Vm, disks: &'a [&'a str]) -> Result<Self> {
        let jobs = Vec::new();
        Self { vm, disks, jobs }.add(fio::start_endless)
    }

    /// Starts another job on each of the disks, which polls ([`fio::start_polling`]).
    pub fn and_polling(self) -> Result<Self> {
        self.add(fio::start_polling)
    }

    fn add(mut self, start: impl Fn(&Vm, &str) -> Result<Running>) -> Result<Self> {
        for disk in self.disks {
            self.jobs
                .push(start(self.vm, &self.vm.block_device(disk)?)?);
        }
        Ok(self)
    }

    /// Waits until each of the disks has done `count` more requests.
    pub fn goes_on(&self, count: u32) -> Result<()> {
        for disk in self.disks {
            wait_for_requests(self.vm, disk, count)?;
        }
        Ok(())
    }

    /// Waits until each of the disks has done `count` more requests, stops the jobs, and demands
    /// that all data was right, that nothing is left over and that no interrupt was missed.
    pub fn end(self, lab: &Lab, count: u32) -> Result<()> {
        let Self { vm, disks, .. } = self;
        self.end_late(count)?;
        for disk in disks {
            expect_settled(lab, vm, disk)?;
        }
        Ok(())
    }

    /// The same, but some requests may have taken so long that the driver looked for them.
    pub fn end_late(self, count: u32) -> Result<()> {
        self.goes_on(count)?;
        fio::stop(self.vm, self.jobs)?;
        for disk in self.disks {
            expect_idle(self.vm, disk)?;
        }
        Ok(())
    }
}
