//! Scheduled reservations: [`Operation::Schedule`] and [`Operation::CancelScheduled`].
//!
//! A call uses the latest slot of all policies under each of them. So it proceeds when all of them
//! admit it, and waiting callers are in one order under all policies. A policy whose cost is 0 has no
//! slot for the call.
//!
//! [`Operation::Schedule`]: crate::policy::operation::Operation::Schedule
//! [`Operation::CancelScheduled`]: crate::policy::operation::Operation::CancelScheduled

use super::{Execution, PolicyEntry, set_cost};
use crate::algorithm::{
    Algorithm as _, KeyState as _, MAX_WAIT, Outcome, Rate, RateState, Rewrites,
    ScheduledReservation,
};
use crate::policy::State;
use crate::policy::multi_policy::Response;
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::time::Micros;

impl PolicyEntry<'_, '_> {
    /// The rate in force and its state; `None` if the policy is not a rate.
    fn rate(&mut self, now: Micros) -> Option<(&Rate, &mut RateState)> {
        let (policy, state) = self.policy_and_state(now);
        match state.unmarked_mut() {
            State::Rate(state) => policy.rate().map(|rate| (rate, state)),
            _ => None,
        }
    }

    fn slot(&mut self, now: Micros, cost: u64) -> Option<Micros> {
        self.rate(now).and_then(|(rate, state)| rate.slot(state, now, cost))
    }

    fn schedule(&mut self, now: Micros, cost: u64, slot: Micros) -> Option<ScheduledReservation> {
        let (rate, state) = self.rate(now)?;
        let (rewrites, until) = (rate.rewrites(state, now), state.reset_at());
        let reservation = rate.schedule(state, now, cost, slot)?;
        // A store may have dropped a state that has drained, or not.
        let had_drained = reservation.before.reset_at() <= now;
        let before = if had_drained { rate.initial_state() } else { reservation.before };
        self.part.state.drop_ended_mark(now);
        let until = until.max(self.part.state.mark().until);
        if rewrites == Rewrites::IfAdmitted && until > now {
            self.part.state.invalidate(until);
        }
        self.part.state.extend_mark();
        Some(ScheduledReservation { before, ..reservation })
    }
}

/// Schedules a cost for the first time at which all policies admit it, if no key is blocked and that
/// time is at most `max_wait` away. Otherwise nothing is charged, and each policy reports its outcome
/// for a call now.
pub(crate) fn schedule(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    max_wait: Micros,
) -> Execution {
    set_cost(entries, cost);
    entries.iter_mut().for_each(|entry| entry.prepare(now, entry.cost));
    // Owed units are paid first: a slot would be charged before them.
    let is_free = |entry: &PolicyEntry<'_, '_>| {
        !entry.is_blocked(now) && (entry.cost == 0 || entry.part.metadata.owed.units == 0)
    };
    let may = !cost.is_zero() && entries.iter().all(is_free);
    let slot_of = |entry: &mut PolicyEntry<'_, '_>| match entry.cost {
        0 => Some(now),
        cost => entry.slot(now, cost),
    };
    let slots: Vec<_> = entries.iter_mut().map(slot_of).collect();
    let latest = slots.iter().try_fold(now, |latest, &slot| Some(latest.max(slot?)));
    let near = |slot: &Micros| may && slot - now <= max_wait.min(MAX_WAIT);
    let Some(slot) = latest.filter(near) else {
        let outcome_of = |(entry, slot): (&PolicyEntry<'_, '_>, Option<Micros>)| {
            let outcome = slot.map_or(Outcome::Impossible, |_| entry.outcome(now, entry.cost));
            entry.policy_outcome(now, outcome)
        };
        let outcomes: Vec<_> = entries.iter().zip(slots).map(outcome_of).collect();
        return Execution::new(Response::of_policies(policies, &outcomes, now), 0);
    };
    let mut scheduled = vec![None; policies.named().len()];
    for entry in entries.iter_mut().filter(|entry| entry.cost > 0) {
        scheduled[entry.number] = entry.schedule(now, entry.cost, slot);
    }
    let outcome_of = |entry: &PolicyEntry<'_, '_>| entry.policy_outcome(now, Outcome::Admitted);
    let outcomes: Vec<_> = entries.iter().map(outcome_of).collect();
    let response = Response::of_policies(policies, &outcomes, now);
    Execution { scheduled, ..Execution::new(response, slot - now) }
}

