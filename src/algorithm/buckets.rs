//! What the sliding window remembers of a key: units by bucket, as running totals.
//!
//! Totals make what counts a difference of two numbers, and what has expired a search by halving:
//! no call walks over the buckets, and each is dropped once.

use std::collections::VecDeque;

use super::State;
use super::entry::Entry;
use crate::time::Micros;

/// What is remembered of a key: nothing, or the units that were admitted, by bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlidingState(pub(super) Option<Box<Buckets>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Buckets {
    /// By their ends, which increase.
    pub(super) entries: VecDeque<Entry>,
    /// The running total before the oldest entry.
    pub(super) before: u64,
    /// When no entry counts any more, under the numbers that wrote last.
    pub(super) settled_at: Micros,
}

impl State for SlidingState {
    fn settled_at(&self) -> Micros {
        self.0.as_ref().map_or(0, |buckets| buckets.settled_at)
    }

    fn drains(&self) -> bool {
        true
    }
}

/// The entries that count.
#[derive(Clone, Copy)]
pub(super) struct Counted<'a> {
    buckets: &'a Buckets,
    /// So many at the old end do not.
    pub(super) gone: usize,
    /// The running total before the first that does.
    pub(super) before: u64,
}

impl Counted<'_> {
    /// The units that count.
    pub(super) fn used(self) -> u64 {
        match self.buckets.entries.back() {
            Some(newest) if self.gone < self.buckets.entries.len() => {
                newest.after.wrapping_sub(self.before)
            }
            _ => 0,
        }
    }

    /// The end of the first entry with which at least so many units will have ceased to count.
    pub(super) fn end_with(self, units: u64) -> Option<Micros> {
        let Buckets { entries, before, .. } = self.buckets;
        let units = units + self.before.wrapping_sub(*before);
        let short = entries.partition_point(|entry| entry.after.wrapping_sub(*before) < units);
        entries.get(short).map(|entry| entry.time)
    }
}

impl Buckets {
    /// What counts at the time `now` of what ends later than `horizon`.
    pub(super) fn counted(&self, now: Micros, horizon: Micros) -> Counted<'_> {
        let counts = |entry: &Entry| entry.time > horizon;
        let gone = match self.entries.front() {
            _ if now >= self.settled_at => self.entries.len(),
            Some(oldest) if counts(oldest) => 0,
            _ => self.entries.partition_point(|entry| !counts(entry)),
        };
        let last_gone = gone.checked_sub(1).and_then(|last| self.entries.get(last));
        let before = last_gone.map_or(self.before, |entry| entry.after);
        Counted { buckets: self, gone, before }
    }

    /// Takes up to so many units out of the entry that ends at `end`, if it counts, and tells how many.
    pub(super) fn give_back(&mut self, units: u64, now: Micros, end: Micros) -> u64 {
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
