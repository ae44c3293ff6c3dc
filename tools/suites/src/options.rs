// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The command line.

use crate::blktests::Blktests;
use crate::suite::Suite;
use crate::xfstests::{FileSystem, Xfstests};
use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use std::fs;
use std::path::PathBuf;

/// A suite that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The block layer's tests, on one disk.
    Blktests,
    /// The file systems' tests, on three disks.
    Xfstests,
}

/// Runs a test suite of others in a guest, first on the kernel's driver, then on ours.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    /// The suite.
    pub kind: Kind,

    /// The folder in which it was built.
    pub built: PathBuf,

    /// Tests and groups, as the suite's own `check` takes them. [default: block; -g quick]
    #[arg(long, value_delimiter = ' ', allow_hyphen_values = true)]
    pub tests: Vec<String>,

    /// The file system that xfstests tests.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    pub fs: FileSystem,

    /// Minutes that the suite may take on each driver.
    #[arg(long, default_value_t = 240, value_parser = clap::value_parser!(u16).range(1..=2880))]
    pub minutes: u16,
}

impl Options {
    /// The suite that was asked for.
    pub fn suite(&self) -> Box<dyn Suite> {
        let tests = self.tests.join(" ");
        let or = |default: &str| match tests.as_str() {
            "" => default.to_owned(),
            tests => tests.to_owned(),
        };
        match self.kind {
            Kind::Blktests => Box::new(Blktests { tests: or("block") }),
            Kind::Xfstests => Box::new(Xfstests {
                tests: or("-g quick"),
                fs: self.fs,
            }),
        }
    }

    /// The name of the suite, with what it is run for.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Blktests => "blktests".to_owned(),
            Kind::Xfstests => format!("xfstests-{}", self.fs.name()),
        }
    }

    /// The folder for what is gone afterwards.
    pub fn cache(&self) -> Result<PathBuf> {
        Ok(vm::Environment::from_env()?.cache)
    }

    /// The folder for results.
    pub fn results(&self) -> Result<PathBuf> {
        let folder = vm::Environment::from_env()?.results;
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }
}
