// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Every combination of transport, ring features, ring size, number of queues and of vCPUs: each is
//! a disk and a test; as many disks as a machine can have share a guest, and are busy together.

use crate::fio::{self, Job};
use crate::guest::{expect, secs, DEBUGFS};
use crate::lab::Lab;
use crate::suite::Group;
use anyhow::{anyhow, ensure, Context, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
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

    /// The features are what was asked for, and each of the queues has served verified I/O.
    fn test(&self, seen: &Seen) -> Result<()> {
        self.expect_features(&feature_names(&seen.features))?;
        for job in &seen.jobs {
            ensure!(job.error == 0, "fio failed: {job:?}");
            ensure!(
                job.report.writes >= 32 && job.report.reads >= 32,
                "fio did but {job:?}"
            );
        }
        expect("the number of jobs", seen.jobs.len(), 2)?;
        let queues = usize::from(self.queues).min(self.vcpus as usize);
        expect("the number of queues", seen.completions.len(), queues)?;
        for (queue, count) in seen.completions.iter().enumerate() {
            // Each job writes 2 MiB in blocks of 64 KiB at most, and reads them again.
            ensure!(
                *count >= 64,
                "queue {queue} of {queues} completed but {count} requests"
            );
        }
        expect("the number of requests in flight", seen.in_flight, 0)
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
    fn jobs(&self, disk: &str) -> String {
        let (id, last_cpu) = (self.id(), self.vcpus - 1);
        format!(
            " --name={id} --filename=/dev/{disk} --ioengine=io_uring --cpus_allowed=0 \
              --name={id} --filename=/dev/{disk} --ioengine=libaio --cpus_allowed={last_cpu} \
              --offset=4m"
        )
    }
}

/// What was seen of a disk.
#[derive(Debug, Default)]
struct Seen {
    /// As sysfs shows them.
    features: String,
    /// What fio did on it.
    jobs: Vec<Job>,
    /// Requests that each queue completed meanwhile.
    completions: Vec<u64>,
    /// Requests that were left.
    in_flight: u64,
}

/// What was seen of the disks of a guest, by their ids.
type AllSeen = BTreeMap<String, Seen>;

/// Runs fio on all disks at the same time: it takes longer to start than to run on one.
fn observe(lab: &Lab, vm: &Vm, disks: &[Combination]) -> Result<AllSeen> {
    let mut all = AllSeen::new();
    let mut names = Vec::new();
    let mut jobs = String::new();
    for disk in disks {
        let name = vm.block_device(&disk.id())?;
        jobs += &disk.jobs(&name);
        names.push(name);
    }
    let before = counts(vm, &names)?;
    let seconds = lab.scale("", "--runtime=60 --time_based");
    let common = "--rw=randwrite --bsrange=512-64k --size=2m --iodepth=32 --verify=crc32c";
    let fio = fio::start(vm, secs(300), &format!("{common} {seconds}{jobs}"))?;
    let mut jobs = fio.jobs()?;
    let after = counts(vm, &names)?;
    for (disk, (before, after)) in disks.iter().zip(before.iter().zip(after)) {
        let (of_it, others) = jobs.into_iter().partition(|job| job.name == disk.id());
        jobs = others;
        let seen = Seen {
            features: after.features,
            jobs: of_it,
            completions: std::iter::zip(&after.completions, &before.completions)
                .map(|(after, before)| after - before)
                .collect(),
            in_flight: after.in_flight,
        };
        all.insert(disk.id(), seen);
    }
    Ok(all)
}

/// What has been counted of disks until now, in `completions`, and what else there is to see.
fn counts(vm: &Vm, names: &[String]) -> Result<Vec<Seen>> {
    let text = vm.sh(&format!(
        "for name in {}; do
             cat /sys/block/$name/device/features
             echo $(sed -n 's/^completions //p' {DEBUGFS}/$name/queue*)
             awk '{{ print $1 + $2 }}' /sys/block/$name/inflight
         done",
        names.join(" ")
    ))?;
    let lines: Vec<_> = text.lines().collect();
    expect("the number of lines", lines.len(), 3 * names.len())?;
    let disk = |lines: &[&str]| {
        let counts = lines[1].split_whitespace().map(str::parse);
        Ok(Seen {
            features: lines[0].to_owned(),
            completions: counts.collect::<Result<_, _>>()?,
            in_flight: lines[2].parse()?,
            ..Seen::default()
        })
    };
    lines.chunks(3).map(disk).collect()
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
    let all: Arc<[_]> = combinations.into();
    let seen = Arc::new(OnceLock::new());
    for (index, combination) in all.iter().enumerate() {
        let (all, seen) = (Arc::clone(&all), Arc::clone(&seen));
        group = group.shared(combination.name(), move |lab, vm| {
            // What went wrong for all is what each test fails with.
            let seen = seen.get_or_init(|| observe(lab, vm, &all).map_err(|e| format!("{e:#}")));
            let seen = seen.as_ref().map_err(|error| anyhow!("{error}"))?;
            let disk = all[index];
            disk.test(seen.get(&disk.id()).context("the disk was not seen")?)
        });
    }
    group
}
