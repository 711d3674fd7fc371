//! Holds of reservations: see [`Operation::Reserve`](crate::policy::operation::Operation::Reserve).
//!
//! The holds of a reservation are stored with the key of the first policy. A hold has the units that
//! its reservation has charged in total, so a caller that does not know of an extension neither
//! charges units twice nor refunds more than was reserved.

use super::owed::{Charged, charge_or_owe};
use super::stored::{Hold, LATE};
use super::{
    Execution, KeyMetadata, MoreUnits, MovedUnits, PolicyEntry, SettledUnits, refund_charge, take,
};
use crate::algorithm::ChargeRecord;
use crate::policy::operation::{Charge, HoldId, NewHold};
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::time::{Micros, end_of};

/// See [`Operation::Reserve`](crate::policy::operation::Operation::Reserve).
pub(super) fn reserve(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    (id, lasting): (HoldId, Micros),
) -> Execution {
    let executed = take(policies, entries, now, cost, policies.ban());
    if executed.units > 0 {
        add(entries, now, cost, NewHold { id, lasting });
    }
    executed
}

/// Adds a hold.
pub(super) fn add(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    NewHold { id, lasting }: NewHold,
) {
    put(entries, now, Hold { id, units: cost.clone(), expires_at: end_of(now, lasting) });
}

/// See [`Operation::Extend`](crate::policy::operation::Operation::Extend). `None` without a hold.
pub(super) fn extend(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
    (id, lasting): (HoldId, Micros),
) -> Option<Execution> {
    let mut hold = find_like(entries, now, id, cost)?;
    let taken = policies.without_permits(cost);
    let mut executed = take(policies, entries, now, &taken, policies.ban());
    if executed.units > 0 {
        executed.units = cost.when_charged();
        hold.units = hold.units.plus(cost);
        put(entries, now, hold.clone().until(end_of(now, lasting)));
    }
    Some(executed.with_units(None, Some(hold.units)))
}

/// See [`Operation::Renew`](crate::policy::operation::Operation::Renew). Returns whether there was a
/// hold.
pub(super) fn renew(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    (id, lasting): (HoldId, Micros),
) -> bool {
    let Some(hold) = find(entries, now, id) else { return false };
    put(entries, now, hold.until(end_of(now, lasting)));
    true
}

/// A hold that has been settled.
pub(super) struct Settled {
    /// The units that were refunded or charged.
    pub(super) moved: MovedUnits,
    /// The charged units that are owed.
    pub(super) owed: MovedUnits,
    /// The units of the hold.
    pub(super) held: Units,
    /// Whether it had expired.
    pub(super) is_late: bool,
}

/// See [`Operation::Settle`](crate::policy::operation::Operation::Settle). `None` without a hold.
pub(super) fn settle(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    id: HoldId,
    actual: &Units,
    charges: &[Charge],
) -> Option<Settled> {
    let Hold { units: held, expires_at, .. } =
        find_like(entries, now.saturating_sub(LATE), id, actual)?;
    let is_late = expires_at <= now;
    remove(entries, id);
    let deficit = policies.without_permits(&actual.minus(&held));
    let mut charged = Charged::default();
    if !deficit.is_zero() {
        charged = charge_or_owe(entries, now, &deficit, |number| policies.owed_limit(number));
    }
    let Charged { mut moved, owed } = charged;
    // The units of a reservation that has expired count as spent.
    for entry in entries.iter_mut().filter(|_| !is_late) {
        let number = entry.number;
        let surplus = held.of(number).saturating_sub(actual.of(number));
        moved.add(number, refund_newest(entry, now, surplus, charges));
    }
    Some(Settled { moved, owed, held, is_late })
}

/// Refunds units of several charges under one policy, of the latest ones first.
fn refund_newest(
    entry: &mut PolicyEntry<'_, '_>,
    now: Micros,
    mut surplus: u64,
    charges: &[Charge],
) -> u64 {
    let mut refunded = 0;
    for Charge { units: charged, taken } in charges.iter().rev() {
        let cost = charged.of(entry.number);
        let units = surplus.min(cost);
        surplus -= units;
        if units == 0 {
            continue;
        }
        let whole = |record: &ChargeRecord| ChargeRecord { cost, kept: cost - units, ..*record };
        let taken: Vec<_> = taken.iter().map(whole).collect();
        refunded += refund_charge(entry, now, units, &taken);
    }
    refunded
}

