// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! What the programmable device of a disk is, and how QEMU puts it on the bus.

use crate::disk::Transport;
use ::device::Policy;
use serde_json::{json, Map, Value};
use std::path::PathBuf;

/// Bytes of a block device's configuration space.
const CONFIG_SIZE: u32 = 96;

/// Descriptors of a queue, unless the disk says otherwise.
const QUEUE_SIZE: u16 = 256;

/// Number of block devices in the standard.
const VIRTIO_ID_BLOCK: u32 = 2;

/// The programmable device of a disk, beyond what the disk's own properties say: those about
/// queues and features hold for the device as well.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceConfig {
    backing: Vec<String>,
    pub(crate) policy: Policy,
    pub(crate) front_end: FrontEnd,
    pub(crate) reconnects: bool,
    arguments: Vec<String>,
}

/// The device of QEMU through which a guest sees the programmable one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FrontEnd {
    /// The one for disks. It has an opinion about features and configuration.
    #[default]
    Blk,
    /// The one for tests, which leaves every feature and every byte to the programmable device.
    Test,
}

impl DeviceConfig {
    fn new(backing: &str, size: u64) -> Self {
        Self {
            backing: ["--backing", backing, "--size", &size.to_string()]
                .map(str::to_owned)
                .to_vec(),
            policy: Policy::default(),
            front_end: FrontEnd::default(),
            reconnects: false,
            arguments: Vec::new(),
        }
    }

    /// A device of `size` bytes that forgets what is written.
    pub fn null(size: u64) -> Self {
        Self::new("null", size)
    }

    /// A device of `size` bytes that remembers what is written.
    pub fn ram(size: u64) -> Self {
        Self::new("ram", size)
    }

    /// A device in the raw file `path`.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into().to_string_lossy().into_owned();
        Self {
            backing: vec!["--backing".into(), path],
            ..Self::null(0)
        }
    }

    /// How it behaves at first.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How QEMU puts it on the bus.
    pub fn front_end(mut self, front_end: FrontEnd) -> Self {
        self.front_end = front_end;
        self
    }

    /// QEMU waits for the device to come back when it has died, instead of forgetting it.
    pub fn reconnects(mut self) -> Self {
        self.reconnects = true;
        self
    }

    /// Adds an argument to the device's command line, such as `--seg-max=1`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Makes it a zoned device with these options, such as `sectors=8192` for `--zone-sectors`.
    /// QEMU's front end for disks does not know zones.
    pub fn zoned(self, options: &[&str]) -> Self {
        let test = self.front_end(FrontEnd::Test);
        options.iter().fold(test, |config, option| {
            config.argument(&format!("--zone-{option}"))
        })
    }

    /// The device's command line for a disk with these properties.
    pub(crate) fn command_line(&self, properties: &Map<String, Value>) -> Vec<String> {
        let mut line = self.backing.clone();
        for (property, option) in [
            ("num-queues", "--num-queues"),
            ("queue-size", "--queue-size"),
            ("event_idx", "--event-idx"),
            ("indirect_desc", "--indirect"),
            ("serial", "--serial"),
        ] {
            let value = match properties.get(property) {
                Some(Value::Bool(true)) => "on".to_owned(),
                Some(Value::Bool(false)) => "off".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => continue,
            };
            line.push(format!("{option}={value}"));
        }
        line.extend(self.arguments.iter().cloned());
        line
    }
}

impl FrontEnd {
    /// The name of QEMU's device.
    pub(crate) fn driver(self, transport: Transport) -> String {
        let name = match self {
            Self::Blk => "vhost-user-blk",
            Self::Test => "vhost-user-test-device",
        };
        match transport {
            Transport::Pci | Transport::PciExpress => format!("{name}-pci"),
            Transport::Mmio => name.to_owned(),
        }
    }

    /// The properties of QEMU's device for a disk with those of `disk`.
    pub(crate) fn properties(self, disk: &Map<String, Value>) -> Map<String, Value> {
        let mut properties = disk.clone();
        // The device itself answers when it is asked for its serial number.
        properties.remove("serial");
        // QEMU's own default is one for each CPU, which the device would not know.
        let queues = properties.remove("num-queues").unwrap_or(json!(1));
        // Each front end has another default, and both another than QEMU's own disk.
        let size = properties.remove("queue-size").unwrap_or(json!(QUEUE_SIZE));
        match self {
            Self::Blk => {
                properties.insert("num-queues".into(), queues);
                properties.insert("queue-size".into(), size);
            }
            Self::Test => {
                properties.insert("virtio-id".into(), json!(VIRTIO_ID_BLOCK));
                properties.insert("config_size".into(), json!(CONFIG_SIZE));
                properties.insert("num_vqs".into(), queues);
                properties.insert("vq_size".into(), size);
            }
        }
        properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::disk::Disk;

    #[test]
    fn the_disk_speaks_for_the_device() {
        let config = DeviceConfig::ram(4096).argument("--seg-max=1");
        let disk = Disk::new("d", Backend::device(config.clone()))
            .num_queues(2)
            .queue_size(64)
            .event_idx(false);
        let line = config.command_line(disk.properties()).join(" ");
        assert_eq!(
            line,
            "--backing ram --size 4096 --num-queues=2 --queue-size=64 --event-idx=off --serial=d \
             --seg-max=1"
        );
    }

    #[test]
    fn zones_need_the_front_end_for_tests() {
        let config = DeviceConfig::ram(1 << 20).zoned(&["sectors=1024", "max-open=3"]);
        assert_eq!(config.front_end, FrontEnd::Test);
        let line = config.command_line(&Map::new()).join(" ");
        assert!(line.ends_with("--zone-sectors=1024 --zone-max-open=3"));
    }

    #[test]
    fn each_front_end_has_words_of_its_own() {
        let disk = Disk::new("d", Backend::device(DeviceConfig::null(4096)));
        let disk = disk.num_queues(2).queue_size(64);
        let blk = FrontEnd::Blk.properties(disk.properties());
        assert_eq!(
            (&blk["num-queues"], &blk["queue-size"]),
            (&json!(2), &json!(64))
        );
        assert!(!blk.contains_key("serial"));
        let test = FrontEnd::Test.properties(disk.properties());
        assert_eq!(
            (&test["num_vqs"], &test["vq_size"]),
            (&json!(2), &json!(64))
        );
        assert_eq!(
            (&test["virtio-id"], &test["config_size"]),
            (&json!(2), &json!(96))
        );
        assert!(!test.contains_key("num-queues") && !test.contains_key("queue-size"));
    }

    #[test]
    fn defaults_are_the_same_for_both() {
        let disk = Disk::new("d", Backend::device(DeviceConfig::null(4096)));
        let blk = FrontEnd::Blk.properties(disk.properties());
        assert_eq!(
            (&blk["num-queues"], &blk["queue-size"]),
            (&json!(1), &json!(256))
        );
        let test = FrontEnd::Test.properties(disk.properties());
        assert_eq!(
            (&test["num_vqs"], &test["vq_size"]),
            (&json!(1), &json!(256))
        );
    }
}
