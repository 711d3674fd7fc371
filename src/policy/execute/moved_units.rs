//! Units that operations other than calls charge or refund.

use super::PolicyEntry;
use crate::algorithm::{Algorithm as _, ChargeRecord};
use crate::policy::policy_set::{MAX_POLICIES, PolicySet};
use crate::policy::units::Units;
use crate::time::Micros;

/// The units that an operation has charged or refunded, by policy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MovedUnits([u64; MAX_POLICIES]);

impl MovedUnits {
    pub(super) fn add(&mut self, policy: usize, units: u64) {
        self.0[policy] += units;
    }

    /// The units under a policy.
    pub(super) fn of(&self, policy: usize) -> u64 {
        self.0[policy]
    }

    /// The most under one policy.
    pub(super) fn most(&self) -> u64 {
        self.0.into_iter().max().unwrap_or(0)
    }

    /// The units under each policy, if the units of the operation are by policy.
    pub(super) fn by_policy(&self, policies: &PolicySet, units: &Units) -> Option<Box<[u64]>> {
        units.is_by_policy().then(|| self.0[..policies.named().len()].into())
    }
}

/// Refunds units of one charge under one policy.
pub(super) fn refund_charge(
    entry: &mut PolicyEntry<'_, '_>,
    now: Micros,
    units: u64,
    taken: &[ChargeRecord],
) -> u64 {
    if entry.part.is_shared {
        return 0;
    }
    entry.prepare(now, units);
    if units == 0 {
        return 0;
    }
    let number = entry.number;
    let (policy, state) = entry.policy_and_state(now);
    taken.get(number).map_or(0, |&taken| policy.refund(state, now, units, taken))
}
