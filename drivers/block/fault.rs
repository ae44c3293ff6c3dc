// SPDX-License-Identifier: GPL-2.0

//! Failures on purpose: a probe can be made to fail after any of its steps, so that tests can see
//! that each of them is undone.

use crate::params;
use kernel::prelude::*;
use virtio::Device;

/// The steps of a probe.
pub(crate) struct Steps<'a> {
    device: &'a Device,
    /// How many are left until one fails; 0 if none does.
    left: u32,
}

impl<'a> Steps<'a> {
    /// The steps of the probe of `device`, of which `fail_probe` says which one fails.
    pub(crate) fn of(device: &'a Device) -> Self {
        let left = params::FAIL_PROBE.get().0;
        Self { device, left }
    }

    /// Ends a step.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it is the one that is to fail.
    pub(crate) fn done(&mut self, step: &str) -> Result {
        if self.left == 1 {
            dev_err!(
                self.device.as_ref(),
                "failing on purpose (fail_probe): {step}\n"
            );
            return Err(ENOMEM);
        }
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}
