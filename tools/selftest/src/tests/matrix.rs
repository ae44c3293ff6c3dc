// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Every combination of transport, ring features, ring size, number of queues and of vCPUs: each is
//! a disk and a test; as many disks as a machine can have share a guest.

use crate::guest::{expect, secs, DEBUGFS};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{bail, ensure, Result};
use vm::{feature_names, Backend, Disk, Transport, Vm};

const SIZE: u64 = 8 << 20;

/// A disk, and the machine around it.
#[derive(Debug, Clone, Copy)]
struct Combination {
    transport: Transport,
    event_idx: bool,
    indirect: bool,
    packed: bool,
    ring: u16,
    queues: u16,
    vcpus: u32,
}

impl Combination {
    fn transport_name(&self) -> &'static str {
        match self.transport {
            Transport::Pci | Transport::PciExpress => "pci",
            Transport::Mmio => "mmio",
        }
    }

    fn name(&self) -> String {
        let on = |state| if state { "on" } else { "off" };
        format!(
            "{} event_idx={} indirect={} packed={} ring={} queues={} vcpus={}",
            self.transport_name(),
            on(self.event_idx),
            on(self.indirect),
            on(self.packed),
            self.ring,
            self.queues,
            self.vcpus
        )
    }

    /// The name of the disk, of which a guest sees at most 20 bytes.
    fn id(&self) -> String {
        let bit = |state| u8::from(state);
        format!(
            "e{}i{}p{}r{}q{}",
            bit(self.event_idx),
            bit(self.indirect),
            bit(self.packed),
            self.ring,
            self.queues
        )
    }

    fn disk(&self) -> Disk {
        Disk::new(&self.id(), Backend::ram(SIZE))
            .transport(self.transport)
            .event_idx(self.event_idx)
            .indirect_desc(self.indirect)
            .packed(self.packed)
            .queue_size(self.ring)
            .num_queues(self.queues)
    }

    /// The features are what was asked for, and each of the queues serves verified I/O. All in two
    /// scripts: there are many of these tests, and a script takes longer to start than to run.
    fn test(&self, lab: &Lab, vm: &Vm) -> Result<()> {
        let device = vm.virtio_device(&self.id())?;
        let text = vm.sh_for(
            secs(120),
            &format!(
                "device=/sys/bus/virtio/devices/{device}; name=$(ls $device/block) || exit 1
                 completions() {{
                     echo $(sed -n 's/^completions //p' {DEBUGFS}/$name/queue*)
                 }}
                 cat $device/features
                 completions
                 {} >/tmp/fio 2>&1 || {{ cat /tmp/fio; exit 1; }}
                 completions
                 cat /sys/block/$name/inflight",
                self.fio(lab)
            ),
        )?;
        let lines: Vec<_> = text.lines().collect();
        let [features, before, after, inflight] = lines[..] else {
            bail!("the script printed {text:?}");
        };
        self.expect_features(&feature_names(features))?;
        let numbers = |line: &str| -> Result<Vec<u64>> {
            Ok(line
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?)
        };
        let (before, after) = (numbers(before)?, numbers(after)?);
        let queues = usize::from(self.queues).min(self.vcpus as usize);
        expect("the number of queues", after.len(), queues)?;
        for (queue, (before, after)) in before.iter().zip(&after).enumerate() {
            // Each job writes 2 MiB in blocks of 64 KiB at most, and reads them again.
            ensure!(
                after - before >= 64,
                "queue {queue} of {queues} completed but {} requests",
                after - before
            );
        }
        expect(
            "the number of requests in flight",
            numbers(inflight)?,
            vec![0, 0],
        )
    }

    fn expect_features(&self, accepted: &[String]) -> Result<()> {
        for (feature, right) in [
            ("VIRTIO_F_VERSION_1", true),
            ("VIRTIO_RING_F_EVENT_IDX", self.event_idx),
            ("VIRTIO_RING_F_INDIRECT_DESC", self.indirect),
            ("VIRTIO_F_RING_PACKED", self.packed),
            ("VIRTIO_BLK_F_MQ", self.queues > 1),
        ] {
            let found = accepted.iter().any(|name| name == feature);
            expect(feature, found, right)?;
        }
        Ok(())
    }

    /// A job on the first CPU and one on the last, in regions of their own.
    fn fio(&self, lab: &Lab) -> String {
        let last_cpu = self.vcpus - 1;
        let seconds = lab.scale("", "--runtime=10 --time_based");
        format!(
            "fio --direct=1 --thread --clocksource=clock_gettime --filename=/dev/$name \
             --rw=randwrite --bsrange=512-64k --size=2m --iodepth=32 --verify=crc32c {seconds} \
             --name=a --ioengine=io_uring --cpus_allowed=0 \
             --name=b --ioengine=libaio --offset=4m --cpus_allowed={last_cpu}"
        )
    }
}

fn combinations(transport: Transport, vcpus: u32) -> Vec<Combination> {
    let mut all = Vec::new();
    for bits in 0..8u8 {
        for ring in [4, 16, 256] {
            for queues in [1, 2, 8] {
                all.push(Combination {
                    transport,
                    event_idx: bits & 1 != 0,
                    indirect: bits & 2 != 0,
                    packed: bits & 4 != 0,
                    ring,
                    queues,
                    vcpus,
                });
            }
        }
    }
    all
}

pub fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    // How many disks a machine can have, and how many fit into its interrupt vectors.
    for (transport, disks) in [(Transport::Pci, 24), (Transport::Mmio, 8)] {
        for vcpus in [1, 2] {
            for chunk in combinations(transport, vcpus).chunks(disks) {
                groups.push(group(chunk.to_vec()));
            }
        }
    }
    groups
}

fn group(combinations: Vec<Combination>) -> Group {
    let disks: Vec<_> = combinations.iter().map(Combination::disk).collect();
    let vcpus = combinations[0].vcpus;
    let mut group = Group::new("matrix").guest(move |_| {
        let mut vm = Vm::builder()
            .vcpus(vcpus)
            // Without it virtio-mmio is the legacy interface, which has neither packed rings nor
            // more than 32 features.
            .qemu_arguments(["-global", "virtio-mmio.force-legacy=off"]);
        for disk in &disks {
            vm = vm.disk(disk.clone());
        }
        Ok(vm)
    });
    for combination in combinations {
        group = group.shared(combination.name(), move |lab, vm| combination.test(lab, vm));
    }
    group
}
