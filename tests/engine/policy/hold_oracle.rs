//! An oracle of holds: the open reservations of a key.

use std::collections::HashMap;

use tollgate::policy::operation::HoldId;
use tollgate::policy::units::Units;

/// The units of a reservation, and the time from which it cannot be settled.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) units: Units,
    pub(crate) until: u64,
}

/// The open reservations of a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds(HashMap<HoldId, Held>);

impl Holds {
    pub(crate) fn find(&self, hold: &HoldId, now: u64) -> Option<Held> {
        self.0.get(hold).cloned().filter(|held| now < held.until)
    }

    /// The same, if its units have as many numbers as others.
    pub(crate) fn find_like(&self, hold: &HoldId, now: u64, units: &Units) -> Option<Held> {
        let numbers = units.numbers().len();
        self.find(hold, now).filter(|held| held.units.numbers().len() == numbers)
    }

    /// Settles a reservation that has not ended.
    pub(crate) fn take(&mut self, hold: &HoldId, now: u64, actual: &Units) -> Option<Held> {
        let found = self.find_like(hold, now, actual);
        if found.is_some() {
            self.0.remove(hold);
        }
        found
    }

    /// Later reservations drop those that have ended.
    pub(crate) fn put(&mut self, hold: HoldId, units: Units, until: u64, now: u64) {
        self.0.retain(|_, held| now < held.until);
        self.0.insert(hold, Held { units, until });
    }
}
