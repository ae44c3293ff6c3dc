// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What happened between two snapshots.

use crate::change::{Change, GAUGES};
use crate::snapshot::{Disk, Snapshot};
use counters::{Interrupts, QueueFile};
use std::time::SystemTime;

/// What all disks did in one interval.
#[derive(Debug)]
pub struct Report {
    /// When it ended.
    pub time: SystemTime,
    /// Its length.
    pub seconds: f64,
    /// The disks in the order of their names.
    pub disks: Vec<DiskReport>,
}

/// What a disk did in one interval.
#[derive(Debug)]
pub struct DiskReport {
    /// The disk, such as `vda`.
    pub name: String,
    /// All queues together.
    pub total: Change,
    /// The queues by their numbers.
    pub queues: Vec<(u32, Change)>,
}

impl Report {
    /// What happened between two snapshots. A disk or a queue that the earlier one does not have
    /// began at 0; one that the later one does not have is left out.
    pub fn between(earlier: &Snapshot, later: &Snapshot) -> Self {
        let seconds = later.at.saturating_duration_since(earlier.at).as_secs_f64();
        let mut disks: Vec<_> = later
            .disks
            .iter()
            .map(|(name, disk)| {
                let before = earlier.disks.get(name);
                let before = before.filter(|before| before.generation == disk.generation);
                DiskReport::between(name, before, disk, seconds)
            })
            .collect();
        // The kernel's order: vdz comes before vdaa.
        disks.sort_by(|one, other| {
            let key = |disk: &DiskReport| (disk.name.len(), disk.name.clone());
            key(one).cmp(&key(other))
        });
        Self {
            time: later.time,
            seconds,
            disks,
        }
    }
}

impl DiskReport {
    fn between(name: &str, earlier: Option<&Disk>, later: &Disk, seconds: f64) -> Self {
        let signals = |of: &dyn Fn(&Interrupts) -> Option<u64>| {
            // The kernel adds up numbers of 32 bits, which wrap.
            let added = of(&later.interrupts)?.wrapping_sub(of(&earlier?.interrupts)?);
            Some(added & u64::from(u32::MAX))
        };
        let queue = |(number, queue): (&u32, &QueueFile)| {
            let mut change = Change {
                seconds,
                signals: signals(&|interrupts| of_queue(interrupts, *number)),
                ..Change::default()
            };
            let before = earlier.and_then(|disk| disk.queues.get(number));
            for (name, value) in queue.values() {
                change.now.insert(name.to_owned(), value);
                if !GAUGES.contains(&name) {
                    let before = before.and_then(|file| file.value(name));
                    let added = value.wrapping_sub(before.unwrap_or_default());
                    change.added.insert(name.to_owned(), added);
                }
            }
            (*number, change)
        };
        let queues: Vec<_> = later.queues.iter().map(queue).collect();
        let mut total = Change::sum(queues.iter().map(|(_, change)| change));
        total.seconds = seconds;
        total.signals = signals(&|interrupts| Some(interrupts.requests()));
        Self {
            name: name.to_owned(),
            total,
            queues,
        }
    }
}