/// Cancels the scheduled reservations of one call, under all policies that have one or under none.
/// Returns 1 if it did, else 0.
///
/// A reservation whose units have drained cannot be cancelled: a store may have dropped its state.
/// Neither can one in a state that also counts the units of other keys.
pub(crate) fn cancel(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    scheduled: &[Option<ScheduledReservation>],
) -> u64 {
    entries.iter_mut().for_each(|entry| entry.normalize(now));
    let is_last = |entry: &mut PolicyEntry<'_, '_>| {
        let is_shared = entry.part.is_shared;
        match (scheduled.get(entry.number), entry.rate(now)) {
            (Some(Some(reservation)), Some((_, state))) => {
                *state == reservation.after && state.reset_at() > now && !is_shared
            }
            _ => false,
        }
    };
    let booked = scheduled.iter().flatten().count();
    let last = entries.iter_mut().map(is_last).filter(|&is_last| is_last).count();
    if booked == 0 || last != booked {
        return 0;
    }
    for entry in entries {
        let number = entry.number;
        if let (Some(Some(reservation)), Some((rate, state))) =
            (scheduled.get(number), entry.rate(now))
        {
            rate.cancel(state, reservation);
            if state.reset_at() <= now {
                *state = rate.initial_state();
            }
            // The clock may have stepped back since the call was scheduled.
            rate.normalize(state, now);
            entry.part.state.drop_ended_mark(now);
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::algorithm::{FixedWindow, Gcra, MAX_WAIT, TokenBucket};
    use crate::policy::decision::Status;
    use crate::policy::execute::tests::{SECOND, TestKey};
    use crate::policy::execute::*;
    use crate::policy::operation::ScheduledReservations;

    fn schedule(kept: &mut TestKey, now: Micros, cost: u64) -> Execution {
        kept.execute(now, &Operation::Schedule { cost: cost.into(), max_wait: u64::MAX })
    }

    fn cancel(kept: &mut TestKey, now: Micros, booked: &Execution) -> u64 {
        let scheduled = booked.scheduled.clone();
        kept.execute(now, &Operation::CancelScheduled { scheduled }).units
    }

    fn gcra(limit: u64, burst: u64) -> Policy {
        Policy::Gcra(Gcra::new(limit, SECOND, burst).unwrap())
    }

    fn fast_and_slow() -> TestKey {
        let slow = TokenBucket::new(2, 1, SECOND).unwrap();
        TestKey::of(vec![("fast", gcra(10, 1)), ("slow", Policy::TokenBucket(slow))])
    }

    #[test]
    fn the_latest_slot_is_scheduled_under_all_policies() {
        let mut kept = fast_and_slow();
        let waits = [0; 4].map(|now| schedule(&mut kept, now, 1).units);
        assert_eq!(waits, [0, 100_000, SECOND, 2 * SECOND]);
        let booked = schedule(&mut kept, 0, 1);
        assert_eq!((booked.units, booked.scheduled.len()), (3 * SECOND, 2));
        let decision = booked.response.decision;
        assert_eq!((decision.status, decision.remaining), (Status::AllowedLast, 0));
        let several = booked.response.limits.unwrap();
        assert!(several.limits.iter().all(|limit| limit.remaining == 0), "those who wait go first");
    }

    #[test]
    fn a_wait_that_would_be_too_long_is_refused_uncharged_and_tells_how_long() {
        let mut kept = fast_and_slow();
        for _ in 0..2 {
            schedule(&mut kept, 0, 1);
        }
        let before = kept.states.clone();
        let near = Operation::Schedule { cost: 1.into(), max_wait: SECOND - 1 };
        let refused = kept.execute(0, &near);
        assert_eq!((refused.units, refused.scheduled.len()), (0, 0));
        let decision = refused.response.decision;
        assert_eq!((decision.status, decision.retry_after_ms), (Status::Refused, 1_000));
        assert_eq!(kept.states.clone(), before);
        assert_eq!(kept.execute(1, &near).units, SECOND - 1);
    }

    #[test]
    fn nobody_waits_for_more_than_an_hour() {
        let hourly = Policy::Gcra(Gcra::new(1, MAX_WAIT + 1, 1).unwrap());
        let mut kept = TestKey::of(vec![("hourly", hourly)]);
        schedule(&mut kept, 0, 1);
        assert_eq!(schedule(&mut kept, 0, 1).response.decision.status, Status::Refused);
        assert_eq!(schedule(&mut kept, 1, 1).units, MAX_WAIT);
    }

    #[test]
    fn a_blocked_or_impossible_call_schedules_nothing() {
        let mut kept = fast_and_slow();
        let impossible = schedule(&mut kept, 0, 2);
        assert_eq!(
            (impossible.response.decision.status, impossible.units),
            (Status::Impossible, 0)
        );
        kept.execute(0, &Operation::Block { lasting: SECOND });
        let blocked = schedule(&mut kept, 0, 1);
        assert_eq!(
            (blocked.response.decision.status, blocked.scheduled.len()),
            (Status::Blocked, 0)
        );
        assert_eq!(schedule(&mut kept, SECOND, 1).response.decision.remaining, 0);

        let window = FixedWindow::new(5, SECOND).unwrap();
        let mut kept =
            TestKey::of(vec![("one", gcra(1, 1)), ("window", Policy::FixedWindow(window))]);
        let booked = schedule(&mut kept, 0, 1);
        assert_eq!(
            (booked.response.decision.status, booked.scheduled.len()),
            (Status::Impossible, 0)
        );
        assert_eq!(cancel(&mut kept, 0, &booked), 0);
    }

    #[test]
    fn slots_are_given_back_under_all_policies_or_none() {
        let mut kept = fast_and_slow();
        for _ in 0..2 {
            schedule(&mut kept, 0, 1);
        }
        let before = kept.states.clone();
        let (third, fourth) = (schedule(&mut kept, 0, 1), schedule(&mut kept, 0, 1));
        let all = kept.states.clone();
        assert_eq!(cancel(&mut kept, 0, &third), 0);
        assert_eq!(kept.states.clone(), all);
        assert_eq!(cancel(&mut kept, 9, &fourth), 1);
        assert_eq!(cancel(&mut kept, 9, &fourth), 0, "once");
        assert_eq!(cancel(&mut kept, 9, &third), 1);
        assert_eq!(kept.states.clone(), before);
        let again = schedule(&mut kept, 0, 1);
        let other =
            ScheduledReservations::from([again.scheduled[0].clone(), fourth.scheduled[1].clone()]);
        assert_eq!(kept.execute(0, &Operation::CancelScheduled { scheduled: other }).units, 0);
        assert_eq!(kept.execute(0, &Operation::CancelScheduled { scheduled: Vec::new() }).units, 0);
    }

    #[test]
    fn a_drained_reservation_is_not_cancelled() {
        let mut kept = TestKey::of(vec![("one", gcra(1, 1))]);
        let booked = [0; 2].map(|now| schedule(&mut kept, now, 1));
        assert_eq!(cancel(&mut kept, 2 * SECOND, &booked[1]), 0);
        assert_eq!(cancel(&mut kept, 2 * SECOND - 1, &booked[1]), 1);
    }

    #[test]
    fn numbers_of_a_keys_own_tell_the_slot() {
        let mut kept = TestKey::of(vec![("one", gcra(1, 1))]);
        let own = vec![Some(Arc::new(gcra(10, 1)))];
        kept.execute(0, &Operation::Override { policies: own, lasting: SECOND });
        assert_eq!([0; 3].map(|now| schedule(&mut kept, now, 1).units), [0, 100_000, 200_000]);
        assert_eq!(schedule(&mut kept, SECOND, 1).units, 0);
    }
}
