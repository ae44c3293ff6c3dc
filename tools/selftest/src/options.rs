// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line.

use crate::suite::Group;
use clap::Parser;
use vm::Driver;

/// Test the driver in guests.
#[derive(Debug, Parser)]
pub struct Options {
    /// Run only tests whose names have all of these words
    pub words: Vec<String>,

    /// Show the tests' names instead of running them
    #[arg(long)]
    pub list: bool,

    /// How many guests run at the same time
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: u8,

    /// Full sizes and numbers of cycles; takes about ten times as long
    #[arg(long)]
    pub long: bool,

    /// Test the kernel's own driver instead, to see whether a test asks for the right thing; those
    /// that look at what only ours has fail
    #[arg(long)]
    pub c_driver: bool,

    /// Keep the consoles of tests that passed, too
    #[arg(long)]
    pub keep_logs: bool,
}

impl Options {
    /// The driver under test.
    pub fn driver(&self) -> Driver {
        if self.c_driver {
            Driver::C
        } else {
            Driver::Rust
        }
    }

    /// Leaves what was asked for.
    pub fn select(&self, mut groups: Vec<Group>) -> Vec<Group> {
        for group in &mut groups {
            let group_name = group.name.clone();
            group.tests.retain(|test| {
                let name = format!("{group_name}/{}", test.name);
                self.words.iter().all(|word| name.contains(word.as_str()))
            });
        }
        groups.retain(|group| !group.tests.is_empty());
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn selected(words: &[&str]) -> usize {
        let options = Options::parse_from(["vbr-selftest"].iter().chain(words));
        let groups = options.select(crate::tests::all());
        groups.iter().map(|group| group.tests.len()).sum()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn words_narrow_the_choice() {
        assert!(selected(&[]) > selected(&["matrix/"]));
        assert_eq!(
            selected(&["matrix/", "ring=16"]) * 3,
            selected(&["matrix/"])
        );
        assert_eq!(selected(&["no such test"]), 0);
    }
}
