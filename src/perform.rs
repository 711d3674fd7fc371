//! What an operation does to a key, or to several that are decided together.
//!
//! Pure, like the algorithms: it is what a store does under its locks, and what the twins in Lua are
//! tested against.
//!
//! **Several policies** are charged all or none. Each meets its state and tells by itself what would
//! become of the cost; if all admit it and no key is blocked, all charge, and otherwise none does.
//!
//! **A block** refuses every call until it ends, whatever room there is. What is on the books stays
//! there, drains, and may be given back or added to meanwhile; calls that a block refuses are not
//! counted, also where refused calls count.
//!
//! **Numbers of a key's own** decide in place of the limiter's until they end. They read the state as
//! changed numbers do, and so do the limiter's when they decide again.
//!
//! Both last while the time is before their end. A clock that steps back makes them last longer by
//! the step: they are as long as somebody asked for, so nothing shows that their end is too far away.

use std::sync::Arc;

use crate::algorithm::{Algorithm as _, Look, Outcome, Standings, Taken};
use crate::operation::{Bookings, Operation};
use crate::policies::{NamedPolicy, Policies};
use crate::policy::{Policy, State};
use crate::several::{Told, Vote};
use crate::time::{MAX_SAFE, Micros};

mod booking;

/// What is kept of a key beside its state, under one policy. It is no use: a key that has nothing else is
/// as if never used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// Until then every call is refused; any time up to now if none is.
    pub blocked_until: Micros,
    /// Numbers of its own.
    pub numbers: Option<OwnNumbers>,
}

/// Numbers that decide about one key in place of the limiter's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnNumbers {
    /// An algorithm of the same kind.
    pub policy: Arc<Policy>,
    /// They decide before that time.
    pub until: Micros,
}

impl Extras {
    /// From this time on there is nothing left of them.
    #[must_use]
    pub fn end(&self) -> Micros {
        self.numbers.as_ref().map_or(0, |numbers| numbers.until).max(self.blocked_until)
    }

    /// The numbers that decide at the time `now`: the key's own, or else the limiter's.
    #[must_use]
    pub fn in_force<'a>(&'a self, limiters: &'a Policy, now: Micros) -> &'a Policy {
        match &self.numbers {
            Some(numbers) if numbers.until > now => &numbers.policy,
            _ => limiters,
        }
    }
}

/// What is kept of a key under one policy, to be changed in place.
#[derive(Debug)]
pub struct Part<'a> {
    /// What the key has used.
    pub state: &'a mut State,
    /// What is kept beside.
    pub extras: &'a mut Extras,
}

/// What an operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Performed {
    /// What the caller is told: of a call that takes units, what became of it; of a peek, what would; and
    /// of all others how the key stands now, as a peek of no units tells it.
    pub told: Told,
    /// The units that were taken or given back; under several policies the most under one of them. Of a
    /// booking the microseconds until its slot; of one that is to be given back 1 if it was.
    ///
    /// Of [`Operation::Settle`] it is one more than those, at most 2^53 − 1; and 0 if nothing was settled.
    pub units: u64,
    /// What was booked, to be given back.
    pub bookings: Bookings,
}

impl Performed {
    /// What became of an operation that books nothing.
    #[must_use]
    pub fn new(told: Told, units: u64) -> Self {
        Self { told, units, bookings: Bookings::new() }
    }
}

