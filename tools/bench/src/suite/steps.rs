// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How the adaptive mode follows a load that changes from one request in flight to 128 and back.
//!
//! One fio process has two jobs: one with a single request in flight all the time, and one with
//! 127 more that starts later and ends earlier. Their logs have the time of the guest's monotonic
//! clock, which the driver's history of changes has too. On a device that ends requests at once,
//! few of the 128 are in flight at any time: fio submits and collects one after the other.

use crate::suite::guest::Guest;
use crate::suite::job::{Pace, Wait};
use anyhow::{ensure, Context, Result};
use measuring::{median, Progress};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vm::Driver;

/// Seconds with one request in flight, before and after, and seconds with 128.
const LOW: f64 = 1.5;
const HIGH: f64 = 2.0;

/// Width of a window in which completions are counted, in ms.
const WINDOW: f64 = 20.0;

/// How long before the first completion of a job its requests may have been in flight, in ms.
const LATE: f64 = 5.0;

/// The pace of a paced disk. It is slow enough for the requests to be in flight most of the time.
const PACE: Pace = Pace {
    us: 100,
    wait: Wait::Sleep,
};

/// How long the whole run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Part of the rest of a phase that a settled value stays near where it ends.
const STEADY: f64 = 0.9;

/// One load step up and one down. Times are in ms since the step up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    /// The setting's name.
    pub setting: String,
    /// When the load went down again.
    pub down_ms: f64,
    /// When everything ended.
    pub end_ms: f64,
    /// How long after the step up N and T were for the first time where they settled, or stayed
    /// around.
    pub reach_up_ms: f64,
    /// How long after the step up they had settled.
    pub settle_up_ms: f64,
    /// As `reach_up_ms`, after the step down.
    pub reach_down_ms: f64,
    /// As `settle_up_ms`, after the step down.
    pub settle_down_ms: f64,
    /// All changes, the first one being what held before the step.
    pub changes: Vec<Change>,
    /// Time and requests a second, all together, in windows of 20 ms.
    pub iops: Vec<(f64, f64)>,
}

/// What held from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When, in ms.
    pub ms: f64,
    /// Requests in flight.
    pub depth: f64,
    /// N: completions that end the wait.
    pub reqs: f64,
    /// T: longest wait in µs.
    pub usecs: f64,
}

/// Does the steps with each setting of ours in each of `rounds`.
pub fn measure(guest: &mut Guest<'_>, rounds: u32, progress: &mut Progress) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for _ in 0..rounds {
        for (index, setting) in guest.settings().into_iter().enumerate() {
            progress.doing(&format!("load steps, {}", setting.label));
            ensure!(
                setting.driver == Driver::Rust.name(),
                "the setting {} is not ours: only our driver has a history",
                setting.name
            );
            let name = guest.select(0, index)?;
            guest.set_pace(PACE)?;
            let output = guest.vm().sh_for(LIMIT, &script(&name))?;
            let step = parse(&setting.name, &output)
                .with_context(|| format!("in the load steps with {}", setting.label))?;
            steps.push(step);
            progress.done();
        }
    }
    Ok(steps)
}

fn script(disk: &str) -> String {
    let folder = format!("/sys/kernel/debug/{}/{disk}", Driver::Rust);
    let log = |name: &str| format!("--write_iops_log=/run/steps-{name}");
    format!(
        "set -e; rm -f /run/steps-*; \
         test -e {folder}/queue0_history || {{ \
         echo 'the driver has no queue0_history in debugfs' >&2; exit 1; }}; \
         awk '/^coalesce_depth / {{ depth = $2 }} /^coalesce_reqs_now / {{ reqs = $2 }} \
         /^coalesce_usecs_now / {{ usecs = $2 }} \
         END {{ print 0, depth + 0, reqs + 0, usecs + 0 }}' {folder}/queue0 > /run/steps-history; \
         (while sleep 0.1; do cat {folder}/queue0_history; done) >> /run/steps-history & \
         sampler=$!; \
         fio --filename=/dev/{disk} --rw=randread --bs=4k --direct=1 --ioengine=libaio --thread \
         --time_based --norandommap --random_generator=lfsr \
         --log_alternate_epoch=1 --log_alternate_epoch_clock_id=1 --output=/run/steps-fio \
         --name=low --iodepth=1 --runtime={} {} \
         --name=high --iodepth=127 --startdelay={LOW} --runtime={HIGH} {} || {{ \
         kill $sampler; cat /run/steps-fio >&2; exit 1; }}; \
         kill $sampler; \
         for name in low high; do log=$(echo /run/steps-${{name}}_iops.*.log); \
         echo \"=== $name\"; sed -n '1p;$p' $log | cut -d , -f 1 | xargs echo; \
         awk -F , '{{ windows[int($1 / {WINDOW})]++ }} END {{ for (k in windows) \
         print k * {WINDOW}, windows[k] * 1000 / {WINDOW} }}' $log | sort -n; done; \
         echo '=== history'; cat /run/steps-history {folder}/queue0_history\n",
        2.0 * LOW + HIGH,
        log("low"),
        log("high"),
    )
}

