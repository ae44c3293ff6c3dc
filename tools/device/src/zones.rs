// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The zones of a host-managed disk, and what each request makes of them (virtio 1.3, section
//! 5.2.6 "Device Operation").
//!
//! Nothing here touches the disk's content: a write is checked, carried out by the caller, and
//! recorded. What the standard leaves open is decided as follows. A zone can be finished in every
//! state in which it can be written, as in the standards for disks (ZBC). If a zone is to be opened
//! and no more may be, the first one that is open implicitly is closed.

mod report;
mod zone;

pub use report::{Lie, DESCRIPTOR, REPORT_HEADER};
pub use zone::{State, Zone};

use crate::request::SECTOR;

/// How a disk is divided. All but the granularity counts sectors or zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The size of the disk.
    pub disk: u64,
    /// The size of a zone; the last one may be smaller.
    pub zone: u64,
    /// How much of a zone can be written.
    pub capacity: u64,
    /// How many zones at the start are conventional.
    pub conventional: u64,
    /// How many zones may be open at a time; 0: any number.
    pub max_open: u32,
    /// How many zones may be open or closed at a time; 0: any number.
    pub max_active: u32,
    /// The longest append; 0: there is none.
    pub max_append: u32,
    /// What writes are a multiple of, in bytes.
    pub granularity: u32,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request does not fit the zone or its state (`ZONE_INVALID_CMD`).
    Invalid,
    /// A write begins off the write pointer, or ends off the granularity (`ZONE_UNALIGNED_WP`).
    Unaligned,
    /// Too many zones would be open (`ZONE_OPEN_RESOURCE`).
    OpenResource,
    /// Too many zones would be active (`ZONE_ACTIVE_RESOURCE`).
    ActiveResource,
    /// There is no such request (`UNSUPP`).
    Unsupported,
}

/// What a request does with one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open it explicitly.
    Open,
    /// Close it.
    Close,
    /// Make it full.
    Finish,
    /// Make it empty.
    Reset,
}

/// The zones of a disk.
#[derive(Debug)]
pub struct Zones {
    geometry: Geometry,
    zones: Vec<Zone>,
}

impl Zones {
    /// The zones of a new disk: conventional, or empty.
    pub fn new(geometry: Geometry) -> Self {
        let starts = (0..geometry.disk).step_by(geometry.zone as usize);
        let zones = starts.zip(0..).map(|(start, index)| {
            let length = geometry.zone.min(geometry.disk - start);
            let is_conventional = index < geometry.conventional;
            Zone {
                start,
                length,
                capacity: if is_conventional {
                    length
                } else {
                    length.min(geometry.capacity)
                },
                state: if is_conventional {
                    State::Conventional
                } else {
                    State::Empty
                },
                written: start,
            }
        });
        Self {
            zones: zones.collect(),
            geometry,
        }
    }

    /// All zones.
    pub fn all(&self) -> &[Zone] {
        &self.zones
    }

    /// Breaks a zone: `state` is one that no request leads to.
    pub fn break_down(&mut self, index: usize, state: State) -> Option<()> {
        self.zones.get_mut(index)?.state = state;
        Some(())
    }

    /// The zone of a sector.
    fn index_of(&self, sector: u64) -> Result<usize, Refusal> {
        let index = usize::try_from(sector / self.geometry.zone).ok();
        let index = index.filter(|index| *index < self.zones.len() && sector < self.geometry.disk);
        index.ok_or(Refusal::Invalid)
    }

    /// The zone of `count` sectors, which must lie in one zone, unless all are conventional.
    fn index_of_range(&self, sector: u64, count: u64) -> Result<usize, Refusal> {
        let index = self.index_of(sector)?;
        let end = sector.checked_add(count).ok_or(Refusal::Invalid)?;
        let last = self.index_of(end.saturating_sub(1).max(sector))?;
        let touched = &self.zones[index..=last];
        let conventional = touched.iter().all(|zone| zone.state == State::Conventional);
        if index != last && !conventional {
            return Err(Refusal::Invalid);
        }
        Ok(index)
    }

    /// The zone that begins at a sector, if it is a sequential one.
    fn index_of_start(&self, sector: u64) -> Result<usize, Refusal> {
        let index = self.index_of(sector)?;
        let zone = &self.zones[index];
        if zone.start != sector || zone.state == State::Conventional {
            return Err(Refusal::Invalid);
        }
        Ok(index)
    }

    /// Lets a read pass. Returns the first sector that was not written since the last reset; what
    /// is there and behind, up to the end of the zone, is to be read as zeroes.
    pub fn check_read(&self, sector: u64, count: u64) -> Result<u64, Refusal> {
        let zone = &self.zones[self.index_of_range(sector, count)?];
        match zone.state {
            State::Offline => Err(Refusal::Invalid),
            State::Conventional => Ok(u64::MAX),
            _ => Ok(zone.written),
        }
    }