/// Performs an operation on the parts of the policies, in their order, at the time `now`.
///
/// At least one part is there. A part is left out if the operation names no key for its policy: then the policy has no say. What an
/// operation brings for each policy ([`Taken`] and numbers) is by the policy's number, whether or not parts
/// are left out; where it brings nothing, nothing is given back or changed. Numbers of another kind than
/// the policy's are not taken: see [`Policies::check_override`].
pub fn perform(
    policies: &Policies,
    parts: &mut [Option<Part<'_>>],
    now: Micros,
    operation: &Operation,
) -> Performed {
    let mut seats = seats(policies, parts);
    let named = policies.named_limits() > 0;
    let units = match operation {
        Operation::Take { cost } | Operation::Reserve { cost, .. } => {
            return take(named, &mut seats, now, *cost);
        }
        Operation::TakeUpTo { units } => return take_up_to(named, &mut seats, now, *units),
        Operation::Peek { cost } => {
            return Performed::new(peek(named, &seats, now, *cost), 0);
        }
        Operation::Settle { expires_at, .. } if *expires_at <= now => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            0
        }
        Operation::Settle { units, actual, taken, .. } => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            let moved = match units.checked_sub(*actual) {
                None => penalize(&mut seats, now, *actual - *units),
                Some(0) => 0,
                Some(surplus) => refund(&mut seats, now, surplus, taken),
            };
            (1 + moved).min(MAX_SAFE)
        }
        Operation::Penalize { units } => penalize(&mut seats, now, *units),
        Operation::Refund { units, taken } => refund(&mut seats, now, *units, taken),
        Operation::Book { cost, max_wait } => {
            return booking::book(policies, &mut seats, now, *cost, *max_wait);
        }
        Operation::Unbook { bookings } => booking::unbook(&mut seats, now, bookings),
        Operation::Reset => {
            for Seat { own, part, .. } in &mut seats {
                *part.state = own.unused();
                part.extras.blocked_until = 0;
            }
            0
        }
        Operation::Block { lasting } => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            block_until(&mut seats, end_of(now, *lasting));
            0
        }
        Operation::Unblock => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            block_until(&mut seats, 0);
            0
        }
        Operation::Override { policies, lasting } => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            override_until(&mut seats, policies, end_of(now, *lasting));
            seats.iter_mut().for_each(|seat| seat.repair(now));
            0
        }
        Operation::ClearOverride => {
            seats.iter_mut().for_each(|seat| seat.repair(now));
            seats.iter_mut().for_each(|seat| seat.part.extras.numbers = None);
            seats.iter_mut().for_each(|seat| seat.repair(now));
            0
        }
    };
    Performed::new(peek(named, &seats, now, 0), units)
}

/// A policy with its part.
struct Seat<'s, 'a> {
    number: usize,
    /// The limiter's numbers.
    own: &'s Policy,
    part: &'s mut Part<'a>,
}

impl Seat<'_, '_> {
    /// The numbers in force.
    fn policy(&self, now: Micros) -> &Policy {
        self.part.extras.in_force(self.own, now)
    }

    /// The numbers in force, and the state for them to change.
    fn policy_and_state(&mut self, now: Micros) -> (&Policy, &mut State) {
        (self.part.extras.in_force(self.own, now), self.part.state)
    }

    fn meet(&mut self, now: Micros) {
        let (policy, state) = self.policy_and_state(now);
        policy.meet(state, now);
    }

    /// Moves what lies too far ahead, as every operation but a peek does: a window that an operation
    /// shortens ends one window from that operation, and not from the call after it.
    fn repair(&mut self, now: Micros) {
        self.charge(now, 0);
    }

    /// Charges, and tells what became of it.
    fn charge(&mut self, now: Micros, cost: u64) -> Outcome {
        let (policy, state) = self.policy_and_state(now);
        policy.charge(state, now, cost)
    }

    fn is_blocked(&self, now: Micros) -> bool {
        self.part.extras.blocked_until > now
    }

    /// What the policy says of a cost, by a state that has been met.
    fn outcome(&self, now: Micros, cost: u64) -> Outcome {
        self.policy(now).outcome(self.part.state, now, cost)
    }

    /// The largest cost that the policy would admit, by a state that has been met.
    fn remaining(&self, now: Micros) -> u64 {
        self.policy(now).remaining(self.part.state, now)
    }

    /// What the policy says, with the numbers of the state as it stands now.
    fn vote(&self, now: Micros, cost: u64, outcome: Outcome) -> Vote {
        self.vote_by(self.part.state, now, cost, outcome)
    }

    fn vote_by(&self, state: &State, now: Micros, cost: u64, outcome: Outcome) -> Vote {
        let standings = self.policy(now).standings(state, now, cost, outcome);
        self.vote_of(now, outcome, standings)
    }

    fn vote_of(&self, now: Micros, outcome: Outcome, standings: Standings) -> Vote {
        let Extras { blocked_until, ref numbers } = *self.part.extras;
        let own = numbers.as_ref().filter(|own| own.until > now);
        Vote { outcome, blocked_until, changes_at: own.map(|own| own.until), standings }
    }
}

