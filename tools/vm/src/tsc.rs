// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The frequency of the host's time stamp counter.
//!
//! A microvm has no timer that a kernel could calibrate the counter with, and without it the
//! local APIC's timer stays uncalibrated too and the boot stops. KVM tells its guests the
//! frequency; under TCG, where guests see the host's counter, we do.

use std::time::{Duration, Instant};

/// Long enough for an error below 0.1 %, which kernels accept from their own calibration too.
const SPAN: Duration = Duration::from_millis(50);

/// Measures the frequency in kHz.
pub fn frequency_khz() -> u64 {
    let (first, started) = (read(), Instant::now());
    std::thread::sleep(SPAN);
    let (last, elapsed) = (read(), started.elapsed());
    let ticks = u128::from(last.wrapping_sub(first));
    (ticks * 1_000_000 / elapsed.as_nanos().max(1)) as u64
}

fn read() -> u64 {
    // SAFETY: Every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn frequency_is_one_of_a_processor() {
        let khz = super::frequency_khz();
        assert!((100_000..20_000_000).contains(&khz), "{khz} kHz");
    }
}
