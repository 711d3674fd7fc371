//! Operations on permits: see [`Concurrency`].

use super::{Execution, PolicyEntry, holds, take};
use crate::algorithm::{Concurrency, Outcome, PermitId, PermitRequest, PermitState};
use crate::policy::operation::NewHold;
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::policy::{Policy, State};
use crate::time::Micros;

/// See [`Operation::Acquire`](crate::policy::operation::Operation::Acquire).
pub(super) fn acquire(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    (request, hold): (PermitRequest, Option<NewHold>),
) -> Execution {
    entries.iter_mut().for_each(|entry| entry.request = Some(request));
    let ban = policies.ban().filter(|_| request.waited.is_none());
    let execution = take(policies, entries, now, cost, ban);
    if execution.units < cost.when_charged() {
        queue(entries, now, request);
    } else if let Some(hold) = hold.filter(|_| execution.units > 0) {
        holds::add(entries, now, cost, hold);
    }
    execution
}

/// Sets or removes the tickets of a refused call.
fn queue(entries: &mut [PolicyEntry<'_, '_>], now: Micros, request: PermitRequest) {
    let is_in_the_way = |entry: &&PolicyEntry<'_, '_>| {
        entry.is_blocked(now) || entry.outcome(now, entry.cost) != Outcome::Admitted
    };
    let in_the_way: Vec<_> = entries.iter().filter(is_in_the_way).collect();
    let waits_for = match in_the_way[..] {
        [entry] if !entry.is_blocked(now) && entry.outcome(now, entry.cost) == Outcome::Refused => {
            Some(entry.number)
        }
        _ => None,
    };
    for entry in entries {
        let cost = entry.cost;
        let waited = request.waited.filter(|_| waits_for == Some(entry.number));
        if let Some((own, permits)) = permits_of(entry, now) {
            own.queue(permits, now, cost, PermitRequest { waited, ..request });
        }
    }
}

/// See [`Operation::Release`](crate::policy::operation::Operation::Release).
pub(super) fn release(entries: &mut [PolicyEntry<'_, '_>], now: Micros, permit: PermitId) -> bool {
    let released = entries.iter_mut().filter_map(|entry| permits_of(entry, now));
    released.fold(false, |held, (own, permits)| own.release(permits, now, permit) || held)
}

/// See [`Operation::RenewPermit`](crate::policy::operation::Operation::RenewPermit). `None` without a
/// policy for concurrency.
pub(super) fn renew(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    permit: PermitId,
) -> Option<bool> {
    let renewed = entries.iter_mut().filter_map(|entry| permits_of(entry, now));
    let renewed = renewed.map(|(own, permits)| own.renew(permits, now, permit));
    renewed.reduce(|all, renewed| all && renewed)
}

/// Drops the ticket of a call.
pub(super) fn drop_ticket(entries: &mut [PolicyEntry<'_, '_>], now: Micros, of: PermitId) {
    for entry in entries {
        if let Some((_, permits)) = permits_of(entry, now) {
            permits.remove_ticket(now, of);
        }
    }
}

/// Gives a permit another number.
pub(super) fn rename(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    (from, to): (PermitId, PermitId),
) {
    for entry in entries {
        if let Some((_, permits)) = permits_of(entry, now) {
            permits.rename(from, to);
        }
    }
}

/// The policy for concurrency in force, and its state to change; `None` for another policy.
fn permits_of<'e>(
    entry: &'e mut PolicyEntry<'_, '_>,
    now: Micros,
) -> Option<(&'e Concurrency, &'e mut PermitState)> {
    match entry.policy_and_state(now) {
        (Policy::Concurrency(own), State::Permits(permits)) => Some((own, permits)),
        _ => None,
    }
}
