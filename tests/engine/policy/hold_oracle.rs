//! An oracle of holds: the open reservations of a key.

use std::collections::HashMap;

use tollgate::policy::execute::LATE;
use tollgate::policy::operation::HoldId;
use tollgate::policy::units::Units;

/// The units of a reservation, and the time from which a settlement is late.
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

    /// The same, also if it has ended at most [`LATE`] ago.
    fn find_late(&self, hold: &HoldId, now: u64) -> Option<Held> {
        self.0.get(hold).cloned().filter(|held| now < held.until + LATE)
    }

    /// The same as [`find`](Self::find), if its units have as many numbers as others.
    pub(crate) fn find_like(&self, hold: &HoldId, now: u64, units: &Units) -> Option<Held> {
        let numbers = units.numbers().len();
        self.find(hold, now).filter(|held| held.units.numbers().len() == numbers)
    }

    /// Settles a reservation that has not ended, or not long ago.
    pub(crate) fn take(&mut self, hold: &HoldId, now: u64, actual: &Units) -> Option<Held> {
        let numbers = actual.numbers().len();
        let found = self.find_late(hold, now).filter(|held| held.units.numbers().len() == numbers);
        if found.is_some() {
            self.0.remove(hold);
        }
        found
    }

    /// Later reservations drop those that can no longer be settled.
    pub(crate) fn put(&mut self, hold: HoldId, units: Units, until: u64, now: u64) {
        self.0.retain(|_, held| now < held.until + LATE);
        self.0.insert(hold, Held { units, until });
    }
}