/// From the logs, in ms, and the history, in ns.
fn parse(setting: &str, output: &str) -> Result<Step> {
    let part = |name: &str| {
        let parts = output.split("=== ").skip(1);
        parts
            .filter_map(|part| part.split_once('\n'))
            .find_map(|(heading, text)| (heading == name).then_some(text))
            .with_context(|| format!("the guest did not report {name}"))
    };
    let (low, high) = (Log::parse(part("low")?)?, Log::parse(part("high")?)?);
    let start = high.first - LATE;
    let (down, end) = (high.last - start, low.last - start);
    let changes = history(part("history")?, start)?;
    let iops = low.windows.iter().map(|(time, iops)| {
        let same = high.windows.iter().find(|(other, _)| other == time);
        (time - start, iops + same.map_or(0.0, |(_, iops)| *iops))
    });
    let (up, back) = (settled(&changes, 0.0, down), settled(&changes, down, end));
    Ok(Step {
        setting: setting.to_owned(),
        reach_up_ms: up.reached,
        settle_up_ms: up.settled,
        reach_down_ms: back.reached,
        settle_down_ms: back.settled,
        down_ms: down,
        end_ms: end,
        iops: iops.collect(),
        changes,
    })
}

/// When a job's requests ended, in ms.
struct Log {
    first: f64,
    last: f64,
    /// Begin of each window, and IOPS in it.
    windows: Vec<(f64, f64)>,
}

impl Log {
    /// Lines of two numbers: first the times of the first and the last completion, then begin and
    /// IOPS of each window.
    fn parse(text: &str) -> Result<Self> {
        let pair = |line: &str| {
            let words = line.split_whitespace().map(str::parse::<f64>);
            match words.collect::<Result<Vec<_>, _>>().as_deref() {
                Ok([one, two]) => Ok((*one, *two)),
                _ => anyhow::bail!("{line:?} is not two numbers of fio's log"),
            }
        };
        let mut pairs = text
            .lines()
            .map(pair)
            .collect::<Result<Vec<_>>>()?
            .into_iter();
        let (first, last) = pairs.next().context("a job of fio has logged nothing")?;
        Ok(Self {
            first,
            last,
            windows: pairs.collect(),
        })
    }
}

/// Lines of `time in ns, depth, N, T`, some of them several times; in order, and without those of
/// earlier runs but the last.
fn history(text: &str, start: f64) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for line in text.lines() {
        let words = line.split_whitespace().map(str::parse::<f64>);
        let numbers = words.collect::<Result<Vec<_>, _>>();
        let Ok([ns, depth, reqs, usecs]) = numbers.as_deref() else {
            anyhow::bail!("{line:?} is no line of the history: time, depth, reqs, usecs");
        };
        changes.push(Change {
            ms: ns / 1e6 - start,
            depth: *depth,
            reqs: *reqs,
            usecs: *usecs,
        });
    }
    changes.sort_by(|a, b| a.ms.total_cmp(&b.ms));
    changes.dedup();
    let before = changes.iter().filter(|c| c.ms < -LOW * 1e3).count();
    changes.drain(..before.saturating_sub(1));
    Ok(changes)
}

/// How long it took, in ms.
#[derive(Debug, PartialEq)]
struct Settling {
    /// Until N and T were near to where they settled, or stayed around.
    reached: f64,
    /// Until they stayed there.
    settled: f64,
}

