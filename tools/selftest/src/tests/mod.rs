// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The tests, one concept a file. What takes longest comes first.

mod cache_mode;
mod capacity;
mod coalescing;
mod comparison;
mod counters;
mod crash;
mod data;
mod device;
mod dying;
mod filesystem;
mod hotplug;
mod identity;
mod iommu;
mod iothreads;
mod kicks;
mod life_cycle;
mod limits;
mod matrix;
mod names;
mod parameters;
mod partitions;
mod poll;
mod pressure;
mod processors;
mod queues;
mod ranges;
mod read_only;
mod reboot;
mod reset;
mod restart;
mod ring;
mod root;
mod sleep;
mod suppression;
mod top;
mod transports;
mod vdpa;
mod wakeups;
mod zoned;

use crate::suite::Group;

/// All tests.
pub fn all() -> Vec<Group> {
    [
        life_cycle::groups(),
        sleep::groups(),
        pressure::groups(),
        data::groups(),
        coalescing::groups(),
        device::groups(),
        reset::groups(),
        processors::groups(),
        reboot::groups(),
        root::groups(),
        hotplug::groups(),
        iothreads::groups(),
        transports::groups(),
        dying::groups(),
        crash::groups(),
        iommu::groups(),
        vdpa::groups(),
        matrix::groups(),
        queues::groups(),
        poll::groups(),
        kicks::groups(),
        suppression::groups(),
        wakeups::groups(),
        zoned::groups(),
        filesystem::groups(),
        comparison::groups(),
        cache_mode::groups(),
        identity::groups(),
        ranges::groups(),
        capacity::groups(),
        counters::groups(),
        limits::groups(),
        names::groups(),
        read_only::groups(),
        restart::groups(),
        ring::groups(),
        parameters::groups(),
        partitions::groups(),
        top::groups(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod registry {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let groups = super::all();
        let names: Vec<_> = groups
            .iter()
            .flat_map(|group| group.tests.iter().map(|test| (&group.name, &test.name)))
            .collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
