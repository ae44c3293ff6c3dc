// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The format of the driver's files: a name and its value a line, or its values for a histogram.

use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;

/// The content of `/sys/kernel/debug/virtio_blk_rs/<disk>/queue<N>`, whatever counters it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueFile {
    lines: BTreeMap<String, Vec<u64>>,
}

impl QueueFile {
    /// Parses the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers = words.map(|word| {
                word.parse()
                    .with_context(|| format!("{name} is {word:?}, which is no count"))
            });
            let numbers = numbers.collect::<Result<Vec<_>>>()?;
            ensure!(!numbers.is_empty(), "the line {line:?} has no count");
            Ok((name.to_owned(), numbers))
        };
        Ok(Self {
            lines: text.lines().map(line).collect::<Result<_>>()?,
        })
    }

    /// The counter called `name`, if the driver has it.
    pub fn value(&self, name: &str) -> Option<u64> {
        match self.lines.get(name)?.as_slice() {
            [value] => Some(*value),
            _ => None,
        }
    }

    /// The histogram called `name`, if the driver has it.
    pub fn histogram(&self, name: &str) -> Option<&[u64]> {
        self.lines.get(name).map(Vec::as_slice)
    }

    /// All counters, by their names.
    pub fn values(&self) -> impl Iterator<Item = (&str, u64)> {
        let lines = self.lines.iter();
        lines.filter_map(|(name, numbers)| match numbers.as_slice() {
            [value] => Some((name.as_str(), *value)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_from_histograms() {
        let file = QueueFile::parse("kicks 40\nhist_ns 1 2 3\npolls 0\n").unwrap();
        assert_eq!(file.value("kicks"), Some(40));
        assert_eq!(file.value("hist_ns"), None);
        assert_eq!(file.value("kick"), None);
        assert_eq!(file.histogram("hist_ns"), Some(&[1, 2, 3][..]));
        let values: Vec<_> = file.values().collect();
        assert_eq!(values, [("kicks", 40), ("polls", 0)]);
    }

    #[test]
    fn what_is_no_count_is_named() {
        for (text, word) in [
            ("kicks 4x\n", "4x"),
            ("kicks\n", "kicks"),
            ("kicks -1\n", "-1"),
        ] {
            let message = QueueFile::parse(text).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        let largest = QueueFile::parse("kicks 18446744073709551615\n").unwrap();
        assert_eq!(largest.value("kicks"), Some(u64::MAX));
    }
}
