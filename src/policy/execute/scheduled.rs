//! Booking ahead: what [`Operation::Book`] and [`Operation::Unbook`] do.
//!
//! The slot is the latest of those of all policies, and each books that one: so a call goes on when all of
//! them admit it, and under each of them those who wait are in one order.
//!
//! [`Operation::Book`]: crate::policy::operation::Operation::Book
//! [`Operation::Unbook`]: crate::policy::operation::Operation::Unbook

use super::{Execution, PolicyEntry, response};
use crate::algorithm::{
    Algorithm as _, Bookable as _, Booking, MAX_WAIT, Outcome, Rate, RateState, State as _,
};
use crate::policy::policy_set::Policies;
use crate::policy::{Layout, State};
use crate::time::Micros;

impl PolicyEntry<'_, '_> {
    /// The rate in force and its state; `None` if the policy is no rate.
    fn rate(&mut self, now: Micros) -> Option<(&Rate, &mut RateState)> {
        match self.policy_and_state(now) {
            (policy, State::Rate(state)) => match policy.layout() {
                Layout::Rate(rate) => Some((rate, state)),
                _ => None,
            },
            _ => None,
        }
    }

    fn slot(&mut self, now: Micros, cost: u64) -> Option<Micros> {
        self.rate(now).and_then(|(rate, state)| rate.slot(state, now, cost))
    }

    fn book(&mut self, now: Micros, cost: u64, slot: Micros) -> Option<Booking<RateState>> {
        let (rate, state) = self.rate(now)?;
        let booking = rate.book(state, now, cost, slot)?;
        // A store may have dropped what has drained, or not.
        let had_drained = booking.before.reset_at() <= now;
        let before = if had_drained { rate.initial_state() } else { booking.before };
        Some(Booking { before, ..booking })
    }
}

/// Books `cost` units for the first time at which all policies admit them, if no key is blocked and it is at
/// most `max_wait` away. Otherwise nothing is charged, and each policy says what it would say of a call now.
pub(crate) fn book(
    policies: &Policies,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: u64,
    max_wait: Micros,
) -> Execution {
    let named = policies.named_limits() > 0;
    entries.iter_mut().for_each(|entry| entry.normalize(now));
    let may = cost > 0 && entries.iter().all(|entry| !entry.is_blocked(now));
    let slots: Vec<_> = entries.iter_mut().map(|entry| entry.slot(now, cost)).collect();
    let latest = slots.iter().try_fold(now, |latest, &slot| Some(latest.max(slot?)));
    let near = |slot: &Micros| may && slot - now <= max_wait.min(MAX_WAIT);
    let Some(slot) = latest.filter(near) else {
        let vote = |(entry, slot): (&PolicyEntry<'_, '_>, Option<Micros>)| {
            let outcome = slot.map_or(Outcome::Impossible, |_| entry.outcome(now, cost));
            entry.policy_outcome(now, cost, outcome)
        };
        let votes: Vec<_> = entries.iter().zip(slots).map(vote).collect();
        return Execution::new(response(named, &votes, now, cost), 0);
    };
    let mut bookings = vec![None; policies.named().len()];
    for entry in &mut *entries {
        bookings[entry.number] = entry.book(now, cost, slot);
    }
    let vote = |entry: &PolicyEntry<'_, '_>| entry.policy_outcome(now, cost, Outcome::Admitted);
    let votes: Vec<_> = entries.iter().map(vote).collect();
    Execution { response: response(named, &votes, now, cost), units: slot - now, bookings }
}

