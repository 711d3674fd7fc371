//! Units by policy.

use tollgate::algorithm::Algorithm as _;
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::units::Units;

/// Units with as many numbers as others.
pub(crate) fn each(like: &Units, number: impl Fn(usize) -> u64) -> Units {
    match like {
        Units::Same(_) => number(0).into(),
        Units::ByPolicy(own) => (0..own.len()).map(number).collect::<Vec<_>>().into(),
    }
}

/// Units by policy for one choice in three: often 0 for a policy, sometimes all that fits, seldom more
/// than that. For the other choices the same units for all policies.
pub(crate) fn chosen(policies: &PolicySet, choice: usize, units: u64) -> Units {
    if !choice.is_multiple_of(3) {
        return units.into();
    }
    by_policy(policies, choice, units)
}

pub(crate) fn by_policy(policies: &PolicySet, choice: usize, units: u64) -> Units {
    let own = |(number, capacity): (usize, u64)| {
        let mixed = (choice as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * number as u64);
        match (mixed >> 32) % 32 {
            0..10 => 0,
            10..13 => capacity,
            13 => capacity + 1,
            14..20 => units.min(capacity),
            other => 1 + other % 3,
        }
    };
    let capacities = policies.named().iter().map(|named| named.policy.capacity());
    capacities.enumerate().map(own).collect::<Vec<_>>().into()
}
