//! The sliding window in buckets.
//!
//! Time is divided into buckets of `width` = ⌈window / buckets⌉ microseconds on the grid of the
//! epoch. What is admitted in a bucket stands in one entry: the bucket's end and the units. An
//! entry counts while its end is later than start(now) − buckets·width, where start(now) is the
//! start of the bucket that now lies in; so the bucket that the window only partly covers, the
//! (buckets + 1)th, counts in full.
//!
//! **Law:** at most limit units in **any** rolling window (half-open, [s, s + window)). A unit
//! admitted at t stands in an entry whose end is later than t, so it counts at least while
//! now − t < buckets·width, which is no less than the window; and all that count when a unit is
//! admitted are, with it, at most limit.
//!
//! **Promise:** a unit counts for at most (buckets + 1)·width, so a steady caller gets limit per
//! window·(buckets + 1)/buckets; more buckets promise more.
//!
//! **Refunds.** Units leave the bucket that they were put into, if it counts: at most what it holds, so
//! of what is admitted less what came back the law holds as it is. A bucket left with nothing stays
//! until its time.
//!
//! **Clock steps.** A call goes into the entry of its own bucket if that is newer than the newest
//! entry, and otherwise into the newest, so entries stay in order. After a step back entries count
//! for longer, and none counts for less long. Where the newest entry ends further ahead than a window
//! and a bucket, all that counts moves into one entry in the bucket of now: it counts for a window
//! from then on.
//!
//! **Changed numbers.** Entries are times, so any numbers can read them. The bound across a
//! change, several versions side by side included, is the larger limit in any rolling window of
//! the shorter length. A state also carries when it settles under the numbers that wrote it last:
//! from then on it counts for nobody, because a store may have dropped it. What buckets that are much
//! wider have counted moves as after a clock step.
//!
//! Source: the sliding window of the Go + Redis limiter, with its buckets in a hash (O(buckets)
//! a call) or in a list (O(1)). Unlike there, all that has expired is dropped at once and not one
//! bucket per call, nothing is found or deleted by its value, and the partly covered bucket counts:
//! without it twice the limit fits into a window.

use std::collections::VecDeque;

use super::buckets::{Buckets, Counted, SlidingState};
use super::entry::Entry;
use super::{Algorithm, ChargeRecord, InvalidNumber, Outcome, checked_length, checked_units};
use crate::time::Micros;

/// The most buckets that a window can have.
pub const MAX_BUCKETS: u64 = 1_000;

/// (buckets + 1)·width is at most this, 2^51 µs: so the end of an entry, as far ahead as a clock
/// step can leave it, and a window stay below 2^53.
const MAX_SPAN: Micros = 1 << 51;

/// How the buckets of a key are laid out in Redis. It changes no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketLayout {
    /// A list of running totals: as many commands a call for a thousand buckets as for ten.
    List,
    /// A hash of counts: a third of the memory for up to a hundred buckets and twice as much for a
    /// thousand, and a call reads all of them.
    Hash,
}

/// `limit` units in any rolling window, counted in buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindow {
    limit: u64,
    /// The length of a bucket.
    width: Micros,
    /// Buckets·width: the window, rounded up.
    span: Micros,
    layout: BucketLayout,
}

