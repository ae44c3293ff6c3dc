// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Medians and their confidence intervals, without an assumption about the distribution.
//!
//! The runs share a noisy machine, so their figures have heavy tails and are few. The interval is
//! the one between two order statistics: the number of values below the true median is binomial
//! with p = 1/2, whatever the distribution, so the probability that the k-th smallest and the k-th
//! largest value enclose it is known exactly. The narrowest such pair with at least 95 % is taken;
//! with fewer than 6 values there is none.

use serde::{Deserialize, Serialize};

/// The least probability with which an interval encloses the true median.
const CONFIDENCE: f64 = 0.95;

/// A median with its 95 % confidence interval, if there are enough values for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower and upper end.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// Estimates the median of what `values` are drawn from; nothing without a value.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (sorted, count) = (sorted(values), values.len());
        let median = middle(&sorted)?;
        let ci95 = trim(count).map(|trim| [sorted[trim], sorted[count - 1 - trim]]);
        Some(Self { median, ci95 })
    }
}

/// How many values may be cut off at each end.
fn trim(count: usize) -> Option<usize> {
    // P(at most k of count values lie below the median), summed term by term.
    let mut term = 0.5f64.powi(count as i32);
    let mut tail = 0.0;
    let mut best = None;
    for k in 0..count.div_ceil(2) {
        tail += term;
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = Some(k);
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    best
}

/// Ratios of paired values: those of the same round, so that what disturbs both cancels out.
pub fn paired_ratios(ours: &[Option<f64>], theirs: &[Option<f64>]) -> Vec<f64> {
    let pairs = ours
        .iter()
        .zip(theirs)
        .filter_map(|(ours, theirs)| ours.zip(*theirs));
    pairs
        .filter(|(_, theirs)| *theirs != 0.0)
        .map(|(ours, theirs)| ours / theirs)
        .collect()
}

/// The middle value, or the mean of the two middle ones; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    middle(&sorted(values)).unwrap_or_default()
}

/// Half the distance between the extremes, in percent of the median: what "±x %" says.
pub fn spread_percent(values: &[f64]) -> f64 {
    match (sorted(values).as_slice(), median(values)) {
        ([], _) | (_, 0.0) => 0.0,
        ([lowest, .., highest], middle) => (highest - lowest) / 2.0 / middle * 100.0,
        ([_], _) => 0.0,
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = sorted.get(half)?;
    Some(match sorted.len() % 2 {
        1 => *upper,
        _ => (sorted[half - 1] + upper) / 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(Estimate::of(&[3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Estimate::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[])), (2.0, 0.0));
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // Tables of the sign test: the smallest sample with an interval has 6 values.
        let expected = [
            (5, None),
            (6, Some(0)),
            (8, Some(0)),
            (9, Some(1)),
            (11, Some(1)),
        ];
        for (count, expected) in expected {
            assert_eq!(trim(count), expected, "{count} values");
        }
        assert_eq!(
            (trim(12), trim(20), trim(100)),
            (Some(2), Some(5), Some(39))
        );
    }

    #[test]
    fn an_outlier_moves_the_median_little() {
        let estimate = Estimate::of(&[10.0, 11.0, 9.0, 10.5, 9.5, 10.0, 10.0, 9.8, 99.0]).unwrap();
        assert_eq!(estimate.median, 10.0);
        assert_eq!(estimate.ci95, Some([9.5, 11.0]));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ours = [Some(2.0), None, Some(9.0), Some(1.0)];
        let theirs = [Some(1.0), Some(5.0), Some(3.0), Some(0.0)];
        assert_eq!(paired_ratios(&ours, &theirs), [2.0, 3.0]);
    }
    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread_percent(&[99.0, 100.0, 101.0]), 1.0);
        assert_eq!(spread_percent(&[5.0]), 0.0);
        assert_eq!(spread_percent(&[]), 0.0);
        assert_eq!(spread_percent(&[0.0, 0.0]), 0.0);
    }
}