impl Hold {
    /// The hold with a later end, if it is later.
    fn until(self, end: Micros) -> Self {
        Self { expires_at: self.expires_at.max(end), ..self }
    }
}

impl Settled {
    /// The result without a hold.
    pub(super) fn none(actual: &Units) -> Self {
        let none = MovedUnits::default();
        Self { moved: none, owed: none, held: actual.none(), is_late: false }
    }

    /// The units of the settlement beside the most units under one policy.
    pub(super) fn into_more_units(self, policies: &PolicySet, actual: &Units) -> MoreUnits {
        let Self { moved, owed, held, is_late } = self;
        let owed = match actual {
            Units::Same(_) => owed.most().into(),
            Units::ByPolicy(_) => actual.with_numbers(|number| owed.of(number)),
        };
        let moved = moved.by_policy(policies, actual);
        let settled = Some(SettledUnits { owed, is_late });
        MoreUnits { moved, held: Some(held), settled, first: None }
    }
}

/// The metadata of the first policy's key.
pub(super) fn metadata<'e>(entries: &'e mut [PolicyEntry<'_, '_>]) -> Option<&'e mut KeyMetadata> {
    let first = entries.iter_mut().find(|entry| entry.number == 0)?;
    Some(first.part.metadata)
}

fn holds<'e>(entries: &'e mut [PolicyEntry<'_, '_>]) -> Option<&'e mut Vec<Hold>> {
    Some(&mut metadata(entries)?.holds)
}

/// The hold with an identifier, if it has not expired.
pub(super) fn find(entries: &mut [PolicyEntry<'_, '_>], now: Micros, id: HoldId) -> Option<Hold> {
    holds(entries)?.iter().find(|hold| hold.id == id && hold.expires_at > now).cloned()
}

/// The hold with an identifier, if it has not expired and has as many numbers of units: a limiter with
/// another number of policies may have charged it.
fn find_like(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    id: HoldId,
    units: &Units,
) -> Option<Hold> {
    let hold = find(entries, now, id).filter(|hold| hold.units.is_like(units))?;
    // A single number may be that of the only policy.
    Some(Hold { units: units.with_numbers(|policy| hold.units.of(policy)), ..hold })
}

fn remove(entries: &mut [PolicyEntry<'_, '_>], id: HoldId) {
    if let Some(holds) = holds(entries) {
        holds.retain(|hold| hold.id != id);
    }
}

/// The most holds and remembered calls of a key. The script has the same number.
pub const MAX_HOLDS: usize = 10_000;

/// The most holds and remembered calls that are dropped at a time.
const MAX_DROPPED: usize = 50;

/// Adds a hold, or replaces the one with the same identifier. Drops holds and calls that have ended.
fn put(entries: &mut [PolicyEntry<'_, '_>], now: Micros, hold: Hold) {
    if let Some(metadata) = metadata(entries) {
        metadata.holds.retain(|other| other.id != hold.id);
        drop_ended(metadata, now);
        metadata.holds.push(hold);
    }
}

/// Drops the holds that can no longer be settled, and remembered calls that expired as long ago: the
/// earliest first, up to [`MAX_DROPPED`]. A key with [`MAX_HOLDS`] of both drops all that have expired. A
/// clock that steps back may bring back the others.
pub(super) fn drop_ended(metadata: &mut KeyMetadata, now: Micros) {
    let KeyMetadata { holds, repeats, .. } = metadata;
    let count = holds.len() + repeats.as_ref().map_or(0, |calls| calls.len());
    let until = if count < MAX_HOLDS { now.saturating_sub(LATE) } else { now };
    let ended = holds.iter().filter(|hold| hold.expires_at <= until);
    let mut ended: Vec<_> = ended.map(|hold| (hold.expires_at, true, None, hold.id)).collect();
    let calls = repeats.iter().flat_map(|calls| calls.ended(until)).take(MAX_DROPPED);
    // Of those that end at the same time the script drops the calls first.
    ended.extend(
        calls.map(|call| (call.expires_at, false, Some(call.key.clone()), HoldId::default())),
    );
    ended.sort_unstable();
    ended.truncate(MAX_DROPPED);
    for (_, _, key, id) in ended {
        match (key, &mut *repeats) {
            (Some(key), Some(calls)) => calls.remove(&key),
            _ => holds.retain(|hold| hold.id != id),
        }
    }
}