/// The interrupts of one queue, which has a line of its own if it has a vector of its own.
fn of_queue(interrupts: &Interrupts, number: u32) -> Option<u64> {
    let mut lines = interrupts.lines().iter();
    let own = lines.find(|(line, _)| {
        let queue = line.split_once('-').map(|(_, queue)| queue);
        queue.and_then(|queue| queue.strip_prefix("req.")) == Some(&number.to_string())
    });
    own.map(|(_, count)| *count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const INTERRUPTS: &str = "   CPU0\n\
        25:  100  PCI-MSIX-0000:00:02.0  1-edge  virtio7-req.0\n\
        26:   30  PCI-MSIX-0000:00:02.0  2-edge  virtio7-req.1\n\
        27:    9  PCI-MSIX-0000:00:02.0  0-edge  virtio7-config\n";

    fn disk(generation: u64, queues: &[&str], interrupts: &str) -> Disk {
        let parse = |text: &&str| QueueFile::parse(text).unwrap();
        Disk {
            generation,
            queues: (0..).zip(queues.iter().map(parse)).collect(),
            interrupts: Interrupts::parse(interrupts, "virtio7"),
        }
    }

    fn between(earlier: &[(&str, Disk)], later: &[(&str, Disk)], millis: u64) -> Report {
        let snapshot = |at, disks: &[(&str, Disk)]| Snapshot {
            at,
            time: SystemTime::UNIX_EPOCH,
            disks: disks
                .iter()
                .map(|(name, disk)| ((*name).to_owned(), disk.clone()))
                .collect(),
        };
        let start = Instant::now();
        let end = start + Duration::from_millis(millis);
        Report::between(&snapshot(start, earlier), &snapshot(end, later))
    }

    /// The first disk's total after `earlier` became `later` within two seconds.
    fn total(earlier: Disk, later: Disk) -> Change {
        let report = between(&[("vda", earlier)], &[("vda", later)], 2000);
        report.disks[0].total.clone()
    }

    #[test]
    fn counts_grow_and_other_values_stand() {
        let before = disk(1, &["kicks 100\nlargest_batch 9\n"], INTERRUPTS);
        let after = disk(1, &["kicks 300\nlargest_batch 9\n"], INTERRUPTS);
        let change = total(before, after);
        assert_eq!(
            (change.seconds, change.added["kicks"], change.now["kicks"]),
            (2.0, 200, 300)
        );
        assert_eq!(
            (
                change.added.get("largest_batch"),
                change.now["largest_batch"]
            ),
            (None, 9)
        );
    }

    #[test]
    fn counters_wrap() {
        let before = disk(
            1,
            &["kicks 18446744073709551615\n"],
            &INTERRUPTS.replace("100", "4294967295"),
        );
        let after = disk(1, &["kicks 2\n"], &INTERRUPTS.replace("100", "4"));
        let report = between(&[("vda", before)], &[("vda", after)], 1000);
        let (_, queue) = &report.disks[0].queues[0];
        assert_eq!(queue.added["kicks"], 3);
        assert_eq!(queue.signals, Some(5));
        assert_eq!(report.disks[0].total.signals, Some(5));
    }

    #[test]
    fn a_disk_that_is_bound_anew_began_at_zero() {
        let before = disk(1, &["kicks 100\n"], INTERRUPTS);
        let after = disk(2, &["kicks 7\n"], INTERRUPTS);
        let change = total(before, after);
        assert_eq!((change.added["kicks"], change.signals), (7, None));
        let report = between(&[], &[("vda", disk(1, &["kicks 7\n"], ""))], 1000);
        assert_eq!(report.disks[0].total.added["kicks"], 7);
    }

    #[test]
    fn queues_come_and_go() {
        let two = disk(1, &["kicks 1\n", "kicks 2\n"], INTERRUPTS);
        let one = disk(1, &["kicks 4\n"], INTERRUPTS);
        let report = between(&[("vda", two.clone())], &[("vda", one.clone())], 1000);
        assert_eq!(report.disks[0].queues.len(), 1);
        assert_eq!(report.disks[0].total.added["kicks"], 3);
        let report = between(&[("vda", one)], &[("vda", two.clone())], 1000);
        assert_eq!(report.disks[0].queues[1].1.added["kicks"], 2);
        assert!(between(&[("vda", two)], &[], 1000).disks.is_empty());
    }

    #[test]
    fn each_queue_has_its_own_line_of_interrupts() {
        let queues = ["kicks 1\n", "kicks 1\n", "kicks 1\n"];
        let later = INTERRUPTS.replace(" 30 ", " 40 ").replace("  9 ", " 99 ");
        let report = between(
            &[("vda", disk(1, &queues, INTERRUPTS))],
            &[("vda", disk(1, &queues, &later))],
            1000,
        );
        let signals = report.disks[0]
            .queues
            .iter()
            .map(|(_, change)| change.signals);
        assert_eq!(signals.collect::<Vec<_>>(), [Some(0), Some(10), None]);
        assert_eq!(report.disks[0].total.signals, Some(10));
    }

    #[test]
    fn disks_are_in_the_kernels_order() {
        let disks = ["vda", "vdaa", "vdz"].map(|name| (name, disk(1, &[], "")));
        let names = between(&[], &disks, 1000)
            .disks
            .into_iter()
            .map(|disk| disk.name);
        assert_eq!(names.collect::<Vec<_>>(), ["vda", "vdz", "vdaa"]);
    }
}
