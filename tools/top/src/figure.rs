// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The figures that are shown.

use crate::change::Change;

/// A figure.
pub struct Figure {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its heading in tables.
    pub heading: &'static str,
    /// Digits after the point in tables.
    pub decimals: usize,
    /// Where there is little room, figures of high numbers go first.
    pub rank: u8,
    of: fn(&Change) -> Option<f64>,
}

/// All figures, from left to right.
pub const FIGURES: [Figure; 13] = [
    // Requests that the device has completed.
    figure("iops", "IOPS", 0, 0, |c| c.rate("completions")),
    // Interrupts that reached the handler: the virtio core drops those that find the ring empty.
    figure("interrupts_per_s", "irq/s", 0, 1, |c| c.rate("interrupts")),
    // All that the kernel has counted, those that come while the handler runs among them.
    figure("signals_per_s", "signal/s", 0, 6, Change::signal_rate),
    // Also counts what timers and polls completed: it says how many an interrupt was spared for.
    figure("completions_per_interrupt", "I/O/irq", 2, 2, |c| {
        c.ratio("completions", "interrupts")
    }),
    figure("timer_passes_per_s", "timer/s", 0, 5, |c| {
        c.rate("timer_fires")
    }),
    // Passes after a spent budget, those of poll queues, and the like.
    figure("polls_per_s", "poll/s", 0, 12, |c| c.rate("polls")),
    figure("immediate_bypasses_per_s", "immed/s", 0, 11, |c| {
        c.rate("immediate_bypasses")
    }),
    figure("kicks_per_s", "kick/s", 0, 7, |c| c.rate("kicks")),
    figure("suppressed_kicks_per_s", "nokick/s", 0, 9, |c| {
        c.rate("suppressed_kicks")
    }),
    figure("coalesce_reqs_now", "N", 0, 3, |c| {
        c.value("coalesce_reqs_now")
    }),
    figure("coalesce_usecs_now", "T(us)", 0, 4, |c| {
        c.value("coalesce_usecs_now")
    }),
    figure("lock_contended_per_s", "contend/s", 0, 10, |c| {
        c.rate("lock_contended")
    }),
    // Since the disk appeared; it should stay 0.
    figure("missed_interrupts", "missed", 0, 8, |c| {
        c.value("missed_interrupts")
    }),
];

const fn figure(
    name: &'static str,
    heading: &'static str,
    decimals: usize,
    rank: u8,
    of: fn(&Change) -> Option<f64>,
) -> Figure {
    Figure {
        name,
        heading,
        decimals,
        rank,
        of,
    }
}

impl Figure {
    /// The figure of a queue; [`None`] if there is nothing to compute it from.
    pub fn of(&self, change: &Change) -> Option<f64> {
        (self.of)(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranks_and_names_are_unique() {
        let ranks: BTreeSet<_> = FIGURES.iter().map(|figure| figure.rank).collect();
        let names: BTreeSet<_> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(ranks.len(), FIGURES.len());
        assert_eq!(names.len(), FIGURES.len());
    }

    #[test]
    fn each_figure_has_its_counter() {
        let counters = [
            "completions",
            "interrupts",
            "timer_fires",
            "polls",
            "immediate_bypasses",
            "kicks",
            "suppressed_kicks",
            "coalesce_reqs_now",
            "coalesce_usecs_now",
            "lock_contended",
            "missed_interrupts",
        ];
        // A different number for each, so that no two can be taken for each other.
        let numbered = || {
            (1..)
                .zip(counters)
                .map(|(n, name)| (name.to_owned(), n * 10))
        };
        let change = Change {
            seconds: 10.0,
            added: numbered().collect(),
            now: numbered().collect(),
            signals: Some(15),
        };
        let figures: Vec<_> = FIGURES
            .iter()
            .map(|figure| figure.of(&change).unwrap())
            .collect();
        let right = [
            1.0, 2.0, 1.5, 0.5, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0, 90.0, 10.0, 110.0,
        ];
        assert_eq!(figures, right);
    }
}