/// Gives back what was booked together, under all policies or under none; 1 if it did, else 0.
///
/// What has drained is gone: a store may have dropped it.
pub(crate) fn unbook(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    bookings: &[Option<Booking<RateState>>],
) -> u64 {
    entries.iter_mut().for_each(|entry| entry.normalize(now));
    let is_last =
        |entry: &mut PolicyEntry<'_, '_>| match (bookings.get(entry.number), entry.rate(now)) {
            (Some(Some(booking)), Some((_, state))) => {
                *state == booking.left && state.reset_at() > now
            }
            _ => false,
        };
    let booked = bookings.iter().flatten().count();
    if booked == 0 || booked != entries.len() || !entries.iter_mut().all(is_last) {
        return 0;
    }
    for entry in entries {
        let number = entry.number;
        if let (Some(Some(booking)), Some((rate, state))) = (bookings.get(number), entry.rate(now))
        {
            rate.unbook(state, booking);
            if state.reset_at() <= now {
                *state = rate.initial_state();
            }
            // The clock may have stepped back since it was booked.
            rate.normalize(state, now);
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::algorithm::{FixedWindow, Gcra, MAX_WAIT, TokenBucket};
    use crate::policy::decision::Status;
    use crate::policy::execute::*;

    const SECOND: Micros = 1_000_000;

    /// One key of a limiter.
    struct Kept {
        policies: Policies,
        kept: Vec<(State, KeyMetadata)>,
    }

    impl Kept {
        fn of(policies: Vec<Policy>) -> Self {
            let kept = policies
                .iter()
                .map(|policy| (policy.initial_state(), KeyMetadata::default()))
                .collect();
            let named = |(number, policy): (usize, Policy)| NamedPolicy {
                name: number.to_string().into(),
                policy,
                subject: 0,
            };
            let named = policies.into_iter().enumerate().map(named).collect();
            Self { policies: Policies::several(named).unwrap(), kept }
        }

        fn execute(&mut self, now: Micros, operation: &Operation) -> Execution {
            let part = |(state, extras)| Some(KeyEntry { state, metadata: extras });
            let kept = self.kept.iter_mut().map(|(state, extras)| (state, extras));
            let mut parts: Vec<_> = kept.map(part).collect();
            execute(&self.policies, &mut parts, now, operation)
        }

        fn book(&mut self, now: Micros, cost: u64) -> Execution {
            self.execute(now, &Operation::Book { cost, max_wait: u64::MAX })
        }

        fn unbook(&mut self, now: Micros, booked: &Execution) -> u64 {
            let bookings = booked.bookings.clone();
            self.execute(now, &Operation::Unbook { bookings }).units
        }

        fn states(&self) -> Vec<State> {
            self.kept.iter().map(|(state, _)| state.clone()).collect()
        }
    }

    fn gcra(limit: u64, burst: u64) -> Policy {
        Policy::Gcra(Gcra::new(limit, SECOND, burst).unwrap())
    }

    fn fast_and_slow() -> Kept {
        let slow = TokenBucket::new(2, 1, SECOND).unwrap();
        Kept::of(vec![gcra(10, 1), Policy::TokenBucket(slow)])
    }

    #[test]
    fn the_latest_slot_is_booked_under_all_policies() {
        let mut kept = fast_and_slow();
        let waits = [0; 4].map(|now| kept.book(now, 1).units);
        assert_eq!(waits, [0, 100_000, SECOND, 2 * SECOND]);
        let booked = kept.book(0, 1);
        assert_eq!((booked.units, booked.bookings.len()), (3 * SECOND, 2));
        let decision = booked.response.decision;
        assert_eq!((decision.status, decision.remaining), (Status::AllowedLast, 0));
        let several = booked.response.limits.unwrap();
        assert!(several.limits.iter().all(|limit| limit.remaining == 0), "those who wait go first");
    }

    #[test]
    fn a_wait_that_would_be_too_long_is_refused_uncharged_and_tells_how_long() {
        let mut kept = fast_and_slow();
        for _ in 0..2 {
            kept.book(0, 1);
        }
        let before = kept.states();
        let near = Operation::Book { cost: 1, max_wait: SECOND - 1 };
        let refused = kept.execute(0, &near);
        assert_eq!((refused.units, refused.bookings.len()), (0, 0));
        let decision = refused.response.decision;
        assert_eq!((decision.status, decision.retry_after_ms), (Status::Refused, 1_000));
        assert_eq!(kept.states(), before);
        assert_eq!(kept.execute(1, &near).units, SECOND - 1);
    }

    #[test]
    fn nobody_waits_for_more_than_an_hour() {
        let hourly = Policy::Gcra(Gcra::new(1, MAX_WAIT + 1, 1).unwrap());
        let mut kept = Kept::of(vec![hourly]);
        kept.book(0, 1);
        assert_eq!(kept.book(0, 1).response.decision.status, Status::Refused);
        assert_eq!(kept.book(1, 1).units, MAX_WAIT);
    }

    #[test]
    fn what_is_blocked_or_impossible_books_nothing() {
        let mut kept = fast_and_slow();
        let impossible = kept.book(0, 2);
        assert_eq!(
            (impossible.response.decision.status, impossible.units),
            (Status::Impossible, 0)
        );
        kept.execute(0, &Operation::Block { lasting: SECOND });
        let blocked = kept.book(0, 1);
        assert_eq!(
            (blocked.response.decision.status, blocked.bookings.len()),
            (Status::Blocked, 0)
        );
        assert_eq!(kept.book(SECOND, 1).response.decision.remaining, 0);

        let window = FixedWindow::new(5, SECOND).unwrap();
        let mut kept = Kept::of(vec![gcra(1, 1), Policy::FixedWindow(window)]);
        let booked = kept.book(0, 1);
        assert_eq!(
            (booked.response.decision.status, booked.bookings.len()),
            (Status::Impossible, 0)
        );
        assert_eq!(kept.unbook(0, &booked), 0);
    }

    #[test]
    fn slots_are_given_back_under_all_policies_or_none() {
        let mut kept = fast_and_slow();
        for _ in 0..2 {
            kept.book(0, 1);
        }
        let before = kept.states();
        let (third, fourth) = (kept.book(0, 1), kept.book(0, 1));
        let all = kept.states();
        assert_eq!(kept.unbook(0, &third), 0);
        assert_eq!(kept.states(), all);
        assert_eq!(kept.unbook(9, &fourth), 1);
        assert_eq!(kept.unbook(9, &fourth), 0, "once");
        assert_eq!(kept.unbook(9, &third), 1);
        assert_eq!(kept.states(), before);
        let again = kept.book(0, 1);
        let in_part = Bookings::from([again.bookings[0].clone(), None]);
        assert_eq!(kept.execute(0, &Operation::Unbook { bookings: in_part }).units, 0);
        assert_eq!(kept.execute(0, &Operation::Unbook { bookings: Vec::new() }).units, 0);
    }

    #[test]
    fn what_has_drained_is_not_given_back() {
        let mut kept = Kept::of(vec![gcra(1, 1)]);
        let booked = [0; 2].map(|now| kept.book(now, 1));
        assert_eq!(kept.unbook(2 * SECOND, &booked[1]), 0);
        assert_eq!(kept.unbook(2 * SECOND - 1, &booked[1]), 1);
    }

    #[test]
    fn numbers_of_a_keys_own_tell_the_slot() {
        let mut kept = Kept::of(vec![gcra(1, 1)]);
        let own = vec![Some(Arc::new(gcra(10, 1)))];
        kept.execute(0, &Operation::Override { policies: own, lasting: SECOND });
        assert_eq!([0; 3].map(|now| kept.book(now, 1).units), [0, 100_000, 200_000]);
        assert_eq!(kept.book(SECOND, 1).units, 0);
    }
}
