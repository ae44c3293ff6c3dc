// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What fio reports about one job.

use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The figures that we use, of all threads of a job together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Requests that fio got back.
    pub ios: u64,
    /// Flushes that fio has asked for besides.
    pub syncs: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean time from submission to completion, in µs.
    pub lat_mean_us: f64,
    /// What half of these times do not exceed, in µs. Of a mixed job, the larger one.
    pub lat_p50_us: f64,
    /// What 99 % of these times do not exceed, in µs. Of a mixed job, the larger one.
    pub lat_p99_us: f64,
    /// User time of all threads, in per cent of one processor.
    pub usr_pct: f64,
    /// System time of all threads, in per cent of one processor.
    pub sys_pct: f64,
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i64,
    usr_cpu: f64,
    sys_cpu: f64,
    job_runtime: f64,
    read: Direction,
    write: Direction,
    #[serde(default)]
    sync: Sync,
}

#[derive(Default, Deserialize)]
struct Sync {
    total_ios: u64,
}

#[derive(Deserialize)]
struct Direction {
    total_ios: u64,
    iops: f64,
    bw_bytes: f64,
    runtime: f64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// Parses the text of `--output-format=json` of a run with one section and `group_reporting`.
pub fn parse(text: &str) -> Result<Report> {
    // Remarks of fio may come before the JSON.
    let json = text.find('{').map_or(text, |start| &text[start..]);
    let output: Output = serde_json::from_str(json)
        .with_context(|| format!("fio's report is not understood: {text:.300}"))?;
    let [job] = &output.jobs[..] else {
        bail!(
            "fio reports {} jobs instead of one. Add group_reporting to the section [global].",
            output.jobs.len()
        );
    };
    if job.error != 0 {
        bail!("fio's job {} failed with error {}", job.jobname, job.error);
    }
    let directions = [&job.read, &job.write];
    let ios: u64 = directions.iter().map(|direction| direction.total_ios).sum();
    let runtime = directions
        .iter()
        .map(|direction| direction.runtime)
        .fold(0.0, f64::max);
    if ios == 0 || runtime == 0.0 {
        bail!(
            "fio's job {} did no I/O. Give it a longer --runtime.",
            job.jobname
        );
    }
    let percentile_us = |name: &str| {
        let of = |direction: &&Direction| direction.clat_ns.percentile.get(name).copied();
        directions.iter().filter_map(of).fold(0.0, f64::max) / 1e3
    };
    let mean_ns = directions
        .iter()
        .map(|direction| direction.clat_ns.mean * direction.total_ios as f64 / ios as f64)
        .sum::<f64>();
    // fio divides the threads' time by the sum of their run times.
    let threads = job.job_runtime / runtime;
    Ok(Report {
        ios,
        syncs: job.sync.total_ios,
        iops: directions.iter().map(|direction| direction.iops).sum(),
        bytes_per_s: directions.iter().map(|direction| direction.bw_bytes).sum(),
        lat_mean_us: mean_ns / 1e3,
        lat_p50_us: percentile_us("50.000000"),
        lat_p99_us: percentile_us("99.000000"),
        usr_pct: job.usr_cpu * threads,
        sys_pct: job.sys_cpu * threads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"fio: a remark
        {"fio version": "fio-3.39", "jobs": [{"jobname": "rand-read", "error": 0,
        "usr_cpu": 1.25, "sys_cpu": 5.0, "job_runtime": 32000,
        "read": {"total_ios": 2000, "iops": 1000.5, "bw_bytes": 4096000, "runtime": 2000,
            "clat_ns": {"mean": 150000.0,
                "percentile": {"50.000000": 140000, "99.000000": 900000}}},
        "sync": {"total_ios": 5},
        "write": {"total_ios": 0, "iops": 0, "bw_bytes": 0, "runtime": 0,
            "clat_ns": {"mean": 0.0}}}]}"#;

    #[test]
    fn figures_are_those_of_the_job() {
        let report = parse(REPORT).unwrap();
        assert_eq!(
            (report.ios, report.iops, report.bytes_per_s),
            (2000, 1000.5, 4096000.0)
        );
        assert_eq!((report.lat_mean_us, report.lat_p50_us), (150.0, 140.0));
        assert_eq!((report.lat_p99_us, report.syncs), (900.0, 5));
    }

    #[test]
    fn processor_time_is_that_of_all_threads() {
        let report = parse(REPORT).unwrap();
        assert_eq!((report.usr_pct, report.sys_pct), (20.0, 80.0));
    }

    #[test]
    fn a_failed_job_is_an_error() {
        let error = parse(&REPORT.replace("\"error\": 0", "\"error\": 5")).unwrap_err();
        assert!(error.to_string().contains("error 5"));
        assert!(parse("fio: engine not found").is_err());
        assert!(parse(r#"{"jobs": []}"#).is_err());
    }
}
