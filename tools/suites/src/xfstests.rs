// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! xfstests: a file system on two disks, and a log of the writes to one on a third.

use crate::suite::{Disks, Outcome, Status, Suite};
use clap::ValueEnum;
use regex::Regex;
use vm::Transport;

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
}

impl FileSystem {
    /// Its name, as mount(8) knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// xfstests with the arguments of its `check`.
pub struct Xfstests {
    pub tests: String,
    pub fs: FileSystem,
}

impl Suite for Xfstests {
    fn disks(&self) -> Disks {
        Disks {
            names: &["vda", "vdb", "vdc"],
            size: 5 << 30,
            transport: Transport::Pci,
        }
    }

    fn script(&self) -> String {
        let fs = self.fs.name();
        format!(
            "for user in fsgqa fsgqa2 123456-fsgqa; do
                 echo \"$user:x:$((1000 + ++n)):100::/tmp:/bin/bash\" >>/etc/passwd
             done
             echo 'fsgqa:x:1001:' >>/etc/group
             mkdir -p /run/test /run/scratch
             cat >local.config <<'EOF'
export FSTYP={fs}
export TEST_DEV=/dev/vda
export TEST_DIR=/run/test
export SCRATCH_DEV=/dev/vdb
export SCRATCH_MNT=/run/scratch
export LOGWRITES_DEV=/dev/vdc
EOF
             mkfs.{fs} -q /dev/vda && ./check {}",
            self.tests
        )
    }

    /// A line a test: its name, how long it took the last time and now, or what was wrong.
    fn parse(&self, output: &str) -> Vec<Outcome> {
        let line = Regex::new(r"^(\w+/\d+)\s+(?:\d+s \.\.\.)?\s*(.*)$");
        let line = line.expect("the expression is valid");
        let took = Regex::new(r"^\d+s$").expect("the expression is valid");
        let found = output.lines().filter_map(|text| line.captures(text));
        found
            .filter(|found| !found[2].is_empty() && !found[2].starts_with("[expunged]"))
            .map(|found| {
                let words = found[2].trim();
                let status = match words.strip_prefix("[not run]") {
                    Some(_) => Status::NotRun,
                    None if took.is_match(words) => Status::Passed,
                    None => Status::Failed,
                };
                Outcome {
                    test: found[1].to_owned(),
                    status,
                    words: match status {
                        Status::Passed => String::new(),
                        _ => words.trim_start_matches("[not run]").trim().to_owned(),
                    },
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read() {
        let output = "FSTYP         -- ext4
generic/001 14s ...  13s
generic/002        1s
generic/003       [not run] atime related mount options have no effect on this file system
generic/004 2s ... [failed, exit status 1]- output mismatch (see results/generic/004.out.bad)
generic/005
Ran: generic/001 generic/002
";
        let suite = Xfstests {
            tests: String::new(),
            fs: FileSystem::Ext4,
        };
        let outcomes = suite.parse(output);
        let short: Vec<_> = outcomes
            .iter()
            .map(|outcome| (outcome.test.as_str(), outcome.status))
            .collect();
        let right = [
            ("generic/001", Status::Passed),
            ("generic/002", Status::Passed),
            ("generic/003", Status::NotRun),
            ("generic/004", Status::Failed),
        ];
        assert_eq!(short, right);
        assert_eq!(
            outcomes[2].words,
            "atime related mount options have no effect on this file system"
        );
        assert!(outcomes[3].words.starts_with("[failed"));
    }
}
