// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The plugin's arguments.

use std::path::PathBuf;

/// What the command line of QEMU asks for.
#[derive(Debug, Eq, PartialEq)]
pub struct Options {
    /// The file that windows are appended to.
    pub out: PathBuf,
    /// Whether windows list the executed blocks of the kernel.
    pub profile: bool,
}

impl Options {
    /// Understands `name=value` words; a mistake is named together with what would be right.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut out = None;
        let mut profile = false;
        for word in words {
            match word.split_once('=') {
                Some(("out", path)) if !path.is_empty() => out = Some(PathBuf::from(path)),
                // QEMU completes a bare name to name=on.
                Some(("profile", "on")) => profile = true,
                Some(("profile", "off")) => profile = false,
                _ => {
                    return Err(format!(
                        "bad argument {word}: use out=FILE and profile=on|off"
                    ))
                }
            }
        }
        let out = out.ok_or("no file to write to: add out=FILE")?;
        Ok(Self { out, profile })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_it_documents() {
        let options = Options::parse(&["out=/tmp/w", "profile=on"]).unwrap();
        assert_eq!(
            options,
            Options {
                out: "/tmp/w".into(),
                profile: true
            }
        );
        assert!(!Options::parse(&["out=w"]).unwrap().profile);
        assert!(
            !Options::parse(&["profile=on", "out=w", "profile=off"])
                .unwrap()
                .profile
        );
    }

    #[test]
    fn names_what_it_rejects() {
        for words in [
            &["out=w", "profile=maybe"][..],
            &["out="],
            &["out=w", "speed=9"],
            &["x"],
        ] {
            assert!(Options::parse(words)
                .unwrap_err()
                .contains(words.last().unwrap()));
        }
        assert!(Options::parse(&["profile=on"])
            .unwrap_err()
            .contains("out=FILE"));
    }
}
