// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the plugin reports for one bracket.

use serde::{Deserialize, Serialize};

/// The instructions that the guest executed between a begin and an end marker, on all its
/// processors.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Window {
    /// Instructions at user addresses.
    pub user: u64,
    /// Instructions at kernel addresses.
    pub kernel: u64,
    /// The kernel's translated blocks that ran at least once; empty without `profile=on`.
    pub blocks: Vec<Block>,
}

/// One translated block of kernel code.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Block {
    /// The address of its first instruction.
    pub address: u64,
    /// Its number of instructions.
    pub length: u64,
    /// How often it ran in the window.
    pub executions: u64,
}

impl Block {
    /// The number of instructions that it contributed to the window.
    pub fn instructions(&self) -> u64 {
        self.length.saturating_mul(self.executions)
    }
}

// A window holds some ten thousand blocks: triples keep a line short.
impl From<(u64, u64, u64)> for Block {
    fn from((address, length, executions): (u64, u64, u64)) -> Self {
        Self {
            address,
            length,
            executions,
        }
    }
}

impl From<Block> for (u64, u64, u64) {
    fn from(block: Block) -> Self {
        (block.address, block.length, block.executions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_survives_its_line() {
        let window = Window {
            user: 1,
            kernel: 12,
            blocks: vec![Block {
                address: u64::MAX - 7,
                length: 4,
                executions: 3,
            }],
        };
        let line = serde_json::to_string(&window).unwrap();
        assert!(line.contains("[[18446744073709551608,4,3]]"));
        assert_eq!(serde_json::from_str::<Window>(&line).unwrap(), window);
        assert_eq!(window.blocks[0].instructions(), window.kernel);
    }
}
