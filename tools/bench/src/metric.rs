// SPDX-License-Identifier: GPL-2.0

//! The figures of one run.

use crate::kprobes::Calls;
use crate::measure::Sample;

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Requests a second.
    Iops,
    /// MiB a second.
    Bandwidth,
    /// Mean completion latency, µs.
    LatencyMean,
    /// 99th percentile of the completion latency, µs.
    LatencyP99,
    /// User time, per cent of one processor.
    User,
    /// System time, per cent of one processor.
    System,
    /// Interrupts per 1,000 I/Os.
    Interrupts,
    /// Requests that an interrupt completes.
    Completions,
    /// Drains that an interrupt makes.
    Drains,
    /// Kicks per 1,000 I/Os.
    Kicks,
}

impl Metric {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Iops,
        Self::Bandwidth,
        Self::LatencyMean,
        Self::LatencyP99,
        Self::User,
        Self::System,
        Self::Interrupts,
        Self::Completions,
        Self::Drains,
        Self::Kicks,
    ];

    /// Name of the field in run.json.
    pub fn field(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bw_mib_s",
            Self::LatencyMean => "lat_mean_us",
            Self::LatencyP99 => "lat_p99_us",
            Self::User => "cpu_usr_pct",
            Self::System => "cpu_sys_pct",
            Self::Interrupts => "irq_per_kio",
            Self::Completions => "completions_per_irq",
            Self::Drains => "drains_per_irq",
            Self::Kicks => "kicks_per_kio",
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
        match self {
            Self::Iops => Some(report.iops),
            Self::Bandwidth => Some(report.bytes_per_s / f64::from(1 << 20)),
            Self::LatencyMean => Some(report.lat_mean_us),
            Self::LatencyP99 => Some(report.lat_p99_us),
            Self::User => Some(report.usr_pct),
            Self::System => Some(report.sys_pct),
            Self::Interrupts => per_kio(sample.interrupts),
            Self::Completions => per(sample.completed, sample.interrupts),
            Self::Drains => match (counters, probed) {
                (Some(counters), _) => per(counters.drains, sample.interrupts),
                (None, probed) => probed?.per_interrupt(probed?.calls.disable),
            },
            Self::Kicks => match (counters, probed) {
                (Some(counters), _) => per_kio(counters.kicks),
                (None, probed) => {
                    let kicks_per_irq = probed?.per_interrupt(probed?.calls.notify)?;
                    Some(kicks_per_irq * per_kio(sample.interrupts)?)
                }
            },
        }
    }

    /// Whether the C driver's figure needs probes, which disturb all others.
    pub fn needs_probes(self) -> bool {
        matches!(self, Self::Drains | Self::Kicks)
    }
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
