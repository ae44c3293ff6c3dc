// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Operations that end without having been carried out, as somebody has asked for.

use crate::request::Operation;
use anyhow::{bail, Result};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use virtio_bindings::virtio_blk::{VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_UNSUPP};

/// The operations that can fail on demand, by name.
const OPERATIONS: [(&str, Operation); 7] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("flush", Operation::Flush),
    ("get_id", Operation::GetId),
    ("discard", Operation::Discard),
    ("write_zeroes", Operation::WriteZeroes),
    ("secure_erase", Operation::SecureErase),
];

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Unsupported,
    IoError,
}

/// Which operations fail, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures([Option<Failure>; OPERATIONS.len()]);

impl Failures {
    /// Reads an object such as `{"discard": "unsupp"}`. What is not in it does not fail.
    pub fn from_json(value: &Value) -> Result<Self> {
        let Value::Object(object) = value else {
            bail!("fail cannot be {value}: give an object, {{}} for no failures");
        };
        let mut failures = Self::default();
        for (name, how) in object {
            let Some(at) = OPERATIONS.iter().position(|(known, _)| known == name) else {
                let names = OPERATIONS.map(|(name, _)| name).join(", ");
                bail!("{name:?} is no operation: choose {names}");
            };
            failures.0[at] = Some(match how.as_str() {
                Some("unsupp") => Failure::Unsupported,
                Some("ioerr") => Failure::IoError,
                _ => bail!("{name} cannot fail with {how}: choose unsupp or ioerr"),
            });
        }
        Ok(failures)
    }

    /// The status with which an operation ends, if it fails.
    pub fn status(&self, operation: Operation) -> Option<u32> {
        let at = OPERATIONS
            .iter()
            .position(|(_, known)| *known == operation)?;
        Some(match self.0[at]? {
            Failure::Unsupported => VIRTIO_BLK_S_UNSUPP,
            Failure::IoError => VIRTIO_BLK_S_IOERR,
        })
    }
}

impl Serialize for Failures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for ((name, _), failure) in OPERATIONS.iter().zip(self.0) {
            match failure {
                Some(Failure::Unsupported) => map.serialize_entry(name, "unsupp")?,
                Some(Failure::IoError) => map.serialize_entry(name, "ioerr")?,
                None => {}
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failures_read_as_they_are_written() {
        for value in [
            json!({}),
            json!({"discard": "unsupp"}),
            json!({"read": "ioerr", "write_zeroes": "unsupp"}),
        ] {
            let failures = Failures::from_json(&value).unwrap();
            assert_eq!(serde_json::to_value(failures).unwrap(), value);
        }
    }

    #[test]
    fn only_what_was_named_fails() {
        let failures = Failures::from_json(&json!({"flush": "ioerr", "get_id": "unsupp"})).unwrap();
        assert_eq!(failures.status(Operation::Flush), Some(VIRTIO_BLK_S_IOERR));
        assert_eq!(failures.status(Operation::GetId), Some(VIRTIO_BLK_S_UNSUPP));
        assert_eq!(failures.status(Operation::Write), None);
        assert_eq!(failures.status(Operation::Unknown(99)), None);
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        for (value, words) in [
            (json!("read"), ["read", "an object"]),
            (json!({"erase": "ioerr"}), ["erase", "secure_erase"]),
            (json!({"read": "eio"}), ["eio", "unsupp or ioerr"]),
            (json!({"read": 1}), ["1", "unsupp or ioerr"]),
        ] {
            let message = Failures::from_json(&value).unwrap_err().to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
    }
}
