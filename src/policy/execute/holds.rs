//! Holds of reservations: see [`Operation::Reserve`](crate::policy::operation::Operation::Reserve).
//!
//! The holds of a reservation are stored with the key of the first policy. A hold has the units that
//! its reservation has charged in total, so a caller that does not know of an extension neither
//! charges units twice nor refunds more than was reserved.

use super::{Execution, PolicyEntry, charge_remaining, refund_charge, take};
use crate::algorithm::ChargeRecord;
use crate::policy::operation::{Charge, HoldId};
use crate::policy::policy_set::PolicySet;
use crate::time::{MAX_SAFE, Micros, end_of};

/// A reservation that has not been settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The identifier.
    pub id: HoldId,
    /// The units that were charged.
    pub units: u64,
    /// From this time on it cannot be settled.
    pub expires_at: Micros,
}

/// See [`Operation::Reserve`](crate::policy::operation::Operation::Reserve).
pub(super) fn reserve(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: u64,
    (id, lasting): (HoldId, Micros),
) -> Execution {
    let executed = take(policies, entries, now, cost, policies.ban());
    if executed.units > 0 {
        put(entries, now, Hold { id, units: cost, expires_at: end_of(now, lasting) });
    }
    executed
}

/// See [`Operation::Extend`](crate::policy::operation::Operation::Extend). `None` without a hold.
pub(super) fn extend(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: u64,
    (id, lasting): (HoldId, Micros),
) -> Option<Execution> {
    let mut hold = find(entries, now, id)?;
    let mut executed = take(policies, entries, now, cost, policies.ban());
    if executed.units > 0 {
        hold.units = hold.units.saturating_add(cost).min(MAX_SAFE);
        put(entries, now, hold.until(end_of(now, lasting)));
    }
    executed.held = Some(hold.units);
    Some(executed)
}

/// See [`Operation::Renew`](crate::policy::operation::Operation::Renew). Returns whether there was a
/// hold.
pub(super) fn renew(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    (id, lasting): (HoldId, Micros),
) -> bool {
    let hold = find(entries, now, id);
    if let Some(hold) = hold {
        put(entries, now, hold.until(end_of(now, lasting)));
    }
    hold.is_some()
}

/// See [`Operation::Settle`](crate::policy::operation::Operation::Settle). Returns the units that
/// were moved, and those of the hold; 0 and 0 without a hold.
pub(super) fn settle(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    id: HoldId,
    actual: u64,
    charges: &[Charge],
) -> (u64, u64) {
    let Some(Hold { units, .. }) = find(entries, now, id) else { return (0, 0) };
    remove(entries, id);
    let moved = match units.checked_sub(actual) {
        None => charge_remaining(entries, now, actual - units),
        Some(surplus) => refund_newest(entries, now, surplus, charges),
    };
    (moved, units)
}

/// Refunds units of several charges, of the latest ones first. Returns the most units under one
/// policy.
fn refund_newest(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    mut surplus: u64,
    charges: &[Charge],
) -> u64 {
    let mut refunded = vec![0; entries.len()];
    for Charge { units: charged, taken } in charges.iter().rev() {
        let units = surplus.min(*charged);
        surplus -= units;
        if units == 0 {
            continue;
        }
        let (cost, kept) = (*charged, charged - units);
        let whole = |record: &ChargeRecord| ChargeRecord { cost, kept, ..*record };
        let taken: Vec<_> = taken.iter().map(whole).collect();
        for (entry, refunded) in entries.iter_mut().zip(&mut refunded) {
            *refunded += refund_charge(entry, now, units, &taken);
        }
    }
    refunded.into_iter().max().unwrap_or(0)
}

impl Hold {
    /// The hold with a later end, if it is later.
    fn until(self, end: Micros) -> Self {
        Self { expires_at: self.expires_at.max(end), ..self }
    }
}

fn holds<'e>(entries: &'e mut [PolicyEntry<'_, '_>]) -> Option<&'e mut Vec<Hold>> {
    let first = entries.iter_mut().find(|entry| entry.number == 0)?;
    Some(&mut first.part.metadata.holds)
}

/// The hold with an identifier, if it has not expired.
fn find(entries: &mut [PolicyEntry<'_, '_>], now: Micros, id: HoldId) -> Option<Hold> {
    holds(entries)?.iter().copied().find(|hold| hold.id == id && hold.expires_at > now)
}

fn remove(entries: &mut [PolicyEntry<'_, '_>], id: HoldId) {
    if let Some(holds) = holds(entries) {
        holds.retain(|hold| hold.id != id);
    }
}

/// The most expired holds that are dropped at a time.
const MAX_DROPPED: usize = 50;

/// Adds a hold, or replaces that with its identifier, and drops those that have expired: the earliest
/// first, up to [`MAX_DROPPED`]. A clock that steps back may bring back the others.
fn put(entries: &mut [PolicyEntry<'_, '_>], now: Micros, hold: Hold) {
    if let Some(holds) = holds(entries) {
        holds.retain(|other| other.id != hold.id);
        let mut expired: Vec<_> = holds
            .iter()
            .filter(|other| other.expires_at <= now)
            .map(|other| (other.expires_at, other.id))
            .collect();
        expired.sort_unstable();
        if let Some(last) = expired.get(MAX_DROPPED - 1).or(expired.last()).copied() {
            holds.retain(|other| (other.expires_at, other.id) > last);
        }
        holds.push(hold);
    }
}
