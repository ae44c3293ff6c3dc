// SPDX-License-Identifier: GPL-2.0

//! Knobs whose values have names.
//!
//! This file is pure: it imports nothing but `core`, so that it is tested on the host as it is.

/// Declares a knob: an enum whose values are numbered from 0, and known to users by name.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $knob:ident: $range:literal {
            $($(#[$value_meta:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u8)]
        $vis enum $knob {
            $($(#[$value_meta])* $value,)+
        }

        impl $knob {
            /// Every value, in the order of its number.
            $vis const ALL: &'static [Self] = &[$(Self::$value),+];

            /// What a user may write, for messages.
            $vis const RANGE: &'static str = $range;

            /// The name under which users see the value.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// The value with the number `raw`; the default if there is none.
            $vis fn from_raw(raw: u32) -> Self {
                let value = Self::ALL.iter().find(|value| **value as u32 == raw);
                value.copied().unwrap_or_default()
            }

            /// Parses a name, with or without the newline that `echo` writes.
            $vis fn parse(text: &[u8]) -> Option<Self> {
                let text = text.trim_ascii();
                let value = Self::ALL.iter().find(|value| value.name().as_bytes() == text);
                value.copied()
            }
        }

        impl core::fmt::Display for $knob {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use named;
