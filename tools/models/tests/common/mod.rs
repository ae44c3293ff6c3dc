// SPDX-License-Identifier: GPL-2.0

//! What tests of random values have in common.

use proptest::test_runner::Config;

/// So many random cases. Nothing is written into the sources when one fails: it is printed.
pub fn random(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}