    /// Lets a write pass. It has to be recorded when it has succeeded.
    pub fn check_write(&self, sector: u64, count: u64) -> Result<(), Refusal> {
        let index = self.index_of_range(sector, count)?;
        let zone = &self.zones[index];
        if zone.state == State::Conventional {
            return Ok(());
        }
        let pointer = zone.write_pointer().ok_or(Refusal::Invalid)?;
        if sector != pointer {
            return Err(Refusal::Unaligned);
        }
        self.check_end(zone, count)?;
        self.check_resources(index)
    }

    /// Lets an append to the zone at `sector` pass, and returns where its data goes. It has to be
    /// recorded as a write there when it has succeeded.
    pub fn check_append(&self, sector: u64, count: u64) -> Result<u64, Refusal> {
        let max = u64::from(self.geometry.max_append);
        if max == 0 {
            return Err(Refusal::Unsupported);
        }
        let index = self.index_of_start(sector)?;
        let zone = &self.zones[index];
        let pointer = zone.write_pointer().ok_or(Refusal::Invalid)?;
        if count > max {
            return Err(Refusal::Invalid);
        }
        self.check_end(zone, count)?;
        self.check_resources(index)?;
        Ok(pointer)
    }

    /// Whether `count` sectors at the write pointer end where a write may end.
    fn check_end(&self, zone: &Zone, count: u64) -> Result<(), Refusal> {
        let end = zone.written.checked_add(count).ok_or(Refusal::Invalid)?;
        let granularity = u64::from(self.geometry.granularity.max(1));
        if (u128::from(end) * u128::from(SECTOR)) % u128::from(granularity) != 0 {
            return Err(Refusal::Unaligned);
        }
        if end > zone.limit() {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    /// Whether a zone may be open.
    fn check_resources(&self, index: usize) -> Result<(), Refusal> {
        let state = self.zones[index].state;
        let count = |counts: fn(State) -> bool| {
            let zones = self.zones.iter().filter(|zone| counts(zone.state));
            zones.count() as u64
        };
        let is_used_up = |max: u32, counts| max > 0 && count(counts) >= u64::from(max);
        if !state.is_active() && is_used_up(self.geometry.max_active, State::is_active) {
            return Err(Refusal::ActiveResource);
        }
        let can_close = |zone: &Zone| zone.state == State::ImplicitlyOpen;
        if !state.is_open()
            && is_used_up(self.geometry.max_open, State::is_open)
            && !self.zones.iter().any(can_close)
        {
            return Err(Refusal::OpenResource);
        }
        Ok(())
    }

    /// Opens a zone for which the resources were checked, and closes another one if that is
    /// necessary.
    fn enter(&mut self, index: usize, state: State) {
        let max = self.geometry.max_open as usize;
        let open = self.zones.iter().filter(|zone| zone.state.is_open());
        if !self.zones[index].state.is_open() && max > 0 && open.count() >= max {
            let mut zones = self.zones.iter_mut();
            if let Some(zone) = zones.find(|zone| zone.state == State::ImplicitlyOpen) {
                zone.close();
            }
        }
        self.zones[index].state = state;
    }

    /// Records a write that has passed and succeeded.
    pub fn record(&mut self, sector: u64, count: u64) {
        let Ok(index) = self.index_of(sector) else {
            return;
        };
        if self.zones[index].state == State::Conventional || count == 0 {
            return;
        }
        if !self.zones[index].state.is_open() {
            self.enter(index, State::ImplicitlyOpen);
        }
        let zone = &mut self.zones[index];
        zone.written = sector + count;
        if zone.written == zone.limit() {
            zone.state = State::Full;
        }
    }

    /// Does something with the zone that begins at `sector`.
    pub fn act(&mut self, action: Action, sector: u64) -> Result<(), Refusal> {
        let index = self.index_of_start(sector)?;
        let state = self.zones[index].state;
        if matches!(state, State::ReadOnly | State::Offline) {
            return Err(Refusal::Invalid);
        }
        match action {
            Action::Open if state == State::Full => return Err(Refusal::Invalid),
            Action::Open => {
                self.check_resources(index)?;
                self.enter(index, State::ExplicitlyOpen);
            }
            Action::Close if !state.is_active() => return Err(Refusal::Invalid),
            Action::Close => self.zones[index].close(),
            Action::Finish if state == State::Full => {}
            Action::Finish => {
                self.check_resources(index)?;
                self.enter(index, State::Full);
            }
            Action::Reset => self.zones[index].reset(),
        }
        Ok(())
    }

    /// Makes all zones empty that can be.
    pub fn reset_all(&mut self) {
        for zone in &mut self.zones {
            if zone.state.is_active() || zone.state == State::Full {
                zone.reset();
            }
        }
    }
}
