//! Charges that need not fit, and the payment of owed units: see [`Owed`](crate::policy::owed::Owed).

use super::{KeyEntry, MovedUnits, PolicyEntry, peek, set_cost};
use crate::policy::multi_policy::Response;
use crate::policy::owed::{Owed, OwedLimit};
use crate::policy::policy_set::PolicySet;
use crate::policy::units::Units;
use crate::time::Micros;

/// Units that were charged, whether or not they fitted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charged {
    /// All of them, by policy.
    pub(super) moved: MovedUnits,
    /// Those that are owed.
    pub(super) owed: MovedUnits,
}

/// Charges each policy as many units as it has left, at most `units`. The rest become owed, as far as
/// `limit_of` allows it.
pub(super) fn charge_or_owe(
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    units: &Units,
    limit_of: impl Fn(usize) -> OwedLimit,
) -> Charged {
    let mut charged = Charged::default();
    for entry in entries {
        let units = units.of(entry.number);
        let fitting = entry.charge_fitting(now, units);
        let may_owe = entry.part.may_owe && !entry.part.is_shared;
        let limit = if may_owe { limit_of(entry.number) } else { OwedLimit::default() };
        let owed = entry.part.metadata.owed.add(units - fitting, limit, now);
        charged.moved.add(entry.number, fitting + owed);
        charged.owed.add(entry.number, owed);
    }
    charged
}

/// The response to a peek. It pays owed units in a copy.
pub(super) fn peek_as_paid(
    policies: &PolicySet,
    entries: &mut [PolicyEntry<'_, '_>],
    now: Micros,
    cost: &Units,
) -> Response {
    set_cost(entries, cost);
    if entries.iter().all(|entry| entry.part.metadata.owed.units == 0) {
        return peek(policies, entries, now);
    }
    let copy =
        |entry: &PolicyEntry<'_, '_>| (entry.part.state.clone(), entry.part.metadata.clone());
    let mut copies: Vec<_> = entries.iter().map(copy).collect();
    let mut parts = Vec::new();
    for (entry, (state, metadata)) in entries.iter().zip(&mut copies) {
        let is_shared = entry.part.is_shared;
        parts.push(KeyEntry { state, metadata, may_strike: false, may_owe: false, is_shared });
    }
    let paid = entries.iter().zip(&mut parts).map(|(entry, part)| {
        let PolicyEntry { number, own, cost, .. } = *entry;
        if part.metadata.owed.units > 0 {
            part.state.drop_ended_mark(now);
        }
        let mut entry = PolicyEntry { number, own, part, cost, request: None };
        entry.pay(now);
        entry
    });
    let paid: Vec<_> = paid.collect();
    peek(policies, &paid, now)
}

impl PolicyEntry<'_, '_> {
    /// Charges as many units as remain, at most `units`. Returns their number.
    fn charge_fitting(&mut self, now: Micros, units: u64) -> u64 {
        self.prepare(now, units);
        let fitting = self.remaining(now).min(units);
        // A cost of 0 would only repair the state, which has been done.
        if fitting > 0 {
            self.charge(now, fitting);
        }
        fitting
    }

    /// Pays owed units. If any are left, nothing remains.
    pub(super) fn pay(&mut self, now: Micros) {
        let mut owed = self.part.metadata.owed;
        if owed.units == 0 {
            return;
        }
        owed.pay_idle(now);
        let paid = if owed.units > 0 { self.charge_fitting(now, owed.units) } else { 0 };
        owed.units -= paid;
        // A refused call that counts begins the period anew.
        if paid > 0 || self.policy(now).counts_refused() {
            owed.at = now;
        }
        self.part.metadata.owed = if owed.units > 0 { owed } else { Owed::default() };
    }
}
