// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! From what the plugin counted to kernel instructions per I/O, in total and by function.

use std::collections::{BTreeMap, BTreeSet};

use marker::Window;
use measuring::median;

use crate::symbols::Symbols;

/// Kernel instructions, in total and by function; of a job, an I/O, or a tick of the timer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// All of them.
    pub total: f64,
    /// By the name of the function; empty if only totals were counted.
    pub functions: BTreeMap<String, f64>,
}

impl Profile {
    /// The kernel's part of a window.
    pub fn of(window: &Window, symbols: &Symbols) -> Self {
        let mut functions = BTreeMap::<String, f64>::new();
        for block in &window.blocks {
            let name = symbols.resolve(block.address);
            let instructions = block.instructions() as f64;
            match functions.get_mut(name) {
                Some(sum) => *sum += instructions,
                None => {
                    functions.insert(name.to_owned(), instructions);
                }
            }
        }
        Self {
            total: window.kernel as f64,
            functions,
        }
    }

    /// A fraction or a multiple.
    pub fn times(&self, factor: f64) -> Self {
        let functions = self.functions.iter();
        Self {
            total: self.total * factor,
            functions: functions
                .map(|(name, n)| (name.clone(), n * factor))
                .collect(),
        }
    }

    /// What is left without `other`.
    pub fn minus(&self, other: &Self) -> Self {
        let mut functions = self.functions.clone();
        for (name, instructions) in &other.functions {
            *functions.entry(name.clone()).or_default() -= instructions;
        }
        Self {
            total: self.total - other.total,
            functions,
        }
    }

    /// The median of each number over several passes.
    pub fn median(passes: &[Self]) -> Self {
        let totals: Vec<f64> = passes.iter().map(|pass| pass.total).collect();
        let names: BTreeSet<&String> = passes
            .iter()
            .flat_map(|pass| pass.functions.keys())
            .collect();
        let of = |name: &String| {
            let values: Vec<f64> = passes
                .iter()
                .map(|pass| pass.functions.get(name).copied().unwrap_or_default())
                .collect();
            median(&values)
        };
        Self {
            total: median(&totals),
            functions: names
                .into_iter()
                .map(|name| (name.clone(), of(name)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use marker::Block;

    use super::*;

    fn profile(total: f64, functions: &[(&str, f64)]) -> Profile {
        let functions = functions.iter().map(|(name, n)| ((*name).to_owned(), *n));
        Profile {
            total,
            functions: functions.collect(),
        }
    }

    #[test]
    fn blocks_of_one_function_add_up() {
        let symbols = Symbols::parse("10 T one\n20 T two\n").unwrap();
        let block = |address, length, executions| Block {
            address,
            length,
            executions,
        };
        let window = Window {
            user: 5,
            kernel: 70,
            blocks: vec![block(0x10, 3, 10), block(0x14, 2, 10), block(0x20, 4, 5)],
        };
        assert_eq!(
            Profile::of(&window, &symbols).times(0.1),
            profile(7.0, &[("one", 5.0), ("two", 2.0)])
        );
    }

    #[test]
    fn subtraction_keeps_what_only_one_side_has() {
        let job = profile(100.0, &[("queue", 60.0), ("tick", 40.0)]);
        let tick = profile(50.0, &[("tick", 45.0), ("idle", 5.0)]);
        assert_eq!(
            job.minus(&tick.times(0.5)),
            profile(75.0, &[("idle", -2.5), ("queue", 60.0), ("tick", 17.5)])
        );
    }

    #[test]
    fn a_function_that_one_pass_lacks_counts_as_zero_there() {
        let passes = [
            profile(1.0, &[("a", 1.0), ("rare", 9.0)]),
            profile(2.0, &[("a", 2.0)]),
            profile(3.0, &[("a", 3.0)]),
        ];
        assert_eq!(
            Profile::median(&passes),
            profile(2.0, &[("a", 2.0), ("rare", 0.0)])
        );
    }
}
