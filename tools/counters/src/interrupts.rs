// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! How often a device has interrupted the guest, from /proc/interrupts.

use std::collections::BTreeMap;
use std::ops::Sub;

/// Interrupts of one virtio device since the boot, summed over all CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interrupts {
    lines: BTreeMap<String, u64>,
}

impl Interrupts {
    /// Finds the lines of `device`, such as `virtio3`, in the text of /proc/interrupts.
    ///
    /// With virtio-pci they are called `virtio3-req.0`, `virtio3-config` and so on; with
    /// virtio-mmio there is one `virtio3` for everything.
    pub fn parse(text: &str, device: &str) -> Self {
        let cpus = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .count();
        let mut lines = BTreeMap::new();
        for line in text.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let counts: Option<Vec<u64>> = fields
                .by_ref()
                .take(cpus)
                .map(|field| field.parse().ok())
                .collect();
            let Some(counts) = counts else { continue };
            let action = fields
                .map(|field| field.trim_end_matches(','))
                .find(|field| {
                    field
                        .strip_prefix(device)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                });
            if let Some(action) = action {
                *lines.entry(action.to_owned()).or_default() += counts.iter().sum::<u64>();
            }
        }
        Self { lines }
    }

    /// Interrupts of the request queues. With virtio-mmio those of configuration changes count
    /// too, since the line is shared.
    pub fn requests(&self) -> u64 {
        self.lines
            .iter()
            .filter(|(name, _)| !name.ends_with("-config"))
            .map(|(_, n)| n)
            .sum()
    }

    /// Interrupts by the name of their line.
    pub fn lines(&self) -> &BTreeMap<String, u64> {
        &self.lines
    }
}

impl Sub<&Interrupts> for &Interrupts {
    type Output = Interrupts;

    /// What was added since `earlier`.
    fn sub(self, earlier: &Interrupts) -> Interrupts {
        let lines = self.lines.iter().map(|(name, count)| {
            let before = earlier.lines.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(before))
        });
        Interrupts {
            lines: lines.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PCI: &str = "\
           CPU0       CPU1
  0:         42          0   IO-APIC   2-edge      timer
 24:          0          7  PCI-MSIX-0000:00:02.0   1-edge      virtio1-requests.0
 30:          1          0  PCI-MSIX-0000:00:08.0   0-edge      virtio3-config
 31:        100         20  PCI-MSIX-0000:00:08.0   1-edge      virtio3-req.0
 32:          3        400  PCI-MSIX-0000:00:08.0   2-edge      virtio3-req.1
 33:          9          9  PCI-MSIX-0000:00:09.0   1-edge      virtio30-req.0
NMI:          0          0   Non-maskable interrupts
ERR:          0
";

    #[test]
    fn sums_cpus_and_queues_of_the_right_device() {
        let interrupts = Interrupts::parse(PCI, "virtio3");
        assert_eq!(interrupts.requests(), 523);
        assert_eq!(interrupts.lines()["virtio3-req.1"], 403);
        assert_eq!(interrupts.lines()["virtio3-config"], 1);
    }

    #[test]
    fn finds_a_shared_line() {
        let text = "       CPU0\n 5:  12  IO-APIC  5-edge  virtio0, virtio2\n";
        assert_eq!(Interrupts::parse(text, "virtio0").requests(), 12);
        assert_eq!(Interrupts::parse(text, "virtio2").requests(), 12);
        assert_eq!(Interrupts::parse(text, "virtio").requests(), 0);
    }

    #[test]
    fn difference_is_by_line() {
        let earlier = Interrupts::parse(PCI, "virtio3");
        let later = Interrupts::parse(&PCI.replace(" 400 ", " 450 "), "virtio3");
        assert_eq!((&later - &earlier).requests(), 50);
    }
}
