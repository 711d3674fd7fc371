//! The state of the sliding window: units by bucket, as running totals.
//!
//! With totals, the units that count are the difference of two numbers, and a binary search finds
//! the expired buckets. So no call visits all buckets, and each bucket is dropped once.

use std::collections::VecDeque;

use super::entry::UnitEntry;
use crate::algorithm::KeyState;
use crate::time::Micros;

/// The state of a key: nothing, or the admitted units by bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlidingState(pub(crate) Option<Box<Buckets>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The buckets, by increasing ends.
    pub(crate) entries: VecDeque<UnitEntry>,
    /// The running total before the oldest entry.
    pub(crate) before: u64,
    /// The time from which no bucket counts, under the numbers of the last writer.
    pub(crate) reset_at: Micros,
}

impl KeyState for SlidingState {
    fn reset_at(&self) -> Micros {
        self.0.as_ref().map_or(0, |buckets| buckets.reset_at)
    }

    fn drains(&self) -> bool {
        true
    }
}

/// The buckets that count.
#[derive(Clone, Copy)]
pub(crate) struct Counted<'a> {
    buckets: &'a Buckets,
    /// The number of the oldest buckets that do not count.
    pub(crate) gone: usize,
    /// The running total before the first bucket that counts.
    pub(crate) before: u64,
}

impl Counted<'_> {
    /// The units that count.
    pub(crate) fn used(self) -> u64 {
        match self.buckets.entries.back() {
            Some(newest) if self.gone < self.buckets.entries.len() => {
                newest.after.wrapping_sub(self.before)
            }
            _ => 0,
        }
    }

    /// The end of the bucket after whose expiry at least `units` units no longer count.
    pub(crate) fn end_with(self, units: u64) -> Option<Micros> {
        let Buckets { entries, before, .. } = self.buckets;
        let units = units + self.before.wrapping_sub(*before);
        let short = entries.partition_point(|entry| entry.after.wrapping_sub(*before) < units);
        entries.get(short).map(|entry| entry.time)
    }
}

impl Buckets {
    /// The buckets that count at the time `now`: those that end later than `horizon`.
    pub(crate) fn counted(&self, now: Micros, horizon: Micros) -> Counted<'_> {
        let counts = |entry: &UnitEntry| entry.time > horizon;
        let gone = match self.entries.front() {
            _ if now >= self.reset_at => self.entries.len(),
            Some(oldest) if counts(oldest) => 0,
            _ => self.entries.partition_point(|entry| !counts(entry)),
        };
        let last_gone = gone.checked_sub(1).and_then(|last| self.entries.get(last));
        let before = last_gone.map_or(self.before, |entry| entry.after);
        Counted { buckets: self, gone, before }
    }

    /// Removes up to `units` units from the bucket that ends at `end`, if it counts, and returns
    /// how many.
    pub(crate) fn give_back(&mut self, units: u64, now: Micros, end: Micros) -> u64 {
        let Counted { gone, before, .. } = self.counted(now, end.saturating_sub(1));
        let Some(entry) = self.entries.get(gone).filter(|entry| entry.time == end) else {
            return 0;
        };
        let given = units.min(entry.after.wrapping_sub(before));
        for entry in self.entries.range_mut(gone..) {
            entry.after = entry.after.wrapping_sub(given);
        }
        given
    }
}
