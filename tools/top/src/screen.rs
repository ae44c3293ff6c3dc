// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! A terminal on which lines are shown in place.

use crossterm::cursor::{Hide, MoveTo, MoveToNextLine, Show};
use crossterm::queue;
use crossterm::style::Print;
use crossterm::terminal::{Clear, ClearType};
use std::io::{self, Write};

/// Columns and rows of a terminal that does not say how large it is, as a serial line does.
const UNKNOWN_SIZE: (u16, u16) = (80, 24);

/// A terminal whose cursor is hidden until this is dropped.
pub struct Screen<W: Write> {
    out: W,
    is_clear: bool,
}

impl<W: Write> Screen<W> {
    /// Takes the terminal behind `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            is_clear: false,
        }
    }

    /// Shows `lines` from the top, as many as fit in `rows`.
    pub fn draw(&mut self, lines: &[String], rows: usize) -> io::Result<()> {
        if !self.is_clear {
            queue!(self.out, Hide, Clear(ClearType::All))?;
            self.is_clear = true;
        }
        queue!(self.out, MoveTo(0, 0))?;
        // The last row stays free: a line feed there would move everything up.
        let room = rows.saturating_sub(1);
        let shown = if lines.len() > room {
            room.saturating_sub(1)
        } else {
            lines.len()
        };
        for line in &lines[..shown] {
            queue!(
                self.out,
                Print(line),
                Clear(ClearType::UntilNewLine),
                MoveToNextLine(1)
            )?;
        }
        if shown < lines.len() && room > 0 {
            let more = format!("+ {} rows", lines.len() - shown);
            queue!(
                self.out,
                Print(more),
                Clear(ClearType::UntilNewLine),
                MoveToNextLine(1)
            )?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // There may be no terminal any more.
        let _ = queue!(self.out, Show);
        let _ = self.out.flush();
    }
}

/// Columns and rows of the terminal now.
pub fn size() -> (usize, usize) {
    let known = crossterm::terminal::size().ok();
    let known = known.filter(|(columns, rows)| *columns > 0 && *rows > 0);
    let (columns, rows) = known.unwrap_or(UNKNOWN_SIZE);
    (columns.into(), rows.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written for `count` lines on a terminal with `rows` rows.
    fn drawn(count: usize, rows: usize) -> String {
        let mut out = Vec::new();
        let lines: Vec<_> = (0..count).map(|number| format!("line{number}.")).collect();
        let mut screen = Screen::new(&mut out);
        screen.draw(&lines, rows).unwrap();
        screen.draw(&lines, rows).unwrap();
        drop(screen);
        String::from_utf8(out).unwrap()
    }

    fn shown(text: &str) -> usize {
        // Everything is drawn twice.
        text.matches("line").count() / 2
    }

    #[test]
    fn the_cursor_comes_back_and_the_screen_is_cleared_once() {
        let text = drawn(3, 24);
        assert_eq!(text.matches("\x1b[2J").count(), 1);
        assert_eq!(text.matches("\x1b[?25l").count(), 1);
        assert!(text.ends_with("\x1b[?25h"), "{text:?}");
        assert_eq!((shown(&text), text.contains("rows")), (3, false));
    }

    #[test]
    fn no_row_is_used_that_the_terminal_does_not_have() {
        for (count, rows, right) in [(4, 5, 4), (5, 5, 3), (9, 2, 0), (9, 1, 0), (9, 0, 0)] {
            let text = drawn(count, rows);
            assert_eq!(shown(&text), right, "{count} lines on {rows} rows");
            let moves = text.matches("\x1b[1E").count() / 2;
            assert!(moves < rows.max(1), "{count} lines on {rows} rows");
            let hidden = format!("+ {} rows", count - right);
            assert_eq!(text.contains(&hidden), count > right && rows > 1);
        }
    }
}
