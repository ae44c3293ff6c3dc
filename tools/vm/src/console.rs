// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Watches the guest's console log for signs that its kernel is in trouble.

use regex::{Regex, RegexSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

/// How a kernel says that something is wrong. The time stamp keeps these from matching in the
/// middle of a harmless message.
static TROUBLE: LazyLock<RegexSet> = LazyLock::new(|| {
    let stamp = r"^\[ *\d+\.\d+\](\[ *[TC]\d+\])? ";
    let anywhere = [
        r"BUG: ",
        r"Oops",
        r"KASAN",
        r"KCSAN",
        r"UBSAN",
        r"Call Trace:",
        r"Kernel panic",
        r"general protection fault",
        r"kernel BUG at",
        r"lockup",
        r"LOCKUP",
        r"blocked for more than",
        r"detected stalls?",
        r"self-detected stall",
        r"irq \d+: nobody cared",
        r"refcount_t: ",
        r"rust_kernel: panicked",
        r"possible recursive locking",
        r"possible circular locking",
        r"page allocation failure",
    ];
    let patterns = std::iter::once(format!("{stamp}WARNING: "))
        .chain(anywhere.iter().map(|pattern| format!("{stamp}.*{pattern}")));
    RegexSet::new(patterns).expect("the patterns are valid")
});

static PANIC: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("Kernel panic").expect("the pattern is valid"));

/// The kernel's own words about what went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The lines of the console that say it.
    pub lines: Vec<String>,
    /// Whether the kernel has given up.
    pub panicked: bool,
}

/// A growing log file and what has been found in it so far.
#[derive(Debug)]
pub struct Console {
    path: PathBuf,
    tolerated: Vec<Regex>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    log: BufReader<File>,
    partial: String,
    trouble: Trouble,
}

impl Console {
    /// Creates the log file. Lines that match one of `tolerated` are no trouble.
    pub fn create(path: &Path, tolerated: Vec<Regex>) -> std::io::Result<Self> {
        File::create(path)?;
        let log = BufReader::new(File::open(path)?);
        let state = Mutex::new(State {
            log,
            partial: String::new(),
            trouble: Trouble::default(),
        });
        Ok(Self {
            path: path.to_owned(),
            tolerated,
            state,
        })
    }

    /// Where the log is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what is new and returns all trouble since the boot.
    pub fn trouble(&self) -> Trouble {
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            let mut bytes = Vec::new();
            match state.log.read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return state.trouble.clone(),
                Ok(_) => state.partial += &String::from_utf8_lossy(&bytes),
            }
            if state.partial.ends_with('\n') {
                let line = std::mem::take(&mut state.partial);
                self.judge(line.trim_end(), &mut state.trouble);
            }
        }
    }

    fn judge(&self, line: &str, trouble: &mut Trouble) {
        let tolerated = self.tolerated.iter().any(|pattern| pattern.is_match(line));
        if TROUBLE.is_match(line) && !tolerated {
            trouble.panicked |= PANIC.is_match(line);
            trouble.lines.push(line.to_owned());
        }
    }

    /// The last `count` lines of the log, for messages.
    pub fn tail(&self, count: usize) -> String {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn trouble_in(text: &str, tolerated: &[&str]) -> Trouble {
        let file = tempfile::NamedTempFile::new().unwrap();
        let tolerated = tolerated
            .iter()
            .map(|pattern| Regex::new(pattern).unwrap())
            .collect();
        let console = Console::create(file.path(), tolerated).unwrap();
        // In two pieces, as a console that is still being written to.
        let (first, second) = text.split_at(text.len() / 2);
        let mut log = std::fs::OpenOptions::new()
            .append(true)
            .open(file.path())
            .unwrap();
        log.write_all(first.as_bytes()).unwrap();
        console.trouble();
        log.write_all(second.as_bytes()).unwrap();
        console.trouble()
    }

    #[test]
    fn boot_messages_are_no_trouble() {
        let text = "[    0.372651] Spectre V2 : WARNING: only a remark\n\
                    [    0.757273] NMI watchdog: Perf NMI watchdog permanently disabled\n\
                    [    2.1] virtio_blk virtio2: [vda] 2097152 512-byte logical blocks\n";
        assert_eq!(trouble_in(text, &[]), Trouble::default());
    }

    #[test]
    fn each_kind_of_trouble_is_found() {
        for message in [
            "WARNING: drivers/virtio/virtio.c:361 at virtio_dev_remove+0x1/0x2, CPU#0: rmmod/1",
            "BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "Oops: Oops: 0002 [#1] SMP NOPTI",
            "INFO: task fio:123 blocked for more than 30 seconds.",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:1]",
            "Call Trace:",
        ] {
            let text = format!("[   10.123456] {message}\n");
            assert_eq!(trouble_in(&text, &[]).lines, [text.trim_end()], "{message}");
        }
    }

    #[test]
    fn a_panic_is_told_from_a_warning() {
        assert!(trouble_in("[    1.0] Kernel panic - not syncing: x\n", &[]).panicked);
        assert!(!trouble_in("[    1.0] WARNING: a.c:1 at f+0x1/0x2\n", &[]).panicked);
    }

    #[test]
    fn tolerated_lines_are_no_trouble() {
        let text = "[    1.0] BUG: expected\n[    2.0] BUG: unexpected\n";
        assert_eq!(
            trouble_in(text, &["BUG: expected"]).lines,
            ["[    2.0] BUG: unexpected"]
        );
    }
}