fn seats<'s, 'a>(policies: &'s Policies, parts: &'s mut [Option<Part<'a>>]) -> Vec<Seat<'s, 'a>> {
    let numbered = policies.named().iter().zip(parts).enumerate();
    let seat = |(number, (NamedPolicy { policy, .. }, part)): (usize, (&'s NamedPolicy, _))| {
        let part: &'s mut Option<Part<'a>> = part;
        part.as_mut().map(|part| Seat { number, own: policy, part })
    };
    numbered.filter_map(seat).collect()
}

/// No later than a double can tell.
fn end_of(now: Micros, lasting: Micros) -> Micros {
    now.saturating_add(lasting).min(MAX_SAFE)
}

fn take(named: bool, seats: &mut [Seat<'_, '_>], now: Micros, cost: u64) -> Performed {
    let blocked = seats.iter().any(|seat| seat.is_blocked(now));
    if let ([seat], false) = (&mut *seats, blocked) {
        // Also where refused calls count: such a policy is the only one.
        let outcome = seat.charge(now, cost);
        let units = if outcome == Outcome::Admitted { cost } else { 0 };
        return Performed::new(told(named, &[seat.vote(now, cost, outcome)], now, cost), units);
    }
    seats.iter_mut().for_each(|seat| seat.meet(now));
    take_met(named, seats, now, cost, !blocked)
}

/// Takes units under policies that have met their states, if all admit them and it is not forbidden.
fn take_met(
    named: bool,
    seats: &mut [Seat<'_, '_>],
    now: Micros,
    cost: u64,
    may: bool,
) -> Performed {
    let outcomes: Vec<_> = seats.iter().map(|seat| seat.outcome(now, cost)).collect();
    let takes = may && outcomes.iter().all(|&outcome| outcome == Outcome::Admitted);
    if takes {
        for seat in &mut *seats {
            seat.charge(now, cost);
        }
    }
    let votes = seats.iter().zip(outcomes).map(|(seat, outcome)| seat.vote(now, cost, outcome));
    let votes: Vec<_> = votes.collect();
    Performed::new(told(named, &votes, now, cost), if takes { cost } else { 0 })
}

fn told(named: bool, votes: &[Vote], now: Micros, cost: u64) -> Told {
    Told::of_votes(named, votes, now, cost)
}

fn take_up_to(named: bool, seats: &mut [Seat<'_, '_>], now: Micros, units: u64) -> Performed {
    seats.iter_mut().for_each(|seat| seat.meet(now));
    let blocked = seats.iter().any(|seat| seat.is_blocked(now));
    let most = if blocked { 0 } else { units };
    let granted = seats.iter().map(|seat| seat.remaining(now)).fold(most, u64::min);
    // What is told of nothing granted is what a single unit would be told; and it is not counted.
    take_met(named, seats, now, granted.max(units.min(1)), granted > 0)
}

fn peek(named: bool, seats: &[Seat<'_, '_>], now: Micros, cost: u64) -> Told {
    let mut takes_last = false;
    let mut vote = |seat: &Seat<'_, '_>| {
        let (policy, state) = (seat.policy(now), &*seat.part.state);
        if seat.is_blocked(now) && policy.counts_refused() {
            // The call would not be counted, which a look at it would be.
            let mut met = state.clone();
            policy.meet(&mut met, now);
            let outcome = policy.outcome(&met, now, cost);
            return seat.vote_by(&met, now, cost, outcome);
        }
        let Look { outcome, takes_last: last, standings } = policy.look(state, now, cost);
        takes_last |= last;
        seat.vote_of(now, outcome, standings)
    };
    let votes: Vec<_> = seats.iter().map(&mut vote).collect();
    told(named, &votes, now, cost).foreseen(takes_last)
}

fn penalize(seats: &mut [Seat<'_, '_>], now: Micros, units: u64) -> u64 {
    let penalty = |seat: &mut Seat<'_, '_>| {
        seat.meet(now);
        let most = seat.remaining(now).min(units);
        // No units would be a mere repair, which has been done.
        if most > 0 {
            seat.charge(now, most);
        }
        most
    };
    seats.iter_mut().map(penalty).max().unwrap_or(0)
}

fn refund(seats: &mut [Seat<'_, '_>], now: Micros, units: u64, taken: &[Taken]) -> u64 {
    let given_back = |seat: &mut Seat<'_, '_>| {
        seat.meet(now);
        let number = seat.number;
        let (policy, state) = seat.policy_and_state(now);
        taken.get(number).map_or(0, |&taken| policy.refund(state, now, units, taken))
    };
    seats.iter_mut().map(given_back).max().unwrap_or(0)
}

fn block_until(seats: &mut [Seat<'_, '_>], end: Micros) {
    seats.iter_mut().for_each(|seat| seat.part.extras.blocked_until = end);
}

fn override_until(seats: &mut [Seat<'_, '_>], by: &[Option<Arc<Policy>>], until: Micros) {
    for Seat { number, own, part } in seats {
        if let Some(Some(policy)) = by.get(*number)
            && policy.tag() == own.tag()
        {
            part.extras.numbers = Some(OwnNumbers { policy: Arc::clone(policy), until });
        }
    }
}

#[cfg(test)]
mod tests;