/// How long after `from` both N and T have come near to their medians in the second half of the
/// phase, and after which time they stay there for nearly all of what is left of it.
fn settled(changes: &[Change], from: f64, to: f64) -> Settling {
    // Each piece: from when to when which values held.
    let piece = |(index, change): (usize, &Change)| {
        let end = changes.get(index + 1).map_or(to, |next| next.ms.min(to));
        (change.ms.max(from), end, *change)
    };
    let pieces = changes.iter().enumerate().map(piece);
    let pieces: Vec<_> = pieces.filter(|(start, end, _)| start < end).collect();
    let middle = (from + to) / 2.0;
    let usual = |of: fn(&Change) -> f64| {
        // Weighted by time: a value a millisecond.
        let late = pieces.iter().filter(|(_, end, _)| *end > middle);
        let values = late.flat_map(|(start, end, change)| {
            std::iter::repeat_n(of(change), (end - start.max(middle)).ceil() as usize)
        });
        median(&values.collect::<Vec<_>>())
    };
    let (reqs, usecs) = (usual(|c| c.reqs), usual(|c| c.usecs));
    let near = |value: f64, usual: f64| (value - usual).abs() <= (usual / 2.0).max(1.0);
    let steady =
        |(_, _, change): &(f64, f64, Change)| near(change.reqs, reqs) && near(change.usecs, usecs);
    let lasts = |index: usize| {
        let rest = pieces[index..].iter().filter(|piece| steady(piece));
        let time: f64 = rest.map(|(start, end, _)| end - start).sum();
        time >= STEADY * (to - pieces[index].0)
    };
    let mut near = (0..pieces.len())
        .filter(|index| steady(&pieces[*index]))
        .peekable();
    let after = |index: usize| pieces[index].0 - from;
    // Without any change it was right from the start.
    let never = if pieces.is_empty() { 0.0 } else { to - from };
    Settling {
        reached: near.peek().map_or(never, |first| after(*first)),
        settled: near.find(|index| lasts(*index)).map_or(never, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(ms: f64, reqs: f64) -> Change {
        Change {
            ms,
            depth: 0.0,
            reqs,
            usecs: 50.0,
        }
    }

    #[test]
    fn settling_ends_with_the_last_lasting_change() {
        let changes = [
            change(-500.0, 0.0),
            change(12.0, 8.0),
            change(40.0, 32.0),
            change(900.0, 8.0),
            change(905.0, 32.0),
        ];
        let time = |changes: &[Change]| settled(changes, 0.0, 2000.0);
        assert_eq!(
            (time(&changes).reached, time(&changes).settled),
            (40.0, 40.0)
        );
        assert_eq!(time(&changes[..1]).settled, 0.0);
        let restless =
            (0..20).map(|k| change(f64::from(k) * 100.0, f64::from((k % 3).min(1)) * 32.0));
        let restless = time(&restless.collect::<Vec<_>>());
        assert!(restless.settled > 1000.0 && restless.reached < 200.0);
        assert_eq!(time(&[]).settled, 0.0);
    }

    #[test]
    fn logs_and_history_share_a_clock() {
        let output = "noise\n=== low\n8500 13500\n9980 700\n10000 600\n12020 50\n\
                      === high\n10005 12025\n10000 40000\n12020 41000\n=== history\n0 0 0 20\n\
                      7000000000 1 0 0\n9000000000 1 0 50\n10030000000 128 32 500\n\
                      10030000000 128 32 500\n12050000000 1 0 50\n";
        let step = parse("adaptive", output).unwrap();
        assert_eq!((step.down_ms, step.end_ms), (2025.0, 3500.0));
        assert_eq!((step.settle_up_ms, step.settle_down_ms), (30.0, 25.0));
        assert_eq!(step.changes.len(), 4);
        assert_eq!(step.iops[1], (0.0, 40600.0));
    }

    #[test]
    fn nonsense_is_named() {
        for (from, to) in [("12020 41000", "x"), ("9000000000 1 0 50", "1 2 3")] {
            let text = "=== low\n1 1\n=== high\n12020 41000\n=== history\n9000000000 1 0 50\n";
            let message = format!("{:#}", parse("a", &text.replace(from, to)).unwrap_err());
            assert!(message.contains(to), "{message}");
        }
    }
}
