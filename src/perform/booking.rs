//! Booking ahead: what [`Operation::Book`] and [`Operation::Unbook`] do.
//!
//! The slot is the latest of those of all policies, and each books that one: so a call goes on when all of
//! them admit it, and under each of them those who wait are in one order.
//!
//! [`Operation::Book`]: crate::operation::Operation::Book
//! [`Operation::Unbook`]: crate::operation::Operation::Unbook

use super::{Performed, Seat, told};
use crate::algorithm::{
    Algorithm as _, Bookable as _, Booking, MAX_WAIT, Outcome, Rate, RateState, State as _,
};
use crate::policies::Policies;
use crate::policy::{Layout, State};
use crate::time::Micros;

impl Seat<'_, '_> {
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
        let had_drained = booking.before.settled_at() <= now;
        let before = if had_drained { rate.unused() } else { booking.before };
        Some(Booking { before, ..booking })
    }
}

/// Books `cost` units for the first time at which all policies admit them, if no key is blocked and it is at
/// most `max_wait` away. Otherwise nothing is charged, and each policy says what it would say of a call now.
pub(super) fn book(
    policies: &Policies,
    seats: &mut [Seat<'_, '_>],
    now: Micros,
    cost: u64,
    max_wait: Micros,
) -> Performed {
    let named = policies.named_limits() > 0;
    seats.iter_mut().for_each(|seat| seat.meet(now));
    let may = cost > 0 && seats.iter().all(|seat| !seat.is_blocked(now));
    let slots: Vec<_> = seats.iter_mut().map(|seat| seat.slot(now, cost)).collect();
    let latest = slots.iter().try_fold(now, |latest, &slot| Some(latest.max(slot?)));
    let near = |slot: &Micros| may && slot - now <= max_wait.min(MAX_WAIT);
    let Some(slot) = latest.filter(near) else {
        let vote = |(seat, slot): (&Seat<'_, '_>, Option<Micros>)| {
            let outcome = slot.map_or(Outcome::Impossible, |_| seat.outcome(now, cost));
            seat.vote(now, cost, outcome)
        };
        let votes: Vec<_> = seats.iter().zip(slots).map(vote).collect();
        return Performed::new(told(named, &votes, now, cost), 0);
    };
    let mut bookings = vec![None; policies.named().len()];
    for seat in &mut *seats {
        bookings[seat.number] = seat.book(now, cost, slot);
    }
    let vote = |seat: &Seat<'_, '_>| seat.vote(now, cost, Outcome::Admitted);
    let votes: Vec<_> = seats.iter().map(vote).collect();
    Performed { told: told(named, &votes, now, cost), units: slot - now, bookings }
}

/// Gives back what was booked together, under all policies or under none; 1 if it did, else 0.
///
/// What has drained is gone: a store may have dropped it.
pub(super) fn unbook(
    seats: &mut [Seat<'_, '_>],
    now: Micros,
    bookings: &[Option<Booking<RateState>>],
) -> u64 {
    seats.iter_mut().for_each(|seat| seat.meet(now));
    let is_last = |seat: &mut Seat<'_, '_>| match (bookings.get(seat.number), seat.rate(now)) {
        (Some(Some(booking)), Some((_, state))) => {
            *state == booking.left && state.settled_at() > now
        }
        _ => false,
    };
    let booked = bookings.iter().flatten().count();
    if booked == 0 || booked != seats.len() || !seats.iter_mut().all(is_last) {
        return 0;
    }
    for seat in seats {
        let number = seat.number;
        if let (Some(Some(booking)), Some((rate, state))) = (bookings.get(number), seat.rate(now)) {
            rate.unbook(state, booking);
            if state.settled_at() <= now {
                *state = rate.unused();
            }
            // The clock may have stepped back since it was booked.
            rate.meet(state, now);
        }
    }
    1
}

#[cfg(test)]
mod tests;
