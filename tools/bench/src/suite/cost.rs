// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Guest cost: instructions per I/O above the floor, counted by the plugin.

use crate::suite::catalogue::{Catalogue, Scenario};
use crate::suite::environment::Environment;
use crate::suite::extent::Extent;
use crate::suite::results::{DiskRecord, SettingRecord};
use anyhow::{Context, Result};
use cost::{measure, Outcome, Setting};
use measuring::Progress;
use std::collections::BTreeMap;

/// Functions of each profile that are kept.
const TOP: usize = 40;

/// What a scenario's guest has told.
pub struct Cost {
    /// One element a setting, after the floor.
    pub outcomes: Vec<Outcome>,
    /// The disk.
    pub disk: DiskRecord,
    /// Where it was measured.
    pub environment: Environment,
}

/// The settings for the record.
pub fn settings(catalogue: &Catalogue, scenario: &Scenario) -> Result<Vec<SettingRecord>> {
    let names = scenario.settings.iter();
    names
        .map(|name| Ok(SettingRecord::of(catalogue.setting(name)?)))
        .collect()
}

/// The number of steps that [`measure()`] reports.
pub fn steps(scenario: &Scenario, extent: Extent) -> u64 {
    u64::from(extent.rounds) * (scenario.settings.len() as u64 + 2)
}

/// Measures all settings and the floor in one boot.
pub fn measure(
    catalogue: &Catalogue,
    scenario: &Scenario,
    extent: Extent,
    progress: &mut Progress,
) -> Result<Cost> {
    let mut settings = vec![Setting::floor()];
    for name in &scenario.settings {
        let setting = catalogue.setting(name)?;
        settings.push(Setting {
            name: setting.name.clone(),
            driver: Some(setting.driver),
            parameters: setting.knobs.clone(),
        });
    }
    let disks = scenario.disks();
    let device = disks.values().next().context("there is no disk")?;
    let profile = !scenario.quick;
    let mut guest = cost::Guest::boot(|id| device.disk(id), true, profile)?;
    let passes = measure::Extent {
        passes: u16::try_from(extent.rounds).unwrap_or(u16::MAX),
        ios: extent.ios,
        iodepth: scenario.iodepth,
    };
    let results = measure::all(&mut guest, &settings, passes, progress)?;
    let environment = Environment::ask(guest.vm(), scenario.vcpus)?;
    guest.shutdown()?;
    let outcomes = Outcome::all(&results.measured, TOP);
    let features = outcomes.iter().filter(|outcome| !outcome.is_floor());
    let features = features.map(|outcome| (outcome.driver.clone(), outcome.features.clone()));
    Ok(Cost {
        disk: DiskRecord {
            name: disks.keys().next().cloned().unwrap_or_default(),
            paced: device.is_paced(),
            properties: device.disk("cost")?.properties().clone(),
            features: BTreeMap::from_iter(features),
        },
        outcomes,
        environment,
    })
}
