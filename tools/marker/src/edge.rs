// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The two edges of a bracket: their encoding, and the code that executes them.

use std::arch::asm;

/// `nopl disp32(%rax,%rax,1)` up to its displacement: the long form of NOP that holds 32 free bits.
const LONG_NOP: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];

/// Displacements that no assembler emits as padding (that is always zero).
const BEGIN: u32 = 0x5642_5201;
const END: u32 = 0x5642_5202;

/// One side of a bracket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Edge {
    /// Counting starts here.
    Begin,
    /// Counting stops here, and the plugin reports the window.
    End,
}

impl Edge {
    /// The length of a marker instruction in bytes.
    pub const LENGTH: usize = 8;

    /// The edge that the machine code of one instruction stands for, if any.
    pub fn recognise(code: &[u8]) -> Option<Self> {
        let displacement = code.strip_prefix(&LONG_NOP)?;
        match u32::from_le_bytes(displacement.try_into().ok()?) {
            BEGIN => Some(Self::Begin),
            END => Some(Self::End),
            _ => None,
        }
    }

    /// Executes the marker instruction.
    pub fn execute(self) {
        match self {
            // SAFETY: A NOP reads and writes nothing, not even the address that it spells.
            Self::Begin => unsafe {
                asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const BEGIN, options(nostack));
            },
            // SAFETY: As above.
            Self::End => unsafe {
                asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const END, options(nostack));
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(displacement: u32) -> Vec<u8> {
        [&LONG_NOP[..], &displacement.to_le_bytes()].concat()
    }

    #[test]
    fn both_edges_are_recognised() {
        assert_eq!(Edge::recognise(&code(BEGIN)), Some(Edge::Begin));
        assert_eq!(Edge::recognise(&code(END)), Some(Edge::End));
    }

    #[test]
    fn padding_and_other_code_are_not() {
        assert_eq!(Edge::recognise(&code(0)), None);
        assert_eq!(Edge::recognise(&code(BEGIN)[..7]), None);
        assert_eq!(Edge::recognise(&[0x90; Edge::LENGTH]), None);
        assert_eq!(Edge::recognise(&[]), None);
    }
}