impl SlidingWindow {
    /// `limit` units in any `window`, counted in `buckets` buckets.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a limit or a window of 0 or too large to count exactly, more than
    /// [`MAX_BUCKETS`] buckets or none, and for a window that is with one bucket more than 2^51 µs.
    pub fn new(
        limit: u64,
        window: Micros,
        buckets: u64,
        layout: BucketLayout,
    ) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        checked_length("window", window)?;
        if !(1..=MAX_BUCKETS).contains(&buckets) {
            let rule = "must be a whole number from 1 to 1000";
            return Err(InvalidNumber { option: "buckets", rule });
        }
        let width = window.div_ceil(buckets);
        let span = buckets * width;
        if span + width > MAX_SPAN {
            let rule = "and one bucket more must be at most 2^51 µs (71 years)";
            return Err(InvalidNumber { option: "window", rule });
        }
        Ok(Self { limit, width, span, layout })
    }

    /// The length of a bucket.
    #[must_use]
    pub fn width(&self) -> Micros {
        self.width
    }

    /// The length of all buckets together: the window, rounded up.
    #[must_use]
    pub fn span(&self) -> Micros {
        self.span
    }

    /// How buckets are laid out in Redis.
    #[must_use]
    pub fn layout(&self) -> BucketLayout {
        self.layout
    }

    /// The start of the bucket that `now` lies in.
    fn start(&self, now: Micros) -> Micros {
        now - now % self.width
    }

    /// An entry counts if it ends later than this.
    fn horizon(&self, now: Micros) -> Micros {
        self.start(now).saturating_sub(self.span)
    }

    /// The first time at which an entry that ends at `end` does not count.
    fn ceases_at(&self, end: Micros) -> Micros {
        end.next_multiple_of(self.width) + self.span
    }

    /// Moves what a clock step, or a version with much wider buckets, has left further ahead than a
    /// window and a bucket into the bucket of now.
    fn repair(&self, buckets: &mut Buckets, now: Micros) {
        let own_end = self.start(now) + self.width;
        if buckets.entries.back().is_some_and(|newest| newest.time > own_end + self.span) {
            let used = buckets.counted(now, self.horizon(now)).used();
            let entry = Entry { time: own_end, after: used };
            let reset_at = self.ceases_at(own_end);
            *buckets = Buckets { entries: VecDeque::from([entry]), before: 0, reset_at };
        }
    }

    /// Puts units on the books, and drops the entries that do not count.
    fn admit(&self, buckets: &mut Buckets, now: Micros, cost: u64) {
        let Counted { gone, before, .. } = buckets.counted(now, self.horizon(now));
        buckets.entries.drain(..gone);
        buckets.before = before;
        let own_end = self.start(now) + self.width;
        let end = match buckets.entries.back_mut() {
            Some(newest) if newest.time >= own_end => {
                newest.after = newest.after.wrapping_add(cost);
                newest.time
            }
            newest => {
                let before = newest.map_or(before, |newest| newest.after);
                let after = before.wrapping_add(cost);
                buckets.entries.push_back(Entry { time: own_end, after });
                own_end
            }
        };
        buckets.reset_at = self.ceases_at(end);
    }
}

impl Algorithm for SlidingWindow {
    type State = SlidingState;

    #[inline]
    fn initial_state(&self) -> SlidingState {
        SlidingState(None)
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    fn charge(&self, state: &mut SlidingState, now: Micros, cost: u64) -> Outcome {
        if let Some(buckets) = &mut state.0 {
            self.repair(buckets, now);
        }
        let outcome = self.outcome(state, now, cost);
        if cost > 0 && outcome == Outcome::Admitted {
            self.admit(state.0.get_or_insert_default(), now, cost);
        }
        outcome
    }

    fn outcome(&self, state: &SlidingState, now: Micros, cost: u64) -> Outcome {
        match cost {
            0 => Outcome::Admitted,
            _ if cost > self.limit => Outcome::Impossible,
            _ if cost > self.remaining(state, now) => Outcome::Refused,
            _ => Outcome::Admitted,
        }
    }

    /// The oldest bucket that ends after the units were taken gives back at most what it holds. A key
    /// of which nothing counts any more is as if never used.
    fn refund(
        &self,
        state: &mut SlidingState,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
    ) -> u64 {
        let Some(buckets) = &mut state.0 else { return 0 };
        // What stands in another entry than its own bucket's may have ceased to count already.
        let (horizon, end) = (self.horizon(now), self.start(taken.at) + self.width);
        if end <= horizon {
            return 0;
        }
        let given = buckets.give_back(units, now, end);
        if given > 0 && buckets.counted(now, horizon).used() == 0 {
            state.0 = None;
        }
        given
    }

    fn remaining(&self, state: &SlidingState, now: Micros) -> u64 {
        let Some(buckets) = &state.0 else { return self.limit };
        self.limit.saturating_sub(buckets.counted(now, self.horizon(now)).used())
    }

    fn retry_at(&self, state: &SlidingState, now: Micros, cost: u64) -> Micros {
        let Some(buckets) = &state.0 else { return now };
        let counted = buckets.counted(now, self.horizon(now));
        // Neither the units used nor the cost pass 2^53.
        let short = (counted.used() + cost).saturating_sub(self.limit);
        let ceases_at = counted.end_with(short).map_or(now, |end| self.ceases_at(end));
        ceases_at.min(buckets.reset_at).max(now)
    }
}

#[cfg(test)]
mod tests;
