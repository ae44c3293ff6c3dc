// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The figures of one run.

use crate::kprobes::Calls;
use crate::meter::Sample;
use serde::{Deserialize, Serialize};

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Metric {
    /// Requests a second.
    #[serde(rename = "iops")]
    Iops,
    /// MiB a second.
    #[serde(rename = "bw_mib_s")]
    Bandwidth,
    /// Mean completion latency, µs.
    #[serde(rename = "lat_mean_us")]
    LatencyMean,
    /// Median of the completion latency, µs.
    #[serde(rename = "lat_p50_us")]
    LatencyMedian,
    /// 99th percentile of the completion latency, µs.
    #[serde(rename = "lat_p99_us")]
    LatencyP99,
    /// User time, per cent of one processor.
    #[serde(rename = "cpu_usr_pct")]
    User,
    /// System time, per cent of one processor.
    #[serde(rename = "cpu_sys_pct")]
    System,
    /// Median time of a kick, ns.
    #[serde(rename = "kick_ns")]
    KickTime,
    /// Interrupts per 1,000 I/Os.
    #[serde(rename = "irq_per_kio")]
    Interrupts,
    /// Signals of a device that counts them, per 1,000 I/Os.
    #[serde(rename = "signals_per_kio")]
    Signals,
    /// Interrupts that found nothing completed, per 1,000 I/Os.
    #[serde(rename = "empty_irq_per_kio")]
    EmptyInterrupts,
    /// Signals that arrived while the handler ran, per 1,000 I/Os: interrupts that found the used
    /// ring as the handler had left it and so ended in the virtio core.
    #[serde(rename = "late_irq_per_kio")]
    LateInterrupts,
    /// Requests that an interrupt completes.
    #[serde(rename = "completions_per_irq")]
    Completions,
    /// Drains that an interrupt makes.
    #[serde(rename = "drains_per_irq")]
    DrainsPerInterrupt,
    /// Passes over the used ring per 1,000 I/Os.
    #[serde(rename = "drains_per_kio")]
    Drains,
    /// Kicks per 1,000 I/Os.
    #[serde(rename = "kicks_per_kio")]
    Kicks,
    /// Times that the coalescing timer fired, per 1,000 I/Os.
    #[serde(rename = "timer_fires_per_kio")]
    TimerFires,
    /// Times that coalescing was left out, per 1,000 I/Os.
    #[serde(rename = "bypasses_per_kio")]
    Bypasses,
    /// Times that a queue's lock was taken, per 1,000 I/Os.
    #[serde(rename = "locks_per_kio")]
    Locks,
    /// Times that it was held by somebody else, per 1,000 I/Os.
    #[serde(rename = "contended_locks_per_kio")]
    ContendedLocks,
    /// Requests that were found completed only after they had timed out.
    #[serde(rename = "missed_interrupts")]
    Missed,
}

