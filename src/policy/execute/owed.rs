//! Charges that need not fit, and the payment of owed units: see [`Owed`](crate::policy::owed::Owed).

use super::{MovedUnits, PolicyEntry};
use crate::policy::owed::{Owed, OwedLimit};
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
