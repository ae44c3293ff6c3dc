// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What a test is, and what tests share a guest.

use crate::lab::Lab;
use anyhow::Result;
use vm::{Vm, VmBuilder};

/// Describes the guest of a group.
type Guest = Box<dyn Fn(&Lab) -> Result<VmBuilder> + Send + Sync>;

/// A test that uses the group's guest.
type Shared = Box<dyn Fn(&Lab, &Vm) -> Result<()> + Send + Sync>;

/// A test that boots what it needs.
type Alone = Box<dyn Fn(&Lab) -> Result<()> + Send + Sync>;

/// What a test does.
pub enum Body {
    /// Uses the group's guest.
    Shared(Shared),
    /// Boots what it needs.
    Alone(Alone),
}

/// A test: it passes if its function succeeds and no guest's kernel has complained.
pub struct Test {
    /// What it guards, in a few words; unique in its group.
    pub name: String,
    pub body: Body,
}

/// Tests of one concept. Those of them that share a guest run one after another in it, with the
/// driver loaded; after a failure the next one gets a fresh guest.
pub struct Group {
    pub name: String,
    pub guest: Option<Guest>,
    /// Parameters to load the driver with; [`None`] leaves it to the tests.
    pub driver: Option<String>,
    pub tests: Vec<Test>,
}

impl Group {
    /// A group of tests that boot what they need.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            guest: None,
            driver: Some(String::new()),
            tests: Vec::new(),
        }
    }

    /// Gives the group a guest.
    pub fn guest(
        mut self,
        guest: impl Fn(&Lab) -> Result<VmBuilder> + Send + Sync + 'static,
    ) -> Self {
        self.guest = Some(Box::new(guest));
        self
    }

    /// Leaves it to the tests to load the driver.
    pub fn without_driver(mut self) -> Self {
        self.driver = None;
        self
    }

    /// Adds a test that uses the group's guest.
    pub fn shared(
        mut self,
        name: impl Into<String>,
        test: impl Fn(&Lab, &Vm) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.tests.push(Test {
            name: name.into(),
            body: Body::Shared(Box::new(test)),
        });
        self
    }

    /// Adds a test that boots what it needs.
    pub fn alone(
        mut self,
        name: impl Into<String>,
        test: impl Fn(&Lab) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.tests.push(Test {
            name: name.into(),
            body: Body::Alone(Box::new(test)),
        });
        self
    }
}
