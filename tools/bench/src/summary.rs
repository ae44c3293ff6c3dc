// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! From the samples of all rounds to one row for each job and configuration.

use crate::configuration::Configuration;
use crate::meter::Sample;
use crate::metric::{Metric, Probed};
use crate::series::Series;
use measuring::Estimate;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Everything that has been measured.
#[derive(Debug, Default)]
pub struct Measurements {
    series: BTreeMap<(String, Configuration), Series>,
}

/// One line of the result.
#[derive(Debug)]
pub struct Row {
    /// fio's job.
    pub job: String,
    /// What was measured.
    pub configuration: Configuration,
    ours: Series,
    c: Option<Series>,
}

impl Measurements {
    /// Adds a measured run. Of the C driver it lacks what needs probes.
    pub fn add(&mut self, job: &str, configuration: Configuration, sample: &Sample) {
        for metric in Metric::RUN {
            if sample.counters.is_some() || !metric.needs_probes() {
                self.push(job, configuration, metric, metric.of(sample, None));
            }
        }
    }

    /// Adds what only a run with probes can tell of the measured run before it.
    pub fn add_probed(
        &mut self,
        job: &str,
        configuration: Configuration,
        sample: &Sample,
        probed: &Probed,
    ) {
        for metric in Metric::RUN.into_iter().filter(|m| m.needs_probes()) {
            self.push(job, configuration, metric, metric.of(sample, Some(probed)));
        }
    }

    fn push(
        &mut self,
        job: &str,
        configuration: Configuration,
        metric: Metric,
        value: Option<f64>,
    ) {
        let key = (job.to_owned(), configuration);
        self.series.entry(key).or_default().push(metric, value);
    }

    /// The rows, by job and configuration in the given order.
    pub fn rows(&self, jobs: &[String], configurations: &[Configuration]) -> Vec<Row> {
        let pairs = jobs
            .iter()
            .flat_map(|job| configurations.iter().map(move |c| (job, *c)));
        pairs
            .filter_map(|(job, configuration)| self.row(job, configuration))
            .collect()
    }

    fn row(&self, job: &str, configuration: Configuration) -> Option<Row> {
        let series = |configuration| self.series.get(&(job.to_owned(), configuration));
        Some(Row {
            job: job.to_owned(),
            configuration,
            ours: series(configuration)?.clone(),
            c: series(Configuration::C).cloned(),
        })
    }
}

impl Row {
    /// The median of a figure over all rounds.
    pub fn estimate(&self, metric: Metric) -> Option<Estimate> {
        self.ours.estimate(metric)
    }

    /// The median of its ratios to the C driver's in the same rounds.
    pub fn ratio(&self, metric: Metric) -> Option<Estimate> {
        self.ours.ratio_to(self.c.as_ref()?, metric)
    }

    /// The object in run.json.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("driver".into(), json!(self.configuration.driver().name()));
        object.insert("suppress".into(), json!(self.configuration.suppress()));
        object.insert("job".into(), json!(self.job));
        let mut insert = |name: &str, estimate: Option<Estimate>| {
            object.insert(name.into(), json!(estimate.map(|estimate| estimate.median)));
            let interval = estimate.and_then(|estimate| estimate.ci95);
            object.insert(format!("{name}_ci95"), json!(interval));
        };
        for metric in Metric::RUN {
            insert(&metric.field(), self.estimate(metric));
        }
        insert("ratio_to_c", self.ratio(Metric::Iops));
        for metric in Metric::RUN.into_iter().skip(1) {
            insert(
                &format!("{}_ratio_to_c", metric.field()),
                self.ratio(metric),
            );
        }
        let rounds: Map<String, Value> = self
            .ours
            .metrics()
            .map(|metric| (metric.field(), json!(self.ours.rounds(metric))))
            .collect();
        object.insert("rounds".into(), rounds.into());
        object.into()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::fio::Report;
    use crate::kprobes::Calls;
    use vm::Counters;

    fn sample(iops: f64, counters: Option<Counters>) -> Sample {
        let report = Report {
            ios: 1000,
            syncs: 0,
            iops,
            bytes_per_s: iops * 4096.0,
            lat_mean_us: 10.0,
            lat_p50_us: 9.0,
            lat_p99_us: 20.0,
            usr_pct: 5.0,
            sys_pct: 50.0,
        };
        Sample {
            report,
            interrupts: 250,
            completed: 1000,
            counters,
            ..Sample::default()
        }
    }

    /// One job, six rounds, the C driver and ours with `loop`.
    pub fn measured() -> Measurements {
        let mut measurements = Measurements::default();
        for round in 1..=6 {
            let noise = f64::from(round);
            let c = sample(1000.0 * noise, None);
            measurements.add("j", Configuration::C, &c);
            // Half as many interrupts as without probes, and so half as many kicks.
            let probed = Probed {
                sample: Sample {
                    interrupts: 125,
                    ..sample(1.0, None)
                },
                calls: Calls {
                    notify: 50,
                    disable: 150,
                },
            };
            measurements.add_probed("j", Configuration::C, &c, &probed);
            let counters = Counters {
                drains: 250,
                kicks: 50,
                ..Counters::default()
            };
            let ours = sample(1100.0 * noise, Some(counters));
            measurements.add("j", Configuration::Loop, &ours);
        }
        measurements
    }

    #[test]
    fn ratios_are_paired_so_that_common_noise_cancels() {
        let rows = measured().rows(&["j".into()], &[Configuration::C, Configuration::Loop]);
        let ratio = rows[1].ratio(Metric::Iops).unwrap();
        assert!((ratio.median - 1.1).abs() < 1e-9);
        let [low, high] = ratio.ci95.unwrap();
        assert!(high - low < 1e-9);
        assert_eq!(rows[1].ratio(Metric::Kicks).unwrap().median, 0.5);
    }

    #[test]
    fn json_has_every_documented_field() {
        let rows = measured().rows(&["j".into()], &[Configuration::Loop, Configuration::C]);
        let (ours, c) = (rows[0].to_json(), rows[1].to_json());
        assert_eq!(
            (&ours["driver"], &ours["suppress"]),
            (&json!("virtio_blk_rs"), &json!("loop"))
        );
        assert_eq!(
            (&c["driver"], &c["suppress"]),
            (&json!("virtio_blk"), &Value::Null)
        );
        assert_eq!(
            (&ours["irq_per_kio"], &ours["completions_per_irq"]),
            (&json!(250.0), &json!(4.0))
        );
        assert_eq!(
            (&ours["drains_per_irq"], &c["drains_per_irq"]),
            (&json!(1.0), &json!(1.2))
        );
        assert_eq!(
            (&ours["kicks_per_kio"], &c["kicks_per_kio"]),
            (&json!(50.0), &json!(100.0))
        );
        for metric in Metric::RUN {
            assert!(ours[&metric.field()].is_number(), "{metric:?}");
            assert!(
                ours[format!("{}_ci95", metric.field())].is_array(),
                "{metric:?}"
            );
        }
        assert_eq!(ours["rounds"]["iops"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn without_the_c_driver_there_is_no_ratio() {
        let mut measurements = Measurements::default();
        measurements.add(
            "j",
            Configuration::Off,
            &sample(1.0, Some(Counters::default())),
        );
        let rows = measurements.rows(&["j".into()], &[Configuration::Off]);
        assert_eq!(rows[0].ratio(Metric::Iops), None);
        assert_eq!(rows[0].to_json()["ratio_to_c"], Value::Null);
    }
}
