//! The sliding window in buckets.
//!
//! Time is divided into buckets of `width` = ⌈window / buckets⌉ microseconds on the grid of the
//! epoch. An entry stores a bucket's end and the units admitted in the bucket. An entry counts
//! while its end is later than start(now) − buckets·width, where start(now) is the start of the
//! bucket that contains now. So the bucket that the window covers only in part, the (buckets +
//! 1)th, counts in full.
//!
//! **Law:** at most limit units in **any** rolling window (half-open, [s, s + window)). A unit
//! admitted at t is in an entry whose end is later than t. So it counts at least while now − t <
//! buckets·width, which is no less than the window. When a unit is admitted, all units that count,
//! including it, are at most limit.
//!
//! **Promise:** a unit counts for at most (buckets + 1)·width, so a steady caller gets limit per
//! window·(buckets + 1)/buckets. More buckets promise more.
//!
//! **Refunds.** Units are removed from the bucket that they were added to, if it counts: at most as
//! many as it contains, and only by a policy with the numbers that wrote the buckets last: others
//! cannot tell the bucket. So the law holds of the admitted units less the refunded ones. A bucket
//! without units stays until it expires.
//!
//! **Clock steps.** A call is added to the entry of its own bucket if that is newer than the newest
//! entry, and otherwise to the newest entry, so entries stay in order. After a step back some
//! entries count for longer, and none for a shorter time. If the newest entry ends further ahead
//! than a window and a bucket, all units that count move into one entry in the bucket of now, and
//! count for a window from then on.
//!
//! **Changed numbers.** Entries are times, so a policy with any numbers can read them. The bound
//! across a change, also with several versions side by side, is the larger limit in any rolling
//! window of the shorter length. A state also stores its reset time under the numbers that wrote it
//! last. From then on it counts under no policy, because a store may have dropped it. Units in
//! buckets that are much wider move as after a clock step.
//!
//! Source: the sliding window of the Go + Redis limiter, with its buckets in a hash (O(buckets) a
//! call) or in a list (O(1)). Differences: all expired buckets are dropped at once instead of one
//! per call, no entry is found or deleted by its value, and the partly covered bucket counts:
//! without it twice the limit fits into a window.

use std::collections::VecDeque;

use super::{
    Algorithm, ChargeRecord, InvalidNumber, Outcome, Rewrites, checked_length, checked_units,
};
use crate::algorithm::shared::buckets::{Buckets, Counted, SlidingState};
use crate::algorithm::shared::entry::UnitEntry;
use crate::time::Micros;

/// The most buckets that a window can have.
pub const MAX_BUCKETS: u64 = 1_000;

/// The most that (buckets + 1)·width may be: 2^51 µs. So the end of an entry, even as far ahead as
/// a clock step can leave it, plus a window stays below 2^53.
const MAX_SPAN: Micros = 1 << 51;

