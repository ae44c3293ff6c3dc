// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What fio does in a scenario.

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use vm::Policy;

/// Kinds of I/O that fio knows.
const KINDS: [&str; 6] = ["read", "write", "randread", "randwrite", "rw", "randrw"];

/// One or several jobs: each list is gone through with each of the others.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobText {
    rw: OneOrMany<String>,
    #[serde(default)]
    threads: OneOrMany<u32>,
    #[serde(default)]
    iodepth: OneOrMany<u32>,
    #[serde(default)]
    pace: Vec<u32>,
    #[serde(default)]
    wait: Vec<Wait>,
    #[serde(default = "libaio")]
    engine: String,
    #[serde(default)]
    options: Vec<String>,
}

fn libaio() -> String {
    "libaio".to_owned()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl Default for OneOrMany<u32> {
    fn default() -> Self {
        Self::One(1)
    }
}

impl<T: Clone> OneOrMany<T> {
    fn list(&self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one.clone()],
            Self::Many(many) => many.clone(),
        }
    }
}

/// How the paced device waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It sleeps, and leaves its processor to others.
    Sleep,
    /// It spins.
    Spin,
}

/// How the paced device ends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Pace {
    /// Time from one completion to the next, in microseconds.
    pub us: u32,
    /// How that time passes.
    pub wait: Wait,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Job {
    /// Kind of I/O.
    pub rw: String,
    /// Threads.
    pub threads: u32,
    /// Requests that each thread keeps in flight.
    pub iodepth: u32,
    /// What the device does, if it is one that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// fio's way to do I/O.
    pub engine: String,
    /// Further options.
    pub options: Vec<String>,
}

impl Pace {
    /// What the device is told.
    pub fn policy(self) -> Policy {
        Policy {
            pace_us: self.us.into(),
            wait: match self.wait {
                Wait::Sleep => vm::Wait::Sleep,
                Wait::Spin => vm::Wait::Spin,
            },
            ..Policy::default()
        }
    }
}

impl JobText {
    /// All of them.
    pub fn jobs(&self) -> Vec<Job> {
        let paces = self.pace.iter().flat_map(|us| {
            let waits = self.wait.iter();
            waits.map(|wait| {
                Some(Pace {
                    us: *us,
                    wait: *wait,
                })
            })
        });
        let mut paces: Vec<Option<Pace>> = paces.collect();
        if paces.is_empty() {
            paces.push(None);
        }
        let mut jobs = Vec::new();
        for rw in self.rw.list() {
            for threads in self.threads.list() {
                for iodepth in self.iodepth.list() {
                    jobs.extend(paces.iter().map(|pace| Job {
                        rw: rw.clone(),
                        threads,
                        iodepth,
                        pace: *pace,
                        engine: self.engine.clone(),
                        options: self.options.clone(),
                    }));
                }
            }
        }
        jobs
    }
}

impl Job {
    /// Checks what fio would refuse without naming a remedy.
    pub fn check(&self) -> Result<()> {
        if !KINDS.contains(&self.rw.as_str()) {
            bail!(
                "rw = {:?} is unknown; choose from {}",
                self.rw,
                KINDS.join(", ")
            );
        }
        for (name, value, most) in [
            ("threads", self.threads, 256),
            ("iodepth", self.iodepth, 4096),
        ] {
            if !(1..=most).contains(&value) {
                bail!("{name} = {value} is out of range; choose 1 to {most}");
            }
        }
        Ok(())
    }

    /// fio's command line for a run on `disk`, such as `vda`.
    pub fn command(&self, disk: &str, runtime: Duration) -> String {
        format!(
            "fio --name=bench --filename=/dev/{disk} --rw={} --bs=4k --direct=1 --ioengine={} \
             --numjobs={} --iodepth={} --thread --group_reporting --time_based --runtime={}ms \
             --norandommap --random_generator=lfsr {}",
            self.rw,
            self.engine,
            self.threads,
            self.iodepth,
            runtime.as_millis(),
            self.options.join(" "),
        )
    }

    /// All requests that are in flight at the same time.
    pub fn depth(&self) -> u32 {
        self.threads * self.iodepth
    }
}

/// As short as it can be told from the other jobs of a scenario.
impl fmt::Display for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads {
            1 => write!(formatter, "{} QD{}", self.rw, self.iodepth)?,
            threads => write!(formatter, "{} {threads}×QD{}", self.rw, self.iodepth)?,
        }
        match self.pace {
            None => Ok(()),
            Some(pace) => {
                let wait = match pace.wait {
                    Wait::Sleep => "sleeping",
                    Wait::Spin => "spinning",
                };
                write!(formatter, ", {} µs {wait}", pace.us)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(text: &str) -> Vec<Job> {
        toml::from_str::<JobText>(text).unwrap().jobs()
    }

    #[test]
    fn each_pace_is_combined_with_each_way_to_wait() {
        let jobs = jobs(
            "rw = \"randread\"\nthreads = 4\niodepth = 64\npace = [10, 20]\n\
                         wait = [\"sleep\", \"spin\"]\n",
        );
        let names: Vec<_> = jobs.iter().map(Job::to_string).collect();
        assert_eq!(names[0], "randread 4×QD64, 10 µs sleeping");
        assert_eq!(names[3], "randread 4×QD64, 20 µs spinning");
        assert_eq!((jobs.len(), jobs[0].depth()), (4, 256));
    }

    #[test]
    fn the_command_has_the_options() {
        let jobs = jobs("rw = \"randwrite\"\niodepth = [2]\noptions = [\"--fsync=1\"]\n");
        let command = jobs[0].command("vdb", Duration::from_millis(1500));
        for words in ["/dev/vdb", "--iodepth=2", "--runtime=1500ms", "--fsync=1"] {
            assert!(command.contains(words), "{command}");
        }
        assert_eq!(jobs[0].to_string(), "randwrite QD2");
    }
}
