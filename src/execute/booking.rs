//! Booking ahead: what [`Operation::Book`] and [`Operation::Unbook`] do.
//!
//! The slot is the latest of those of all policies, and each books that one: so a call goes on when all of
//! them admit it, and under each of them those who wait are in one order.
//!
//! [`Operation::Book`]: crate::operation::Operation::Book
//! [`Operation::Unbook`]: crate::operation::Operation::Unbook

use super::{Execution, PolicyEntry, response};
use crate::algorithm::{
    Algorithm as _, Bookable as _, Booking, MAX_WAIT, Outcome, Rate, RateState, State as _,
};
use crate::policies::Policies;
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
pub(super) fn book(
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
pub(super) fn unbook(
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
mod tests;