/// The layout of a key's buckets in Redis. It changes no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketLayout {
    /// A list of running totals: a call needs as many commands for a thousand buckets as for ten.
    List,
    /// A hash of counts. Compared with a list, it needs a third of the memory for up to a hundred
    /// buckets and twice as much for a thousand, and a call reads all buckets.
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
    /// [`InvalidNumber`] for a limit or a window of 0 or too large to count exactly, for no buckets
    /// or more than [`MAX_BUCKETS`], and if the window plus one bucket is longer than 2^51 µs.
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

    /// The layout of buckets in Redis.
    #[must_use]
    pub fn layout(&self) -> BucketLayout {
        self.layout
    }

    /// The start of the bucket that contains `now`.
    fn start(&self, now: Micros) -> Micros {
        now - now % self.width
    }

    /// The time after which an entry must end to count.
    fn horizon(&self, now: Micros) -> Micros {
        self.start(now).saturating_sub(self.span)
    }

    /// The first time at which an entry with this end does not count.
    fn ceases_at(&self, end: Micros) -> Micros {
        end.next_multiple_of(self.width) + self.span
    }

    /// Whether a policy with these numbers wrote the buckets last, as far as they show it.
    fn wrote(&self, buckets: &Buckets) -> bool {
        let is_own = |newest: &UnitEntry| {
            newest.time + self.span == buckets.reset_at && newest.time.is_multiple_of(self.width)
        };
        buckets.entries.back().is_none_or(is_own)
    }

    /// Moves all units that count into the bucket of now, if an entry is further ahead than a window
    /// and a bucket: the clock was set back, or a policy with much wider buckets wrote it.
    fn repair(&self, buckets: &mut Buckets, now: Micros) {
        let own_end = self.start(now) + self.width;
        if buckets.entries.back().is_some_and(|newest| newest.time > own_end + self.span) {
            let used = buckets.counted(now, self.horizon(now)).used();
            let entry = UnitEntry { time: own_end, after: used };
            let reset_at = self.ceases_at(own_end);
            *buckets = Buckets { entries: VecDeque::from([entry]), before: 0, reset_at };
        }
    }

    /// Charges units, and drops the entries that do not count.
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
                buckets.entries.push_back(UnitEntry { time: own_end, after });
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
    fn capacity(&self) -> u64 {
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

    /// Refunds at most the units of the oldest bucket that ends after the units were taken. A key
    /// without units that count becomes fresh.
    fn refund(
        &self,
        state: &mut SlidingState,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
    ) -> u64 {
        let Some(buckets) = &mut state.0 else { return 0 };
        // Units in another entry than that of their own bucket may have expired already.
        let (horizon, end) = (self.horizon(now), self.start(taken.at) + self.width);
        if end <= horizon || !self.wrote(buckets) {
            return 0;
        }
        let given = buckets.give_back(units, now, end);
        if given > 0 && buckets.counted(now, horizon).used() == 0 {
            state.0 = None;
        }
        given
    }

    fn rewrites(&self, state: &SlidingState, now: Micros) -> Rewrites {
        let Some(buckets) = &state.0 else { return Rewrites::Never };
        let Some(newest) = buckets.entries.back() else { return Rewrites::Never };
        // The first condition, which nearly never holds, spares nearly all calls a division.
        let is_ahead =
            newest.time > now + self.span && newest.time > self.start(now) + self.width + self.span;
        match is_ahead {
            true => Rewrites::Always,
            false if self.wrote(buckets) => Rewrites::Never,
            false => Rewrites::IfAdmitted,
        }
    }

    fn remaining(&self, state: &SlidingState, now: Micros) -> u64 {
        let Some(buckets) = &state.0 else { return self.limit };
        self.limit.saturating_sub(buckets.counted(now, self.horizon(now)).used())
    }

    fn retry_at(&self, state: &SlidingState, now: Micros, cost: u64) -> Micros {
        let Some(buckets) = &state.0 else { return now };
        let counted = buckets.counted(now, self.horizon(now));
        // Neither number exceeds 2^53.
        let short = (counted.used() + cost).saturating_sub(self.limit);
        let ceases_at = counted.end_with(short).map_or(now, |end| self.ceases_at(end));
        ceases_at.min(buckets.reset_at).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::KeyState as _;

    fn sliding(limit: u64, window: Micros, buckets: u64) -> SlidingWindow {
        SlidingWindow::new(limit, window, buckets, BucketLayout::List).unwrap()
    }

    fn entries(state: &SlidingState) -> Vec<(Micros, u64)> {
        let Some(buckets) = &state.0 else { return Vec::new() };
        let mut before = buckets.before;
        let units = |entry: &UnitEntry| {
            let units = entry.after.wrapping_sub(before);
            before = entry.after;
            (entry.time, units)
        };
        buckets.entries.iter().map(units).collect()
    }

    fn admitted(policy: &SlidingWindow, state: &mut SlidingState, now: Micros, cost: u64) {
        assert_eq!(policy.charge(state, now, cost), Outcome::Admitted, "at {now}");
    }

    fn refused(policy: &SlidingWindow, state: &mut SlidingState, now: Micros, cost: u64) {
        let before = state.clone();
        assert_eq!(policy.charge(state, now, cost), Outcome::Refused, "at {now}");
        assert_eq!(*state, before);
    }

    #[test]
    fn a_bucket_counts_until_the_window_has_left_it() {
        let ten = sliding(10, 100, 10);
        let mut state = ten.initial_state();
        admitted(&ten, &mut state, 1_009, 4);
        admitted(&ten, &mut state, 1_010, 6);
        assert_eq!(entries(&state), [(1_010, 4), (1_020, 6)]);
        refused(&ten, &mut state, 1_109, 1);
        assert_eq!(
            (ten.retry_at(&state, 1_109, 4), ten.retry_at(&state, 1_109, 5)),
            (1_110, 1_120)
        );
        assert_eq!((ten.remaining(&state, 1_109), ten.remaining(&state, 1_110)), (0, 4));
        assert_eq!(state.reset_at(), 1_120);
        admitted(&ten, &mut state, 1_110, 4);
        assert_eq!(entries(&state), [(1_020, 6), (1_120, 4)]);
    }

    /// A published design counted only as many buckets as the window has: it forgot the units at
    /// the end of the oldest bucket one bucket too early.
    #[test]
    fn the_bucket_that_the_window_partly_covers_counts_in_full() {
        let two = sliding(10, 20, 2);
        let mut state = two.initial_state();
        admitted(&two, &mut state, 1_009, 10);
        // The window [1_009, 1_029) contains both calls, and overlaps three buckets.
        refused(&two, &mut state, 1_028, 1);
        refused(&two, &mut state, 1_029, 1);
        admitted(&two, &mut state, 1_030, 10);
    }

    /// A published design dropped one expired bucket per request, so buckets that had expired long
    /// ago refused call after call.
    #[test]
    fn all_that_has_expired_is_dropped_at_once() {
        let ten = sliding(10, 100, 10);
        let mut state = ten.initial_state();
        for bucket in 0..10 {
            admitted(&ten, &mut state, 1_000 + 10 * bucket, 1);
        }
        assert_eq!(entries(&state).len(), 10);
        assert_eq!((ten.remaining(&state, 1_109), ten.remaining(&state, 1_189)), (0, 8));
        admitted(&ten, &mut state, 1_180, 8);
        assert_eq!(entries(&state), [(1_090, 1), (1_100, 1), (1_190, 8)]);
        admitted(&ten, &mut state, 9_000, 10);
        assert_eq!(entries(&state), [(9_010, 10)]);
    }

    #[test]
    fn a_window_that_does_not_divide_is_rounded_up() {
        let three = sliding(1, 100, 3);
        assert_eq!((three.width(), three.span()), (34, 102));
        assert_eq!(sliding(1, 5, 10).span(), 10);
    }

    #[test]
    fn a_step_back_is_no_refill_and_keeps_the_entries_in_order() {
        let ten = sliding(10, 100, 10);
        let mut state = ten.initial_state();
        admitted(&ten, &mut state, 1_000, 5);
        admitted(&ten, &mut state, 1_050, 2);
        admitted(&ten, &mut state, 960, 3);
        assert_eq!(entries(&state), [(1_010, 5), (1_060, 5)]);
        refused(&ten, &mut state, 960, 1);
        assert_eq!(ten.retry_at(&state, 960, 1), 1_110);
    }

    // promise: sliding-window-law
    #[test]
    fn what_lies_too_far_ahead_keeps_its_units_and_counts_for_a_window_and_a_bucket() {
        let ten = sliding(10, 100, 10);
        // The state after a clock jump, or of a window of a day.
        for other in [ten, sliding(10, 1_000_000, 10)] {
            let mut state = other.initial_state();
            admitted(&other, &mut state, 1_000_000, 3);
            let now = if other == ten { 1_000 } else { 1_000_000 };
            assert_eq!(ten.charge(&mut state, now, 8), Outcome::Refused);
            assert_eq!(entries(&state), [(now + 10, 3)]);
            assert_eq!((ten.retry_at(&state, now, 8), state.reset_at()), (now + 110, now + 110));
            admitted(&ten, &mut state, now, 7);
            refused(&ten, &mut state, now + 109, 1);
            admitted(&ten, &mut state, now + 110, 10);
        }
    }

    #[test]
    fn a_key_that_settled_under_the_numbers_that_wrote_it_counts_for_nobody() {
        let (short, long) = (sliding(10, 100, 10), sliding(10, 1_000, 10));
        let mut state = short.initial_state();
        admitted(&short, &mut state, 1_000, 10);
        refused(&long, &mut state, 1_109, 1);
        assert_eq!(long.retry_at(&state, 1_109, 1), 1_110);
        admitted(&long, &mut state, 1_110, 10);
        assert_eq!(entries(&state), [(1_200, 10)]);
    }

    /// The newest entry's end less the reader's width need not have passed. If a policy assumed
    /// that it has, the wide buckets of one version would make the other one forget: 20 units in 1
    /// µs.
    #[test]
    fn the_wide_buckets_of_another_version_make_nobody_forget() {
        let (narrow, wide) = (sliding(10, 100, 10), sliding(11, 1_200, 10));
        let mut state = narrow.initial_state();
        admitted(&narrow, &mut state, 1_200, 10);
        admitted(&wide, &mut state, 1_200, 1);
        assert_eq!(narrow.remaining(&state, 1_201), 0);
        assert_eq!(narrow.charge(&mut state, 1_201, 1), Outcome::Refused);
    }

    #[test]
    fn errors_name_the_option() {
        let new = |limit, window, buckets| {
            let made = SlidingWindow::new(limit, window, buckets, BucketLayout::Hash);
            made.map_err(|invalid| invalid.option)
        };
        assert_eq!(new(0, 1, 1), Err("limit"));
        assert_eq!(new(1, 0, 1), Err("window"));
        assert_eq!(new(1, 1, 0), Err("buckets"));
        assert_eq!(new(1, 1, 1_001), Err("buckets"));
        assert!(new(1, 1 << 50, 1).is_ok() && new(1, 1, 1_000).is_ok());
        assert_eq!(new(1, (1 << 50) + 1, 1), Err("window"));
    }

    #[test]
    fn units_come_back_from_the_bucket_that_they_were_put_into() {
        let ten = sliding(10, 100, 10);
        let taken = |at| ChargeRecord { at, reset_at: 0, ..ChargeRecord::default() };
        let mut state = ten.initial_state();
        admitted(&ten, &mut state, 1_009, 4);
        admitted(&ten, &mut state, 1_010, 3);
        assert_eq!(ten.refund(&mut state, 1_050, 2, taken(1_010)), 2);
        assert_eq!(entries(&state), [(1_010, 4), (1_020, 1)]);
        assert_eq!(ten.refund(&mut state, 1_050, 9, taken(1_009)), 4);
        assert_eq!(
            (entries(&state), ten.remaining(&state, 1_050)),
            (vec![(1_010, 0), (1_020, 1)], 9)
        );
        assert_eq!(
            ten.refund(&mut state.clone(), 1_050, 9, taken(1_009)),
            0,
            "nothing is left of it"
        );
        assert_eq!(
            ten.refund(&mut state.clone(), 1_050, 9, taken(1_020)),
            0,
            "nothing was taken then"
        );
        assert_eq!(ten.refund(&mut state.clone(), 1_120, 9, taken(1_010)), 0, "it counts no more");
        assert_eq!(ten.refund(&mut state, 1_050, 9, taken(1_010)), 1);
        assert_eq!(state, ten.initial_state());
    }
}
