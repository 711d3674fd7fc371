//! The units of an operation.

use crate::time::MAX_SAFE;

/// The units of an operation: the same number under all policies, or one for each policy.
///
/// Policies that count different things, such as requests and tokens, have costs by policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Units {
    /// The same number under all policies.
    Same(u64),
    /// A number for each policy, by its number; also for a policy without a key.
    ByPolicy(Box<[u64]>),
}

impl Units {
    /// No units under any policy.
    pub(crate) const NONE: Self = Self::Same(0);

    /// The units under the policy of this number.
    #[inline]
    #[must_use]
    pub fn of(&self, policy: usize) -> u64 {
        match self {
            Self::Same(units) => *units,
            Self::ByPolicy(units) => units.get(policy).copied().unwrap_or(0),
        }
    }

    /// Whether they are 0 under all policies.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.numbers().iter().all(|&units| units == 0)
    }

    /// Whether there is a number for each policy.
    #[inline]
    #[must_use]
    pub fn is_by_policy(&self) -> bool {
        matches!(self, Self::ByPolicy(_))
    }

    /// The numbers: a single one, or one for each policy.
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        match self {
            Self::Same(units) => std::slice::from_ref(units),
            Self::ByPolicy(units) => units,
        }
    }

    /// Whether other units have as many numbers.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.numbers().len() == other.numbers().len()
    }

    /// The units of a call that was charged, as an [`Execution`](super::execute::Execution) has
    /// them: 1 if they are by policy, because no single number tells them.
    pub(crate) fn when_charged(&self) -> u64 {
        match self {
            Self::Same(units) => *units,
            Self::ByPolicy(_) => u64::from(!self.is_zero()),
        }
    }

    /// The units of the call if it takes them, else 0: see [`when_charged`](Self::when_charged).
    pub(crate) fn if_charged(&self, is_charged: bool) -> u64 {
        if is_charged { self.when_charged() } else { 0 }
    }

    /// As many zeros.
    pub(crate) fn none(&self) -> Self {
        self.with_numbers(|_| 0)
    }

    /// Units with as many numbers.
    pub(crate) fn with_numbers(&self, number: impl Fn(usize) -> u64) -> Self {
        match self {
            Self::Same(_) => Self::Same(number(0)),
            Self::ByPolicy(units) => Self::ByPolicy((0..units.len()).map(number).collect()),
        }
    }

    /// These units less others, at least 0.
    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.with_numbers(|policy| self.of(policy).saturating_sub(other.of(policy)))
    }

    /// The sum with other units that have as many numbers.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with_numbers(|policy| self.of(policy).saturating_add(other.of(policy)).min(MAX_SAFE))
    }
}

impl From<u64> for Units {
    fn from(units: u64) -> Self {
        Self::Same(units)
    }
}

impl From<Vec<u64>> for Units {
    fn from(units: Vec<u64>) -> Self {
        Self::ByPolicy(units.into())
    }
}

impl<const N: usize> From<[u64; N]> for Units {
    fn from(units: [u64; N]) -> Self {
        Self::ByPolicy(units.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_same_under_all_policies_or_one_number_for_each() {
        let (same, own) = (Units::from(3), Units::from([0, 5]));
        assert_eq!([same.of(0), same.of(7), own.of(0), own.of(1), own.of(2)], [3, 3, 0, 5, 0]);
        assert_eq!([same.when_charged(), own.when_charged()], [3, 1]);
        assert_eq!([same.if_charged(false), own.if_charged(false)], [0, 0]);
        assert!(!own.is_zero() && Units::from([0, 0]).is_zero() && Units::NONE.is_zero());
        assert_eq!(Units::from([0, 0]).when_charged(), 0);
    }

    #[test]
    fn sums_stay_exact() {
        assert_eq!(Units::from([1, MAX_SAFE]).plus(&[2, 1].into()), [3, MAX_SAFE].into());
        assert_eq!(Units::from(4).plus(&Units::from(5)), Units::from(9));
        assert!(Units::from(1).is_like(&[9].into()) && !Units::from(1).is_like(&[9, 9].into()));
    }
}
