// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! blktests: its tests of a disk that is given to it.

use crate::suite::{Disks, Outcome, Status, Suite};
use regex::Regex;
use vm::Transport;

/// Seconds that a test may take, if it listens to that.
const TIMEOUT: u32 = 60;

/// blktests with the arguments of its `check`.
pub struct Blktests {
    pub tests: String,
}

impl Suite for Blktests {
    fn disks(&self) -> Disks {
        Disks {
            names: &["vda"],
            size: 1 << 30,
            // A test breaks the link to the disk, which takes a slot for hot-plugging.
            transport: Transport::PciExpress,
        }
    }

    fn script(&self) -> String {
        format!(
            "printf 'TEST_DEVS=(/dev/vda)\\nDEVICE_ONLY=1\\nTIMEOUT={TIMEOUT}\\n' >config
             ./check {}",
            self.tests
        )
    }

    /// A line a test, with the status at its end, and what there is to say below it.
    fn parse(&self, output: &str) -> Vec<Outcome> {
        let line = Regex::new(r"^(\w+/\d+)(?: => \w+)? .*\[(passed|failed|not run)\]$");
        let line = line.expect("the expression is valid");
        let mut outcomes: Vec<Outcome> = Vec::new();
        for text in output.lines() {
            if let Some(found) = line.captures(text) {
                outcomes.push(Outcome {
                    test: found[1].to_owned(),
                    status: match &found[2] {
                        "passed" => Status::Passed,
                        "failed" => Status::Failed,
                        _ => Status::NotRun,
                    },
                    words: String::new(),
                });
            } else if let (Some(last), Some(words)) =
                (outcomes.last_mut(), text.strip_prefix("    "))
            {
                if last.status != Status::Passed {
                    last.words = format!("{} {}", last.words, words.trim()).trim().to_owned();
                }
            }
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read() {
        let output = "block/003 => vda (run various discard sizes)                
    runtime    ...
block/003 => vda (run various discard sizes)                 [passed]
    runtime    ...  2.513s
block/007 => vda (test classic and hybrid IO polling)        [not run]
    /dev/vda does not support polling
block/011 => vda (disable PCI device while doing I/O)        [failed]
    runtime    ...  9s
    --- tests/block/011.out
";
        let outcomes = Blktests {
            tests: String::new(),
        }
        .parse(output);
        let right = [
            ("block/003", Status::Passed, ""),
            (
                "block/007",
                Status::NotRun,
                "/dev/vda does not support polling",
            ),
            (
                "block/011",
                Status::Failed,
                "runtime    ...  9s --- tests/block/011.out",
            ),
        ];
        let right = right.map(|(test, status, words)| Outcome {
            test: test.to_owned(),
            status,
            words: words.to_owned(),
        });
        assert_eq!(outcomes, right);
    }
}
