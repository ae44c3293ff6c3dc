// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The job whose cost is counted.

use anyhow::{ensure, Context, Result};
use serde_json::Value;

/// Everything that makes the job cost less than the driver under test makes it a better scale:
/// buffers and files are registered once, and fio asks for the time and for random numbers as
/// rarely as it can.
const OPTIONS: [&str; 14] = [
    "--name=cost",
    "--ioengine=io_uring",
    "--numjobs=1",
    "--rw=randread",
    "--bs=4k",
    "--size=1g",
    "--direct=1",
    "--fixedbufs",
    "--registerfiles",
    "--gtod_reduce=1",
    "--norandommap",
    "--random_generator=lfsr",
    "--eta=never",
    "--output-format=json",
];

/// What makes a job last longer by [`STRETCHES`] times 60 ms, in which fio computes: the guest does
/// the same work as before, and what passing time costs it on top.
const STRETCH: [&str; 2] = ["--thinktime=60ms", "--thinktime_spin=60ms"];
const STRETCHES: u64 = 100;

/// A number of reads of a block device.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    ios: u64,
    iodepth: u16,
    stretched: bool,
}

impl Job {
    /// A job of `ios` reads, `iodepth` of them in flight.
    pub fn new(ios: u64, iodepth: u16) -> Self {
        Self {
            ios,
            iodepth,
            stretched: false,
        }
    }

    /// The same reads with pauses in which fio computes.
    pub fn stretched(self) -> Self {
        Self {
            stretched: true,
            ..self
        }
    }

    /// fio's command line for reads of `device`.
    pub fn command(&self, device: &str) -> String {
        let Self { ios, iodepth, .. } = self;
        let mut command = format!(
            "fio {} --iodepth={iodepth} --number_ios={ios} --filename=/dev/{device}",
            OPTIONS.join(" ")
        );
        if self.stretched {
            let (options, blocks) = (STRETCH.join(" "), ios.div_ceil(STRETCHES));
            command += &format!(" {options} --thinktime_blocks={blocks}");
        }
        command
    }

    /// Checks in fio's report that exactly the wanted reads were done without an error, and
    /// returns the IOPS, which say how slow the counting made the guest.
    pub fn check(&self, report: &str) -> Result<f64> {
        // Warnings may precede the report.
        let start = report.find('{').context("fio printed no report")?;
        let report: Value = serde_json::from_str(&report[start..]).context("in fio's report")?;
        let job = &report["jobs"][0];
        ensure!(
            job["error"] == 0 && job["read"]["total_ios"] == self.ios,
            "fio was to read {} times, but reports {} reads and error {}",
            self.ios,
            job["read"]["total_ios"],
            job["error"]
        );
        job["read"]["iops"].as_f64().context("fio reports no IOPS")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"note: both iodepth >= 1 and ...
{"jobs": [{"error": 0, "read": {"total_ios": 500, "iops": 1234.5}}]}"#;

    #[test]
    fn a_complete_job_passes() {
        assert_eq!(Job::new(500, 128).check(REPORT).unwrap(), 1234.5);
    }

    #[test]
    fn a_stretched_job_does_the_same_reads() {
        let job = Job::new(1000, 1);
        assert!(job.command("vda").contains(" --iodepth=1 "));
        let (plain, stretched) = (job.command("vda"), job.stretched().command("vda"));
        let rest = stretched.strip_prefix(&plain).unwrap();
        assert!(rest.ends_with("--thinktime_blocks=10"), "{rest}");
    }

    #[test]
    fn a_short_or_failed_job_does_not() {
        let message = Job::new(501, 128).check(REPORT).unwrap_err().to_string();
        assert!(
            message.contains("501") && message.contains("500"),
            "{message}"
        );
        assert!(Job::new(500, 128)
            .check(&REPORT.replace("\"error\": 0", "\"error\": 5"))
            .is_err());
        assert!(Job::new(500, 128).check("fio: cannot open").is_err());
    }
}
