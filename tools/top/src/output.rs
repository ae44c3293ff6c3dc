// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Where reports go: to a terminal in place, or to a file or another program line by line.

use crate::json;
use crate::options::Options;
use crate::report::Report;
use crate::screen::{self, Screen};
use crate::table;
use std::io::{self, IsTerminal, Stdout, Write};

/// The standard output, in one of its forms.
pub enum Output {
    /// A table that is drawn in place.
    Screen(Screen<Stdout>),
    /// A table after each interval.
    Text(Stdout),
    /// A line of JSON after each interval.
    Json(Stdout),
}

impl Output {
    /// The form that suits the options and what the standard output is.
    pub fn new(options: &Options) -> Self {
        let out = io::stdout();
        if options.json {
            Self::Json(out)
        } else if out.is_terminal() {
            Self::Screen(Screen::new(out))
        } else {
            Self::Text(out)
        }
    }

    /// Shows a report at once.
    pub fn write(&mut self, report: &Report) -> io::Result<()> {
        match self {
            Self::Screen(screen) => {
                let (columns, rows) = screen::size();
                screen.draw(&table::lines(report, columns), rows)
            }
            Self::Text(out) => {
                for line in table::lines(report, usize::MAX) {
                    writeln!(out, "{line}")?;
                }
                writeln!(out)?;
                out.flush()
            }
            Self::Json(out) => {
                writeln!(out, "{}", json::object(report))?;
                out.flush()
            }
        }
    }
}