/// What a figure is measured in. Figures of different kinds are never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// How often something happened.
    Counts,
    /// Guest instructions.
    Cost,
    /// Time on the wall, which says something only as a ratio within one boot.
    Wall,
    /// What the adaptive mode does when the load changes.
    Steps,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::Iops,
        Self::Bandwidth,
        Self::LatencyMean,
        Self::LatencyMedian,
        Self::LatencyP99,
        Self::User,
        Self::System,
        Self::KickTime,
        Self::Interrupts,
        Self::Signals,
        Self::EmptyInterrupts,
        Self::LateInterrupts,
        Self::Completions,
        Self::DrainsPerInterrupt,
        Self::Drains,
        Self::Kicks,
        Self::TimerFires,
        Self::Bypasses,
        Self::Locks,
        Self::ContendedLocks,
        Self::Missed,
    ];

    /// Those of `vbr run`, in the order of its table.
    pub const RUN: [Self; 10] = [
        Self::Iops,
        Self::Bandwidth,
        Self::LatencyMean,
        Self::LatencyP99,
        Self::User,
        Self::System,
        Self::Interrupts,
        Self::Completions,
        Self::DrainsPerInterrupt,
        Self::Kicks,
    ];

    /// Name of the field in JSON.
    pub fn field(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => unreachable!("a variant without content is written as its name"),
        }
    }

    /// What it is measured in.
    pub fn kind(self) -> Kind {
        match self {
            Self::Iops
            | Self::Bandwidth
            | Self::LatencyMean
            | Self::LatencyMedian
            | Self::LatencyP99
            | Self::User
            | Self::System
            | Self::KickTime => Kind::Wall,
            _ => Kind::Counts,
        }
    }

    /// The figure of a run, if the run has it, or else a run with probes that followed it.
    ///
    /// Probes change the timing, and with it how many requests an interrupt and a kick are for;
    /// what they leave alone is how many kicks and drains there are for an interrupt.
    pub fn of(self, sample: &Sample, probed: Option<&Probed>) -> Option<f64> {
        let report = &sample.report;
        let per = |count: u64, base: u64| (base > 0).then(|| count as f64 / base as f64);
        let per_kio = |count: u64| per(count, report.ios).map(|ratio| ratio * 1e3);
        let counters = sample.counters.as_ref();
        let other = |name: &str| per_kio(*sample.others.get(name)?);
        match self {
            Self::Iops => Some(report.iops),
            Self::Bandwidth => Some(report.bytes_per_s / f64::from(1 << 20)),
            Self::LatencyMean => Some(report.lat_mean_us),
            Self::LatencyMedian => Some(report.lat_p50_us),
            Self::LatencyP99 => Some(report.lat_p99_us),
            Self::User => Some(report.usr_pct),
            Self::System => Some(report.sys_pct),
            Self::KickTime => median_of_buckets(&sample.kick_times),
            Self::Interrupts => per_kio(sample.interrupts),
            Self::Signals => per_kio(sample.signals?),
            Self::EmptyInterrupts => per_kio(counters?.empty_interrupts),
            Self::LateInterrupts => per_kio(sample.interrupts.saturating_sub(counters?.interrupts)),
            Self::Completions => per(sample.completed, sample.interrupts),
            Self::DrainsPerInterrupt => match (counters, probed) {
                (Some(counters), _) => per(counters.drains, sample.interrupts),
                (None, probed) => probed?.per_interrupt(probed?.calls.disable),
            },
            Self::Drains => match (counters, probed) {
                (Some(counters), _) => per_kio(counters.drains),
                (None, probed) => {
                    let drains_per_irq = probed?.per_interrupt(probed?.calls.disable)?;
                    Some(drains_per_irq * per_kio(sample.interrupts)?)
                }
            },
            Self::Kicks => match (counters, probed) {
                (Some(counters), _) => per_kio(counters.kicks),
                (None, probed) => {
                    let kicks_per_irq = probed?.per_interrupt(probed?.calls.notify)?;
                    Some(kicks_per_irq * per_kio(sample.interrupts)?)
                }
            },
            Self::TimerFires => other("timer_fires"),
            Self::Bypasses => other("immediate_bypasses"),
            Self::Locks => other("lock_acquisitions"),
            Self::ContendedLocks => other("lock_contended"),
            Self::Missed => sample.others.get("missed_interrupts").map(|n| *n as f64),
        }
    }

    /// Whether the C driver's figure needs probes, which disturb all others.
    pub fn needs_probes(self) -> bool {
        matches!(self, Self::DrainsPerInterrupt | Self::Drains | Self::Kicks)
    }
}

/// The middle of the bucket that the median is in, where bucket k reaches from 2^(k-1) to 2^k - 1.
fn median_of_buckets(buckets: &[u64]) -> Option<f64> {
    let total: u64 = buckets.iter().sum();
    let mut below = 0;
    let k = buckets.iter().position(|count| {
        below += count;
        total > 0 && below * 2 >= total
    })?;
    Some(if k == 0 {
        0.0
    } else {
        1.5 * 2f64.powi(k as i32 - 1)
    })
}

/// A run with probes and what they counted.
#[derive(Debug)]
pub struct Probed {
    /// The run.
    pub sample: Sample,
    /// What the probes counted.
    pub calls: Calls,
}

impl Probed {
    fn per_interrupt(&self, count: u64) -> Option<f64> {
        let interrupts = self.sample.interrupts;
        (interrupts > 0).then(|| count as f64 / interrupts as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Report;
    use std::collections::BTreeMap;
    use vm::Counters;

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let mut names: Vec<String> = Metric::ALL.map(Metric::field).into();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
        assert_eq!(Metric::Interrupts.field(), "irq_per_kio");
    }

    #[test]
    fn signals_that_the_handler_did_not_see_are_late() {
        let sample = Sample {
            report: Report {
                ios: 2000,
                ..Report::default()
            },
            interrupts: 130,
            counters: Some(Counters {
                interrupts: 100,
                empty_interrupts: 4,
                ..Counters::default()
            }),
            others: BTreeMap::from([("timer_fires".to_owned(), 6)]),
            ..Sample::default()
        };
        assert_eq!(Metric::LateInterrupts.of(&sample, None), Some(15.0));
        assert_eq!(Metric::EmptyInterrupts.of(&sample, None), Some(2.0));
        assert_eq!(Metric::TimerFires.of(&sample, None), Some(3.0));
        assert_eq!(Metric::Locks.of(&sample, None), None);
        let c = Sample {
            counters: None,
            ..sample
        };
        assert_eq!(Metric::LateInterrupts.of(&c, None), None);
    }

    #[test]
    fn the_median_of_a_histogram_is_the_middle_of_a_bucket() {
        assert_eq!(median_of_buckets(&[0, 0, 1, 8, 1]), Some(6.0));
        assert_eq!(median_of_buckets(&[5, 1]), Some(0.0));
        assert_eq!(median_of_buckets(&[0, 0]), None);
        assert_eq!(median_of_buckets(&[]), None);
    }
}
