// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What a queue did in an interval, and the quotients that are made of it.

use std::collections::BTreeMap;

/// Values in the driver's files that are no counts: they stand for themselves.
pub const GAUGES: [&str; 4] = [
    "coalesce_depth",
    "coalesce_reqs_now",
    "coalesce_usecs_now",
    "largest_batch",
];

/// What a queue, or several together, did in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// The length of the interval.
    pub seconds: f64,
    /// What was counted in it. A counter that the driver does not have is missing.
    pub added: BTreeMap<String, u64>,
    /// All values at its end.
    pub now: BTreeMap<String, u64>,
    /// The interrupts that the kernel has counted in it, if it does so for this queue alone.
    pub signals: Option<u64>,
}

impl Change {
    /// Several queues together: counts add up, other values stay where all agree.
    pub fn sum<'a>(changes: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut total = Self::default();
        let mut gauges = BTreeMap::<_, Option<u64>>::new();
        for change in changes {
            for (name, added) in &change.added {
                *total.added.entry(name.clone()).or_default() += added;
            }
            for (name, value) in &change.now {
                if GAUGES.contains(&name.as_str()) {
                    let common = gauges.entry(name).or_insert(Some(*value));
                    *common = common.filter(|common| common == value);
                } else {
                    *total.now.entry(name.clone()).or_default() += value;
                }
            }
        }
        for (name, common) in gauges {
            if let Some(value) = common {
                total.now.insert(name.clone(), value);
            }
        }
        total
    }

    /// How much was added to a counter, a second.
    pub fn rate(&self, counter: &str) -> Option<f64> {
        self.a_second(*self.added.get(counter)?)
    }

    /// The kernel's interrupts, a second.
    pub fn signal_rate(&self) -> Option<f64> {
        self.a_second(self.signals?)
    }

    /// How much was added to one counter for each that was added to another.
    pub fn ratio(&self, counter: &str, other: &str) -> Option<f64> {
        let (count, others) = (self.added.get(counter)?, self.added.get(other)?);
        (*others > 0).then(|| *count as f64 / *others as f64)
    }

    /// A value at the end of the interval.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.now.get(name).map(|value| *value as f64)
    }

    fn a_second(&self, count: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| count as f64 / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two seconds in which these counters grew.
    fn change(added: &[(&str, u64)]) -> Change {
        let counts = || {
            added
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
        };
        Change {
            seconds: 2.0,
            added: counts().collect(),
            now: counts().collect(),
            signals: Some(7),
        }
    }

    #[test]
    fn counts_become_rates() {
        let change = change(&[("completions", 200), ("interrupts", 10)]);
        assert_eq!(change.rate("completions"), Some(100.0));
        assert_eq!(change.ratio("completions", "interrupts"), Some(20.0));
        assert_eq!(change.signal_rate(), Some(3.5));
    }

    #[test]
    fn a_missing_counter_has_no_rate() {
        let change = change(&[("kicks", 1)]);
        assert_eq!(change.rate("kicks"), Some(0.5));
        assert_eq!(change.rate("timer_fires"), None);
        assert_eq!(change.ratio("kicks", "timer_fires"), None);
        assert_eq!(change.value("timer_fires"), None);
    }

    #[test]
    fn no_interrupts_and_no_time_have_no_quotient() {
        let mut change = change(&[("completions", 4), ("interrupts", 0)]);
        assert_eq!(change.ratio("completions", "interrupts"), None);
        assert_eq!(change.rate("interrupts"), Some(0.0));
        change.seconds = 0.0;
        assert_eq!(
            (change.rate("completions"), change.signal_rate()),
            (None, None)
        );
    }

    #[test]
    fn queues_add_up_and_gauges_stay_where_they_agree() {
        let queue = |n, t| Change {
            now: [
                ("kicks", 5),
                ("coalesce_reqs_now", n),
                ("coalesce_usecs_now", t),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            ..change(&[("kicks", 1)])
        };
        let total = Change::sum([queue(8, 100), queue(8, 200), queue(8, 100)].iter());
        assert_eq!(total.added["kicks"], 3);
        assert_eq!(total.value("kicks"), Some(15.0));
        assert_eq!(total.value("coalesce_reqs_now"), Some(8.0));
        assert_eq!(total.value("coalesce_usecs_now"), None);
    }
}
