// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The passes over all settings, and what is computed from the counts.
//!
//! The guest's timer and all else that happens as time passes costs instructions too: the more, the
//! slower the guest is, which depends on what else the machine does. So the floor's job is also
//! run stretched: the same reads, with pauses in which fio computes. What it costs more is the
//! price of time, told in ticks of the timer, and is taken away from each pass.

use anyhow::{ensure, Result};
use measuring::Progress;

use crate::guest::{Count, Guest};
use crate::job::Job;
use crate::profile::Profile;
use crate::report::{Measured, Pass};
use crate::settings::Setting;
use crate::symbols::Symbols;

/// What was measured.
pub struct Results {
    /// One element a setting.
    pub measured: Vec<Measured>,
    /// Kernel instructions of a tick, in each pass.
    pub tick: Vec<f64>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How often each setting is measured.
    pub passes: u16,
    /// I/Os of one job.
    pub ios: u64,
    /// How many of them are in flight.
    pub iodepth: u16,
}

impl Extent {
    /// The number of jobs that [`all`] runs.
    pub fn jobs(self, settings: &[Setting]) -> u64 {
        u64::from(self.passes) * (settings.len() as u64 + 1)
    }
}

/// Runs all passes, in each of which the settings take turns.
pub fn all(
    guest: &mut Guest,
    settings: &[Setting],
    extent: Extent,
    progress: &mut Progress,
) -> Result<Results> {
    let Extent {
        passes,
        ios,
        iodepth,
    } = extent;
    let job = Job::new(ios, iodepth);
    let mut features = vec![Vec::new(); settings.len()];
    let mut counts: Vec<Vec<(Count, f64)>> = settings.iter().map(|_| Vec::new()).collect();
    let mut stretched = Vec::new();
    for round in 1..=passes {
        for (index, setting) in settings.iter().enumerate() {
            progress.doing(&format!("pass {round}: {setting}"));
            let device = guest.select(setting)?;
            counts[index].push(guest.run(&device, &job)?);
            progress.done();
            if setting.is_floor() {
                progress.doing(&format!("pass {round}: {setting}, stretched"));
                stretched.push(guest.run(&device, &job.stretched())?.0);
                progress.done();
            } else {
                features[index] = guest.features()?;
            }
        }
    }

    let symbols = guest.symbols()?;
    let floors = std::iter::zip(settings, &counts).filter(|(setting, _)| setting.is_floor());
    let floors = floors.flat_map(|(_, counts)| counts);
    let ticks = std::iter::zip(floors, &stretched)
        .map(|((plain, _), stretched)| tick(plain, stretched, &symbols))
        .collect::<Result<Vec<_>>>()?;
    let tick = Profile::median(&ticks);
    let measured =
        std::iter::zip(settings, features)
            .zip(&counts)
            .map(|((setting, features), counts)| {
                let passes = counts.iter().map(|count| pass(count, &tick, &symbols, ios));
                let (passes, profiles) = passes.unzip();
                Measured {
                    setting: setting.clone(),
                    features,
                    passes,
                    profiles,
                }
            });
    Ok(Results {
        measured: measured.collect(),
        tick: ticks.iter().map(|tick| tick.total).collect(),
    })
}

/// What a stretched job costs more than a plain one, for each tick of the timer more.
fn tick(plain: &Count, stretched: &Count, symbols: &Symbols) -> Result<Profile> {
    let ticks = stretched.ticks.saturating_sub(plain.ticks);
    ensure!(
        ticks > 0,
        "the guest's timer ticked {} times in a job and {} times in a longer one",
        plain.ticks,
        stretched.ticks
    );
    let [plain, stretched] = [plain, stretched].map(|count| Profile::of(&count.window, symbols));
    Ok(stretched.minus(&plain).times(1.0 / ticks as f64))
}

fn pass(
    (count, iops): &(Count, f64),
    tick: &Profile,
    symbols: &Symbols,
    ios: u64,
) -> (Pass, Profile) {
    let counted = Profile::of(&count.window, symbols);
    let net = counted.minus(&tick.times(count.ticks as f64));
    let [counted, net] = [counted, net].map(|profile| profile.times(1.0 / ios as f64));
    let pass = Pass {
        kernel_instructions_per_io: net.total,
        kernel_instructions_per_io_with_ticks: counted.total,
        user_instructions_per_io: count.window.user as f64 / ios as f64,
        ticks: count.ticks,
        irq_per_kio: count.interrupts as f64 * 1000.0 / ios as f64,
        iops: *iops,
    };
    (pass, net)
}

#[cfg(test)]
mod tests {
    use marker::Window;

    use super::*;

    fn count(kernel: u64, ticks: u64) -> Count {
        Count {
            window: Window {
                kernel,
                ..Window::default()
            },
            ticks,
            interrupts: 3,
        }
    }

    #[test]
    fn the_price_of_time_is_taken_away() {
        let symbols = Symbols::parse("10 T one\n20 T two\n").unwrap();
        let tick = tick(&count(50_000, 10), &count(53_000, 25), &symbols).unwrap();
        assert_eq!(tick.total, 200.0);
        let (pass, profile) = pass(&(count(66_000, 30), 9.0), &tick, &symbols, 10);
        assert_eq!(pass.kernel_instructions_per_io_with_ticks, 6600.0);
        assert_eq!(pass.kernel_instructions_per_io, 6000.0);
        assert_eq!(profile.total, 6000.0);
        assert_eq!(pass.irq_per_kio, 300.0);
    }

    #[test]
    fn a_timer_that_stands_still_is_an_error() {
        let symbols = Symbols::parse("10 T one\n20 T two\n").unwrap();
        assert!(tick(&count(1, 10), &count(2, 10), &symbols).is_err());
    }
}
