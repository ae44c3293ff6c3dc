// SPDX-License-Identifier: GPL-2.0

//! The statistics of a handful of passes.

/// The middle value, or the mean of the two middle ones; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.get(middle)) {
        (0, _) | (_, None) => 0.0,
        (n, Some(upper)) if n % 2 == 1 => *upper,
        (_, Some(upper)) => (sorted[middle - 1] + upper) / 2.0,
    }
}

/// Half the distance between the extremes, in percent of the median: what "±x %" says.
pub fn spread_percent(values: &[f64]) -> f64 {
    let middle = median(values);
    if middle == 0.0 {
        return 0.0;
    }
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (highest - lowest) / 2.0 / middle * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread_percent(&[99.0, 100.0, 101.0]), 1.0);
        assert_eq!(spread_percent(&[5.0]), 0.0);
        assert_eq!(spread_percent(&[]), 0.0);
        assert_eq!(spread_percent(&[0.0, 0.0]), 0.0);
    }
}
