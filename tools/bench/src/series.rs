// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The values of all rounds, and what they say together.

use crate::metric::Metric;
use measuring::{paired_ratios, Estimate};
use std::collections::BTreeMap;

/// What all rounds measured of one job with one driver and its settings.
#[derive(Debug, Clone, Default)]
pub struct Series {
    values: BTreeMap<Metric, Vec<Option<f64>>>,
}

impl Series {
    /// Adds a round's value; nothing if the round has none.
    pub fn push(&mut self, metric: Metric, value: Option<f64>) {
        self.values.entry(metric).or_default().push(value);
    }

    /// The figures that were measured at all.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        self.values.keys().copied()
    }

    /// The values of a figure, by round.
    pub fn rounds(&self, metric: Metric) -> &[Option<f64>] {
        self.values.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// The median of a figure over all rounds that have it.
    pub fn estimate(&self, metric: Metric) -> Option<Estimate> {
        let present: Vec<f64> = self.rounds(metric).iter().copied().flatten().collect();
        Estimate::of(&present)
    }

    /// The median of its ratios to another series in the same rounds.
    pub fn ratio_to(&self, other: &Self, metric: Metric) -> Option<Estimate> {
        let ratios = paired_ratios(self.rounds(metric), other.rounds(metric));
        Estimate::of(&ratios)
    }
}
