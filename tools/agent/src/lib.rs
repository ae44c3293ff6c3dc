// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The messages between the host and the guest's agent.
//!
//! Both sides talk over a serial port, one JSON object a line. The agent speaks first with a
//! [`Hello`]; after that the host sends [`Request`]s and the agent answers each with one [`Reply`]
//! that has the same `id`. Several requests may run at the same time, so replies come in the order
//! in which the work ends.

use serde::{Deserialize, Serialize};

/// Name of the virtio-serial port.
pub const PORT: &str = "org.virtio_blk_rs.agent";

/// Variable in the agent's environment that names a serial port to use instead, such as
/// `/dev/ttyS1`. A virtio-serial port is silent after the machine has slept.
pub const PORT_VARIABLE: &str = "VBR_AGENT_PORT";

/// Where the guest sees the directory that it shares with the host, read and write.
pub const JOB_DIR: &str = "/mnt";

/// Tag of the virtio-fs share behind [`JOB_DIR`].
pub const JOB_TAG: &str = "job";

/// Status of a script that was killed because its time was up, as timeout(1) has it.
pub const STATUS_TIMED_OUT: i32 = 124;

/// Sent once, when the agent is ready for requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// The release of the running kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Seconds since the guest's kernel started.
    pub uptime_s: f64,
}

/// One piece of work for the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the host; the reply repeats it.
    pub id: u64,
    /// What to do.
    #[serde(flatten)]
    pub work: Work,
}

/// The kinds of work that an agent does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Work {
    /// Run a shell script with `bash -c`.
    Shell {
        /// The script.
        sh: String,
        /// Seconds after which the script and all its children are killed.
        timeout_s: f64,
    },
    /// Power the guest off; there is no reply.
    PowerOff {
        /// Always true; it gives the variant its name on the wire.
        poweroff: bool,
    },
}

/// How a script ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    /// The `id` of the request.
    pub id: u64,
    /// Exit status; 128 + N for signal N; [`STATUS_TIMED_OUT`] if the time was up.
    pub status: i32,
    /// All that the script wrote to its standard output.
    pub stdout: String,
    /// All that the script wrote to its standard error.
    pub stderr: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_documented_form_on_the_wire() {
        let request = Request {
            id: 7,
            work: Work::Shell {
                sh: "true".into(),
                timeout_s: 1.5,
            },
        };
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(line, r#"{"id":7,"sh":"true","timeout_s":1.5}"#);
    }

    #[test]
    fn power_off_is_told_from_a_script() {
        let request: Request = serde_json::from_str(r#"{"id":1,"poweroff":true}"#).unwrap();
        assert!(matches!(request.work, Work::PowerOff { poweroff: true }));
    }
}
