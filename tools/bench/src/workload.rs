// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What fio does: a file with a section a job.

use anyhow::{bail, Context, Result};
use serde::{Serialize, Serializer};
use std::fs;
use std::str::FromStr;

const CLASSIC: &str = include_str!("../../../samples/fio/classic.fio");
const QD1: &str = include_str!("../../../samples/fio/qd1.fio");

/// How a fio file refers to the disk under test.
const FILENAME: &str = "${FILENAME}";

/// A fio file and the sections of it that are run, each by itself.
#[derive(Debug, Clone)]
pub struct Workload {
    name: String,
    text: String,
    jobs: Vec<String>,
}

impl Workload {
    /// The content of the fio file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether threads and queue depth come from the options.
    pub fn takes_load(&self) -> bool {
        self.text.contains("${NUMJOBS}") && self.text.contains("${IODEPTH}")
    }

    /// The name or path that it was chosen by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sections to run.
    pub fn jobs(&self) -> &[String] {
        &self.jobs
    }

    fn from_text(name: &str, text: &str) -> Result<Self> {
        let jobs = sections(text);
        if jobs.is_empty() {
            bail!("The fio file {name} has no job. Add a section such as [rand-read].");
        }
        if !text.contains(FILENAME) {
            bail!(
                "The fio file {name} does not name the disk under test. Add the line \
                 filename={FILENAME} to its section [global]."
            );
        }
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            jobs,
        })
    }
}

impl FromStr for Workload {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let classic = Self::from_text("classic", CLASSIC)?;
        match name {
            "classic" => Ok(classic),
            "qd1" => Self::from_text(name, QD1),
            job if classic.jobs.iter().any(|known| known == job) => Ok(Self {
                name: job.to_owned(),
                jobs: vec![job.to_owned()],
                ..classic
            }),
            path => {
                let text = fs::read_to_string(path).with_context(|| {
                    format!(
                        "{path:?} is neither a workload nor a readable fio file. Choose classic, \
                         qd1, {} or the path of a fio file",
                        classic.jobs.join(", ")
                    )
                })?;
                Self::from_text(path, &text)
            }
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

/// Names of a fio file's sections, without those that only hold settings.
fn sections(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| {
        let name = line.trim().strip_prefix('[')?.split_once(']')?.0;
        (name != "global").then(|| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_file_has_the_four_jobs() {
        let workload: Workload = "classic".parse().unwrap();
        assert_eq!(
            workload.jobs(),
            ["seq-read", "seq-write", "rand-read", "rand-write"]
        );
    }

    #[test]
    fn one_job_can_be_chosen() {
        let workload: Workload = "rand-read".parse().unwrap();
        assert_eq!(workload.jobs(), ["rand-read"]);
    }

    #[test]
    fn a_file_that_tests_another_disk_is_refused() {
        let error = Workload::from_text("x", "[a]\nfilename=/dev/sda\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("filename=${FILENAME}"), "{error}");
        assert!(Workload::from_text("x", "[global]\nfilename=${FILENAME}\n").is_err());
        assert!("no/such/file".parse::<Workload>().is_err());
    }
}
