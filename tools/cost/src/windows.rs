// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The plugin's output as it grows.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use marker::Window;

/// Reads the windows that the plugin appends, one at a time.
pub struct Windows(BufReader<File>);

impl Windows {
    /// Creates the file that the plugin is to append to. It has no name, so that nothing is left
    /// of it however this program ends.
    pub fn new() -> Result<Self> {
        let file = tempfile::tempfile().context("cannot create a temporary file")?;
        Ok(Self(BufReader::new(file)))
    }

    /// Where another process finds the file as long as this one lives.
    pub fn path(&self) -> PathBuf {
        let (process, file) = (std::process::id(), self.0.get_ref().as_raw_fd());
        format!("/proc/{process}/fd/{file}").into()
    }

    /// The only window since the last call. The plugin has written it before the guest goes on
    /// after an end marker, so it is there when the guest's job is known to have ended.
    pub fn next(&mut self) -> Result<Window> {
        let window = self.read()?.context(
            "the plugin reported nothing for a job: the guest's marker was not recognised",
        )?;
        ensure!(
            self.read()?.is_none(),
            "the plugin reported several windows for one job"
        );
        Ok(window)
    }

    fn read(&mut self) -> Result<Option<Window>> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let window: Window =
            serde_json::from_str(&line).context("the plugin wrote a line that is no window")?;
        let sum: u64 = window.blocks.iter().map(|block| block.instructions()).sum();
        ensure!(
            window.blocks.is_empty() || sum == window.kernel,
            "the profile has {sum} instructions, but {} were counted",
            window.kernel
        );
        Ok(Some(window))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn append(windows: &Windows, text: &str) {
        let mut file = File::options().append(true).open(windows.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn each_window_is_read_once() {
        let mut windows = Windows::new().unwrap();
        for kernel in [7, 8] {
            append(
                &windows,
                &format!("{{\"user\":1,\"kernel\":{kernel},\"blocks\":[]}}\n"),
            );
            assert_eq!(windows.next().unwrap().kernel, kernel);
        }
        assert!(windows.next().is_err());
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let mut windows = Windows::new().unwrap();
        append(
            &windows,
            "{\"user\":1,\"kernel\":6,\"blocks\":[[4096,2,3]]}\n",
        );
        assert_eq!(windows.next().unwrap().blocks.len(), 1);
        append(
            &windows,
            "{\"user\":1,\"kernel\":7,\"blocks\":[[4096,2,3]]}\n",
        );
        assert!(windows.next().is_err());
        append(
            &windows,
            &"{\"user\":1,\"kernel\":7,\"blocks\":[]}\n".repeat(2),
        );
        assert!(windows.next().is_err());
    }
}
