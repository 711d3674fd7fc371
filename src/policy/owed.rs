//! Owed units: units that were used although they did not fit, and are charged when they fit.
//!
//! A settlement charges as many units as remain; the rest are owed. A **payment** charges owed units
//! to the key's state, as many as remain, before an operation on the key and after an operation that
//! gives units back. So nothing remains while units are owed, and each call with a cost is refused. A
//! reset, a block and an override, and their ends, pay nothing: the next call pays.
//!
//! **Law.** A payment is an ordinary charge. So the charged units keep the admission law of each
//! algorithm unchanged, and the used units exceed the charged ones by at most `maxOwed` at any time.
//!
//! **Idle time pays.** Nothing is charged to a key without operations. If k whole periods have passed
//! since the latest payment, it could have been charged its capacity at the end of each. All but the
//! last one are credited: after them the state is fresh, as it is if nothing was charged at all. The
//! last one is left to the state.

use crate::algorithm::{Algorithm as _, LimitStatus, LimitStatuses, Outcome, RateBased as _};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, Micros, end_of};

/// The units that a key owes under a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owed {
    /// The units; 0 if none are owed. Then the other numbers are 0, too.
    pub units: u64,
    /// The time of the latest payment, or the time at which they became owed.
    pub at: Micros,
    /// The units that each idle period pays.
    pub capacity: u64,
    /// The length of this period: after it, a fully used key is fresh.
    pub period: Micros,
}

/// How many units may be owed under a policy, and how idle time pays them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwedLimit {
    /// The most units.
    pub max: u64,
    /// See [`Owed::capacity`].
    pub capacity: u64,
    /// See [`Owed::period`].
    pub period: Micros,
}

impl Owed {
    /// The time at which idle time has paid for everything.
    #[must_use]
    pub fn end(&self) -> Micros {
        if self.units == 0 { 0 } else { self.paid_down_at(self.units) }
    }

    /// The time at which a key without calls has paid `units` units, and its state is fresh again.
    fn paid_down_at(&self, units: u64) -> Micros {
        let periods = units.div_ceil(self.capacity.max(1)).saturating_add(1);
        end_of(self.at, periods.saturating_mul(self.period))
    }

    /// Pays the units that idle time has paid. Returns whether this changed anything.
    pub(crate) fn pay_idle(&mut self, now: Micros) -> bool {
        if self.at > now {
            // The clock has stepped back.
            self.at = now;
            return true;
        }
        let periods = ((now - self.at) / self.period.max(1)).saturating_sub(1);
        self.units = self.units.saturating_sub(periods.saturating_mul(self.capacity));
        if periods > 0 {
            self.at = now;
        }
        periods > 0
    }

    /// Adds units, at most as many as may be owed. Returns how many were added.
    pub(crate) fn add(&mut self, units: u64, limit: OwedLimit, now: Micros) -> u64 {
        let added = units.min(limit.max.saturating_sub(self.units));
        if added > 0 {
            let OwedLimit { capacity, period, .. } = limit;
            *self = Self { units: self.units + added, at: now, capacity, period };
        }
        added
    }

    /// The units that must remain before a payment, for a call of this cost to be admitted after it.
    fn needed_for(&self, policy: &Policy, cost: u64) -> u64 {
        // A bucket that may be overdrawn admits no call unless a whole unit remains.
        let least = policy.capacity() - policy.full_level() + 1;
        self.units.saturating_add(cost.max(least))
    }

    /// The status of a policy's limits on a key that owes units, after a call. All that remained has
    /// been paid.
    ///
    /// A lone caller is admitted at `retry_at`. If the state can hold both the owed units and the call's,
    /// this is the first time at which it has room for them. Otherwise it is a later time, at which idle
    /// periods have paid the excess.
    pub(crate) fn statuses(
        &self,
        policy: &Policy,
        state: &State,
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> LimitStatuses {
        let mut statuses = policy.limit_statuses(state, now, cost, outcome);
        let times = |cost| {
            let cost = self.state_cost(policy, cost);
            policy.limit_statuses(state, now, cost, policy.outcome(state, now, cost))
        };
        let (retries, nexts) = (times(cost), times(1));
        for ((status, retry), next) in statuses.iter_mut().zip(&retries).zip(&nexts) {
            if outcome == Outcome::Refused {
                status.retry_at = retry.retry_at;
            }
            status.next_at = next.retry_at;
        }
        self.delay(policy, &mut statuses, cost, outcome);
        statuses
    }

    /// The cost with which a store asks the state when a call may be admitted.
    pub(crate) fn state_cost(&self, policy: &Policy, cost: u64) -> u64 {
        self.needed_for(policy, cost).min(policy.capacity())
    }

    /// Delays the times of statuses that were computed for [the cost for the state](Self::state_cost), if
    /// the state cannot hold the units that must remain: until idle periods have paid the excess.
    pub(crate) fn delay(
        &self,
        policy: &Policy,
        statuses: &mut [LimitStatus],
        cost: u64,
        outcome: Outcome,
    ) {
        let delayed = |cost, state_at: Micros| {
            let excess = self.needed_for(policy, cost).saturating_sub(policy.capacity());
            if excess > 0 { self.paid_down_at(excess).max(state_at) } else { state_at }
        };
        for status in statuses {
            if outcome == Outcome::Refused {
                status.retry_at = delayed(cost, status.retry_at);
            }
            status.next_at = delayed(1, status.next_at);
            // Of several limits, one may have units left that are paid when the others have some.
            status.remaining = 0;
            status.reset_at = status.reset_at.max(self.end());
        }
    }
}

impl Policy {
    /// The units that remain on a fresh key without debt.
    fn full_level(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.rate().levels().capacity,
            Self::IntervalBucket(bucket) => bucket.levels().capacity,
            _ => self.capacity(),
        }
    }

    /// A length of time in which a key may be charged its capacity again and again: the longest time
    /// from fully used to fresh. Windows are extended by less than that where they end on a grid.
    fn period(&self) -> Micros {
        let period = match (self, self.rate()) {
            (_, Some(rate)) => rate.full().micros + u64::from(rate.full().part > 0),
            (Self::IntervalBucket(bucket), _) => bucket.horizon(),
            (Self::CalendarWindow(window), _) => window.calendar().horizon() / 2,
            (Self::SlidingWindow(window), _) => window.span(),
            _ => {
                let mut state = self.initial_state();
                self.charge(&mut state, 0, self.capacity());
                self.reset_at(&state, 0)
            }
        };
        period.clamp(1, MAX_SAFE)
    }

    /// How many units may be owed under this policy. Permits are released, and not paid, so nothing is
    /// owed under concurrency.
    pub(crate) fn owed_limit(&self, max: u64) -> OwedLimit {
        let max = if self.concurrency().is_some() { 0 } else { max.min(MAX_SAFE) };
        OwedLimit { max, capacity: self.capacity(), period: self.period() }
    }
}
