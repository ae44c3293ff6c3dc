// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Runs fio in a guest and reads what it reports.

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use std::time::Duration;
use vm::{Output, Pending, Vm};

/// What all jobs have in common. Without the clock source fio would calibrate one for a second.
const COMMON: &str = "--direct=1 --thread --clocksource=clock_gettime --allow_file_create=0 \
                      --group_reporting=0 --output-format=json";

/// How long a job runs that nobody stops.
const ENDLESS: Duration = Duration::from_secs(3600);

/// fio's status when a signal has ended it and nothing went wrong.
const STATUS_STOPPED: i32 = 128;

/// What fio did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Reads, those for verification among them.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Calls of fsync(2) and the like.
    pub syncs: u64,
    /// Milliseconds for which the longest job ran.
    pub runtime_ms: u64,
}

/// What one of fio's jobs did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The number of the error that has ended it, or 0.
    pub error: u64,
    /// What it did before.
    pub report: Report,
}

/// fio, running beside other things.
pub struct Running(Pending);

/// A job that writes `mib` MiB of the disk `name` in blocks of all sizes, flushes now and then, and
/// verifies what it wrote.
pub fn all_sizes(name: &str, mib: u32) -> String {
    format!(
        "--name=j --filename=/dev/{name} --rw=randwrite --bsrange=512-256k --size={mib}m \
         --iodepth=32 --ioengine=io_uring --verify=crc32c --fsync=16"
    )
}

/// Two jobs at a depth of 32 that write parts of their own of the disk `name` for some seconds, and
/// verify what they wrote.
pub fn verified(name: &str, seconds: u64) -> String {
    format!(
        "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=16m --numjobs=2 \
         --offset_increment=16m --ioengine=libaio --iodepth=32 --verify=crc32c --time_based \
         --runtime={seconds}"
    )
}

/// Starts a job at a depth of 32 that writes 256 blocks of the disk `name` again and again, flushes
/// now and then, and verifies what it wrote, until it is stopped. See [`stop`].
pub fn start_endless(vm: &Vm, name: &str) -> Result<Running> {
    let job = format!(
        "--name=j --filename=/dev/{name} --rw=randwrite --bs=4k --size=1m --ioengine=libaio \
         --iodepth=32 --verify=crc32c --fsync=64 --time_based --runtime={}",
        ENDLESS.as_secs()
    );
    start(vm, ENDLESS, &job)
}

/// Starts a job that polls for what it writes and verifies behind the first 32 MiB of the disk
/// `name`, until it is stopped.
pub fn start_polling(vm: &Vm, name: &str) -> Result<Running> {
    let job = format!(
        "--name=p --filename=/dev/{name} --rw=randwrite --bs=4k --offset=32m --size=1m \
         --ioengine=io_uring --hipri=1 --iodepth=16 --verify=crc32c --time_based --runtime={}",
        ENDLESS.as_secs()
    );
    start(vm, ENDLESS, &job)
}

/// Stops all jobs, and demands that they have done something, that no I/O has failed and that all
/// that was verified is right.
pub fn stop(vm: &Vm, jobs: Vec<Running>) -> Result<()> {
    vm.sh("busybox killall -INT fio")?;
    for job in jobs {
        let output = job.outcome()?;
        if output.status != STATUS_STOPPED {
            bail!(
                "fio ended with status {}: {}{}",
                output.status,
                output.stdout,
                output.stderr
            );
        }
        let report = Report::parse(&output.stdout)?;
        if report.writes < 100 || report.reads == 0 {
            bail!("fio did but {report:?}");
        }
    }
    vm.check()
}

/// Runs fio, and demands that no I/O fails and that all that is verified is right.
pub fn run(vm: &Vm, limit: Duration, arguments: &str) -> Result<Report> {
    let report = start(vm, limit, arguments)?.finish();
    vm.check()?;
    report
}

