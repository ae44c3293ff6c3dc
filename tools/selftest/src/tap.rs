// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Results in the form of the Test Anything Protocol, version 14.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How a test ended.
pub struct Outcome {
    pub name: String,
    pub took: Duration,
    pub failure: Option<Failure>,
}

/// Why a test failed.
pub struct Failure {
    pub reason: String,
    /// The log of the last guest's console, and its end.
    pub console: Option<(PathBuf, String)>,
}

/// Writes results, and counts them.
#[derive(Default)]
pub struct Report {
    passed: usize,
    failed: usize,
}

impl Report {
    /// The head, for `count` tests.
    pub fn head(count: usize) -> String {
        format!("TAP version 14\n1..{count}")
    }

    /// The lines of one result. Tests are numbered in the order in which they end.
    pub fn add(&mut self, outcome: &Outcome) -> String {
        match outcome.failure {
            None => self.passed += 1,
            Some(_) => self.failed += 1,
        }
        let number = self.passed + self.failed;
        let (name, seconds) = (&outcome.name, outcome.took.as_secs_f64());
        match &outcome.failure {
            None => format!("ok {number} - {name} ({seconds:.1} s)"),
            Some(failure) => format!("not ok {number} - {name} ({seconds:.1} s)\n{failure}"),
        }
    }

    /// The closing line.
    pub fn sum(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }

    /// Whether there was nothing but success.
    pub fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!("  ---\n  reason: |\n{}", block(&self.reason));
        if let Some((log, tail)) = &self.console {
            write!(
                text,
                "  log: {}\n  console: |\n{}",
                log.display(),
                block(tail)
            )?;
        }
        write!(f, "{text}  ...")
    }
}

/// A block of YAML. Control characters, of which a console is full, would break it.
fn block(text: &str) -> String {
    text.lines().fold(String::new(), |mut block, line| {
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(block, "    {line}");
        block
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failure: Option<&str>) -> Outcome {
        Outcome {
            name: "group/test".into(),
            took: Duration::from_millis(1250),
            failure: failure.map(|reason| Failure {
                reason: reason.into(),
                console: Some(("x.log".into(), "[ 0.1] a\u{1b}b".into())),
            }),
        }
    }

    #[test]
    fn results_are_numbered_and_counted() {
        let mut report = Report::default();
        assert!(!report.is_good());
        assert_eq!(report.add(&outcome(None)), "ok 1 - group/test (1.2 s)");
        assert!(report.is_good());
        let text = report.add(&outcome(Some("one\ntwo")));
        assert_eq!(
            text,
            "not ok 2 - group/test (1.2 s)\n  ---\n  reason: |\n    one\n    two\n  log: x.log\n  \
             console: |\n    [ 0.1] ab\n  ..."
        );
        assert_eq!(report.sum(), "1 passed, 1 failed");
        assert!(!report.is_good());
    }
}
