// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Execution counters of the kernel's translated blocks.

use std::collections::HashMap;

use marker::Block;

use crate::qemu::{Counter, Scoreboard};

/// Counters are allocated in boards of this many: the boot alone translates some 60,000 blocks,
/// and QEMU reserves each board for a few processors more than the guest has.
const BOARD: usize = 4096;

/// A block's identity: blocks that QEMU translates anew (after it dropped them) find their counter
/// again, blocks that start at the same address but end elsewhere have their own.
type Key = (u64, u64);

/// The counters of all blocks met so far; counters are only ever added.
#[derive(Default)]
pub struct Blocks {
    boards: Vec<Scoreboard>,
    index: HashMap<Key, usize>,
    keys: Vec<Key>,
}

impl Blocks {
    /// The counter of the block of `length` instructions at `address`.
    pub fn counter(&mut self, address: u64, length: u64) -> Option<Counter> {
        let key = (address, length);
        let index = *self.index.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        if index / BOARD == self.boards.len() {
            self.boards.push(Scoreboard::new(BOARD));
        }
        self.at(index)
    }

    /// The executions of each block so far, in the order in which blocks were met.
    pub fn executions(&self) -> Vec<u64> {
        (0..self.keys.len())
            .map(|index| self.at(index).map_or(0, Counter::sum))
            .collect()
    }

    /// The blocks that ran since `before`, which [`Self::executions`] returned.
    pub fn since(&self, before: &[u64]) -> Vec<Block> {
        let before = before.iter().copied().chain(std::iter::repeat(0));
        std::iter::zip(self.keys.iter().zip(self.executions()), before)
            .map(|((&(address, length), now), before)| Block {
                address,
                length,
                executions: now.wrapping_sub(before),
            })
            .filter(|block| block.executions > 0)
            .collect()
    }

    fn at(&self, index: usize) -> Option<Counter> {
        self.boards.get(index / BOARD)?.counter(index % BOARD)
    }
}