/// Starts fio; it is killed after `limit`.
pub fn start(vm: &Vm, limit: Duration, arguments: &str) -> Result<Running> {
    let script = format!(
        "out=$(mktemp); fio {COMMON} --output=$out {arguments}; status=$?; cat $out; rm $out; \
         exit $status"
    );
    Ok(Running(vm.spawn(limit, &script)?))
}

impl Running {
    /// Waits for the end and demands success.
    pub fn finish(self) -> Result<Report> {
        Report::parse(&self.0.wait_ok()?)
    }

    /// Waits for the end, and tells of each job.
    pub fn jobs(self) -> Result<Vec<Job>> {
        let output = self.0.wait()?;
        Job::parse_all(&output.stdout).with_context(|| output.stderr)
    }

    /// Waits for the end and demands that I/O has failed, because the disk is gone.
    pub fn fails(self) -> Result<()> {
        let output = self.outcome()?;
        ensure!(output.status != 0, "fio outlived its disk: {output:?}");
        Ok(())
    }

    /// Waits for the end, which may be a failure.
    pub fn outcome(self) -> Result<Output> {
        self.0.wait()
    }
}

impl Job {
    /// Parses fio's JSON, in front of which there may be warnings.
    fn parse_all(text: &str) -> Result<Vec<Self>> {
        let start = if text.starts_with('{') {
            0
        } else {
            text.find("\n{")
                .with_context(|| format!("fio reported no JSON: {text:?}"))?
        };
        let report: Value = serde_json::from_str(&text[start..])
            .with_context(|| format!("fio's report is not understood: {text:?}"))?;
        let jobs = report["jobs"]
            .as_array()
            .context("fio's report has no jobs")?;
        jobs.iter().map(Self::parse).collect()
    }

    fn parse(job: &Value) -> Result<Self> {
        let number = |value: &Value, what: &str| {
            let number = value.as_u64();
            number.with_context(|| format!("fio does not report {what} as a number"))
        };
        let ios = |kind: &str| number(&job[kind]["total_ios"], kind);
        Ok(Self {
            name: job["jobname"].as_str().unwrap_or_default().to_owned(),
            error: number(&job["error"], "an error")?,
            report: Report {
                reads: ios("read")?,
                writes: ios("write")?,
                syncs: ios("sync")?,
                runtime_ms: number(&job["job_runtime"], "the time")?,
            },
        })
    }
}

impl Report {
    /// The sum of what fio's JSON tells of jobs, none of which may have failed.
    fn parse(text: &str) -> Result<Self> {
        let mut sum = Self::default();
        for Job {
            name,
            error,
            report,
        } in Job::parse_all(text)?
        {
            ensure!(error == 0, "fio's job {name} failed with error {error}");
            sum.reads += report.reads;
            sum.writes += report.writes;
            sum.syncs += report.syncs;
            sum.runtime_ms = sum.runtime_ms.max(report.runtime_ms);
        }
        Ok(sum)
    }

    /// Reads and writes.
    pub fn transfers(&self) -> u64 {
        self.reads + self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(error: u32) -> String {
        format!(
            r#"{{"jobname": "j", "error": {error}, "job_runtime": 12, "read": {{"total_ios": 3}},
                "write": {{"total_ios": 4}}, "sync": {{"total_ios": 5}}}}"#
        )
    }

    #[test]
    fn jobs_add_up_behind_a_warning() {
        let text = format!("fio: a warning\n{{\"jobs\": [{}, {}]}}\n", job(0), job(0));
        let report = Report::parse(&text).unwrap();
        assert_eq!((report.reads, report.writes, report.syncs), (6, 8, 10));
        assert_eq!((report.transfers(), report.runtime_ms), (14, 12));
    }

    #[test]
    fn a_failed_job_is_an_error() {
        let text = format!("{{\"jobs\": [{}, {}]}}", job(0), job(84));
        assert!(Report::parse(&text).unwrap_err().to_string().contains("84"));
        let errors: Vec<_> = Job::parse_all(&text).unwrap();
        let errors: Vec<_> = errors.iter().map(|job| job.error).collect();
        assert_eq!(errors, [0, 84]);
        assert!(Report::parse("nothing").is_err());
    }
}
