//! The state of the sliding logs: the calls of a key in order of time, with cumulative units.
//!
//! The units of any window are one subtraction once its first entry is found, in O(log n). An entry
//! takes 16 bytes.

use std::collections::VecDeque;
use std::ops::Range;

use crate::algorithm::KeyState;
use crate::algorithm::shared::entry::UnitEntry;
use crate::algorithm::sliding_log::MAX_DROPPED;
use crate::time::Micros;

/// An array is shrunk if its capacity is above this and above four times its length.
const SMALL: usize = 64;

/// The calls of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogState {
    entries: VecDeque<UnitEntry>,
    /// The units before the first entry.
    before: u64,
    /// The latest time at which an entry was written. No later call is decided at an earlier time.
    /// The newest entry's time may be later than this, because it is rounded up.
    pub(crate) seen: Micros,
    /// The number of newest units that are kept, if refused calls push out older ones; otherwise 0.
    pub(crate) keep: u64,
    /// The time at which the windows of all writers have passed; 0 without entries.
    pub(crate) reset_at: Micros,
}

/// Rounds a length of time up by less than a quarter: to 4 to 7 times a power of two, and at least
/// 4.
///
/// In Redis each entry stores in one byte how long the log is needed. With that byte an entry has
/// 12 bytes, and takes no more memory than one of 11.
pub(crate) const fn span_of(length: Micros) -> Micros {
    let length = if length < 4 { 4 } else { length };
    let step = 1 << (length.ilog2() - 2);
    length.div_ceil(step) * step
}

impl KeyState for LogState {
    fn reset_at(&self) -> Micros {
        self.reset_at
    }

    fn drains(&self) -> bool {
        // The units of a fresh log are at least a window old: no rolling window contains them.
        true
    }
}

impl LogState {
    /// A log of `units` units at one time; empty without units.
    pub(crate) fn of(units: u64, time: Micros) -> Self {
        let mut log = Self::default();
        if units > 0 {
            log.entries.push_back(UnitEntry { time, after: units });
        }
        log
    }

    /// The number of entries, including expired ones that have not been dropped.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The time of the newest entry.
    pub(crate) fn newest(&self) -> Option<Micros> {
        self.entries.back().map(|entry| entry.time)
    }

    /// The cumulative units.
    pub(crate) fn after(&self) -> u64 {
        self.entries.back().map_or(self.before, |entry| entry.after)
    }

    /// The units in a window of this length that ends at a time: those of entries less than a
    /// window old.
    pub(crate) fn used(&self, at: Micros, window: Micros) -> u64 {
        let first = self.entries.partition_point(|entry| entry.time + window <= at);
        let before = if first == 0 { self.before } else { self.entries[first - 1].after };
        self.after() - before
    }

    /// The time of the entry that contains the unit with this cumulative number, counted from 1.
    pub(crate) fn time_of_unit(&self, number: u64) -> Option<Micros> {
        let index = self.entries.partition_point(|entry| entry.after < number);
        self.entries.get(index).map(|entry| entry.time)
    }

    /// Adds units, to the newest entry if it has the same time and `shared` is set.
    pub(crate) fn push(&mut self, units: u64, time: Micros, shared: bool) {
        let after = self.after() + units;
        match self.entries.back_mut() {
            Some(newest) if shared && newest.time == time => newest.after = after,
            _ => self.entries.push_back(UnitEntry { time, after }),
        }
    }

    /// Drops at most `most` of the oldest entries: those with a time up to `up_to`, and those with
    /// a cumulative number up to `units`.
    pub(crate) fn drop_oldest(&mut self, most: usize, up_to: Option<Micros>, units: u64) {
        for _ in 0..most {
            match self.entries.front() {
                Some(old) if Some(old.time) <= up_to || old.after <= units => {
                    self.before = old.after;
                    self.entries.pop_front();
                }
                _ => break,
            }
        }
        self.give_memory_back();
    }

    /// Removes up to `units` units of the entries of this time, of those after the cumulative number
    /// `first`, and returns how many. If many entries follow, it removes the oldest units instead. A
    /// log without units becomes a new one.
    pub(crate) fn refund(&mut self, units: u64, time: Micros, first: u64) -> u64 {
        let start = self.entries.partition_point(|entry| entry.time < time);
        let end = self.entries.partition_point(|entry| entry.time <= time);
        let before = |index: usize| match index {
            0 => self.before,
            index => self.entries[index - 1].after,
        };
        let (own_from, own_until) = (before(start).max(first), before(end));
        // Units that were pushed out would count again if others came back before them.
        let is_near = self.keep == 0 && self.entries.len() - start <= MAX_DROPPED;
        let from = if is_near { own_from } else { first };
        let given = units.min(own_until.saturating_sub(from));
        if given == 0 {
            return 0;
        }
        if given == self.after() - first {
            *self = Self::default();
        } else if is_near {
            self.remove_own(start..end, own_until - given, given);
        } else {
            self.forget_up_to(first + given);
        }
        given
    }

    /// Removes the units after the cumulative number `left` from entries, and lowers the numbers of
    /// those that follow.
    fn remove_own(&mut self, own: Range<usize>, left: u64, given: u64) {
        let span = self.newest().map_or(0, |newest| self.reset_at - newest);
        for entry in self.entries.range_mut(own.clone()) {
            entry.after = entry.after.min(left);
        }
        for entry in self.entries.range_mut(own.end..) {
            entry.after -= given;
        }
        // Entries without units.
        let before = if own.start == 0 { self.before } else { self.entries[own.start - 1].after };
        let mut last = before;
        let mut index = own.start;
        for _ in own {
            if self.entries[index].after == last {
                self.entries.remove(index);
            } else {
                last = self.entries[index].after;
                index += 1;
            }
        }
        if let Some(newest) = self.newest() {
            self.seen = self.seen.min(newest);
            self.reset_at = newest + span;
        }
        self.give_memory_back();
    }

    /// Removes the units up to this cumulative number. A log without units becomes a new one.
    pub(crate) fn forget_up_to(&mut self, units: u64) {
        if units >= self.after() {
            *self = Self::default();
            return;
        }
        let gone = self.entries.partition_point(|entry| entry.after <= units);
        self.entries.drain(..gone);
        self.before = units;
        self.give_memory_back();
    }

    fn give_memory_back(&mut self) {
        if self.entries.capacity() > SMALL.max(4 * self.entries.len()) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    /// The same log with cumulative numbers that are higher by `by`.
    #[cfg(test)]
    pub(crate) fn raised(mut self, by: u64) -> Self {
        self.before += by;
        self.entries.iter_mut().for_each(|entry| entry.after += by);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MAX_TIME;

    #[test]
    fn a_span_is_rounded_up_by_less_than_a_quarter() {
        for exponent in 0..52 {
            for length in [1, 3, 4, 5, 6, 7].map(|times| (times << exponent).min(MAX_TIME)) {
                for length in [length.saturating_sub(1).max(1), length, (length + 1).min(MAX_TIME)]
                {
                    let span = span_of(length);
                    assert!(length <= span && span < length + length / 4 + 4, "{length}");
                    assert_eq!(span_of(span), span, "{length}");
                }
            }
        }
    }
}
