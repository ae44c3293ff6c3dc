// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Do the counts from different sources agree?

use crate::configuration::Configuration;
use crate::kprobes::Calls;
use crate::meter::Sample;
use serde::Serialize;

/// All comparisons of counts that should be equal.
#[derive(Debug, Default, Serialize)]
pub struct Checks {
    /// How many comparisons were made.
    pub made: u32,
    /// Those that failed.
    pub mismatches: Vec<Mismatch>,
    /// Interrupts of our driver's runs, by /proc/interrupts.
    pub interrupts: u64,
    /// Those among them that found the used ring unchanged: `vring_interrupt()` does not call a
    /// driver for them, so only /proc/interrupts counts them.
    pub interrupts_without_work: u64,
}

/// Two counts that should be equal and are not.
#[derive(Debug, Serialize)]
pub struct Mismatch {
    /// The configuration that was measured.
    pub configuration: Configuration,
    /// fio's job.
    pub job: String,
    /// Where the first count is from.
    pub source: &'static str,
    /// The first count.
    pub count: u64,
    /// Where the second count is from.
    pub other_source: &'static str,
    /// The second count.
    pub other_count: u64,
}

impl Checks {
    /// Compares the counts of a measured run.
    pub fn sample(&mut self, configuration: Configuration, job: &str, sample: &Sample) {
        let ended = sample.completed + sample.merged;
        let ios = ("fio's I/Os", sample.report.ios);
        self.equal(
            configuration,
            job,
            ios,
            ("requests ended or merged (stat)", ended),
        );
        if let Some(counters) = &sample.counters {
            let seen = counters.interrupts.min(sample.interrupts);
            self.interrupts += sample.interrupts;
            self.interrupts_without_work += sample.interrupts - seen;
            let counted = ("interrupts (debugfs)", counters.interrupts);
            self.equal(
                configuration,
                job,
                counted,
                ("/proc/interrupts, at most,", seen),
            );
            let completions = ("completions (debugfs)", counters.completions);
            let completed = ("requests ended (stat)", sample.completed);
            self.equal(configuration, job, completions, completed);
        }
    }

    /// Compares the probes with the counts of our driver in the same run.
    pub fn calls(
        &mut self,
        configuration: Configuration,
        job: &str,
        sample: &Sample,
        calls: Calls,
    ) {
        if let Some(counters) = &sample.counters {
            let counted = ("kicks (debugfs)", counters.kicks);
            self.equal(
                configuration,
                job,
                counted,
                ("probe on notify", calls.notify),
            );
        }
    }

    fn equal(
        &mut self,
        configuration: Configuration,
        job: &str,
        (source, count): (&'static str, u64),
        (other_source, other_count): (&'static str, u64),
    ) {
        self.made += 1;
        if count != other_count {
            let job = job.to_owned();
            self.mismatches.push(Mismatch {
                configuration,
                job,
                source,
                count,
                other_source,
                other_count,
            });
        }
    }

    /// A sentence for each mismatch, and the sum.
    pub fn report(&self) -> Vec<String> {
        let mismatches = self.mismatches.iter().map(|mismatch| {
            format!(
                "warning: {} {}: {} is {}, but {} is {}.",
                mismatch.configuration.label(),
                mismatch.job,
                mismatch.source,
                mismatch.count,
                mismatch.other_source,
                mismatch.other_count
            )
        });
        let mut lines: Vec<_> = mismatches.collect();
        lines.push(match self.mismatches.len() {
            0 => format!("All {} comparisons of counts agree.", self.made),
            failed => format!("{failed} of {} comparisons of counts fail.", self.made),
        });
        if self.interrupts_without_work > 0 {
            lines.push(format!(
                "{} of our driver's {} interrupts found an unchanged ring and ended in the \
                 virtio core.",
                self.interrupts_without_work, self.interrupts
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Report;
    use vm::Counters;

    fn sample() -> Sample {
        let report = Report {
            ios: 110,
            ..Report::default()
        };
        let counters = Counters {
            interrupts: 30,
            completions: 100,
            kicks: 20,
            ..Counters::default()
        };
        Sample {
            report,
            interrupts: 30,
            completed: 100,
            merged: 10,
            counters: Some(counters),
            ..Sample::default()
        }
    }

    #[test]
    fn equal_counts_agree() {
        let mut checks = Checks::default();
        checks.sample(Configuration::Loop, "j", &sample());
        checks.calls(
            Configuration::Loop,
            "j",
            &sample(),
            Calls {
                notify: 20,
                disable: 0,
            },
        );
        assert_eq!((checks.made, checks.mismatches.len()), (4, 0));
    }

    #[test]
    fn each_difference_is_found() {
        let mut checks = Checks::default();
        let sample = Sample {
            interrupts: 29,
            completed: 99,
            ..sample()
        };
        checks.sample(Configuration::Loop, "j", &sample);
        checks.calls(
            Configuration::Loop,
            "j",
            &sample,
            Calls {
                notify: 21,
                disable: 0,
            },
        );
        assert_eq!(checks.mismatches.len(), 4);
        assert!(checks.report()[1].contains("30, but /proc/interrupts, at most, is 29"));
    }

    #[test]
    fn interrupts_without_work_are_no_mismatch() {
        let mut checks = Checks::default();
        let sample = Sample {
            interrupts: 33,
            ..sample()
        };
        checks.sample(Configuration::Loop, "j", &sample);
        assert!(checks.mismatches.is_empty());
        assert!(checks.report()[1].starts_with("3 of our driver's 33 interrupts"));
    }
}
