//! The policies of a limiter: one, or several that decide together.

use std::fmt;
use std::sync::Arc;

use crate::algorithm::Algorithm as _;
use crate::policy::Policy;
use crate::policy::ban::BanRule;
use crate::policy::owed::OwedLimit;
use crate::policy::units::Units;
use crate::short_list::ShortList;

/// The most policies of a limiter.
pub const MAX_POLICIES: usize = 8;

/// A list by policy of a limiter, or by key dimension of a call; usually short.
pub(crate) type PerPolicy<T> = ShortList<T, 4>;

/// The rule for a policy that counts refused calls among several.
const COUNTS_REFUSED: &str = "countRefused cannot be used among several policies";

/// One policy, or several by name: a call is charged by all of them or by none.
///
/// Each policy counts by one of the call's *key dimensions*: the kinds of keys that a call names (a
/// user, an address). A limiter whose policies all count by the same key has one key dimension.
///
/// # Examples
/// ```
/// use tollgate::algorithm::{FixedWindow, Gcra};
/// use tollgate::policy::{Policy, policy_set::{NamedPolicy, PolicySet}};
/// let burst = Policy::Gcra(Gcra::new(10, 1_000_000, 10).unwrap());
/// let day = Policy::FixedWindow(FixedWindow::new(5_000, 86_400_000_000).unwrap());
/// let named = [("burst", burst), ("day", day)]
///     .map(|(name, policy)| NamedPolicy { name: name.into(), policy, key_dimension: 0 });
/// assert_eq!(PolicySet::multi(named.into()).unwrap().named_limits(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySet {
    named: Box<[NamedPolicy]>,
    key_dimensions: usize,
    ban: Option<Arc<BanRule>>,
    /// The most units that may be owed, by policy, where it is set.
    max_owed: Box<[Option<u64>]>,
}

/// One of a limiter's policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPolicy {
    /// The name in decisions and in stored keys.
    pub name: Box<str>,
    /// The algorithm with its numbers.
    pub policy: Policy,
    /// The index of its key dimension.
    pub key_dimension: usize,
}

/// The error for policies that cannot decide together, and for other policies that a limiter or a
/// prefix cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPolicySet(&'static str);

impl InvalidPolicySet {
    /// Policies that are no variant of a limiter's policies.
    pub(crate) const NOT_A_VARIANT: Self = Self("must differ in numbers only");
    /// More variants than have numbers.
    pub(crate) const TOO_MANY_VARIANTS: Self = Self("must be at most 65,536 variants");
    /// The prefix is open with policies that differ in more than numbers: both limiters would count
    /// on the same keys.
    pub(crate) const PREFIX_IN_USE: Self = Self(
        "is in use on this store by a limiter whose policies differ in more than numbers: close it, \
         or use another prefix",
    );

    /// The rule that they break.
    #[must_use]
    pub fn rule(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for InvalidPolicySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidPolicySet {}

impl PolicySet {
    /// One policy, named `default` in stored keys.
    #[must_use]
    pub fn single(policy: Policy) -> Self {
        let named = NamedPolicy { name: "default".into(), policy, key_dimension: 0 };
        Self { named: Box::new([named]), key_dimensions: 1, ban: None, max_owed: Box::default() }
    }

    /// Several policies by name.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] in four cases: there is no policy, or more than [`MAX_POLICIES`]; two
    /// policies have the same name, and so would use the same keys; one of several counts refused
    /// calls, although a call that another one refuses is charged by none; a key dimension below
    /// the largest has no policy.
    pub fn multi(named: Vec<NamedPolicy>) -> Result<Self, InvalidPolicySet> {
        if named.is_empty() || named.len() > MAX_POLICIES {
            return Err(InvalidPolicySet("must be 1 to 8 policies"));
        }
        let is_taken = |(index, one): (usize, &NamedPolicy)| {
            named[..index].iter().any(|other| other.name == one.name)
        };
        if named.iter().enumerate().any(is_taken) {
            return Err(InvalidPolicySet("must have distinct names"));
        }
        if named.len() > 1 && named.iter().any(|named| named.policy.counts_refused()) {
            return Err(InvalidPolicySet(COUNTS_REFUSED));
        }
        let key_dimensions =
            named.iter().map(|named| named.key_dimension + 1).max().unwrap_or_default();
        let has_policy =
            |key_dimension| named.iter().any(|named| named.key_dimension == key_dimension);
        if !(0..key_dimensions).all(has_policy) {
            return Err(InvalidPolicySet("must count by each key dimension"));
        }
        Ok(Self { named: named.into(), key_dimensions, ban: None, max_owed: Box::default() })
    }

    /// These policies with a rule for bans.
    #[must_use]
    pub fn with_ban(self, rule: BanRule) -> Self {
        Self { ban: Some(Arc::new(rule)), ..self }
    }

    /// These policies with the most units that may be owed, by policy.
    #[must_use]
    pub fn with_max_owed(self, max_owed: Vec<Option<u64>>) -> Self {
        Self { max_owed: max_owed.into(), ..self }
    }

    /// How many units a settlement may leave owed under the policy of this number. By default its
    /// capacity.
    pub(crate) fn owed_limit(&self, number: usize) -> OwedLimit {
        let policy = &self.named[number].policy;
        policy.owed_limit(self.max_owed(number).unwrap_or_else(|| policy.capacity()))
    }

    /// How many units a penalty may leave owed under the policy of this number. By default none.
    pub(crate) fn owed_penalty_limit(&self, number: usize) -> OwedLimit {
        self.named[number].policy.owed_limit(self.max_owed(number).unwrap_or(0))
    }

    fn max_owed(&self, number: usize) -> Option<u64> {
        self.max_owed.get(number).copied().flatten()
    }

    /// The rule for bans.
    #[must_use]
    pub fn ban(&self) -> Option<&BanRule> {
        self.ban.as_deref()
    }

    /// Units of an operation that charges none under policies for concurrency.
    pub(crate) fn without_permits(&self, units: &Units) -> Units {
        let holds_permits = |named: &NamedPolicy| named.policy.concurrency().is_some();
        if !self.named().iter().any(holds_permits) {
            return units.clone();
        }
        let policies = self.named().iter().enumerate();
        let own =
            policies.map(|(policy, named)| if holds_permits(named) { 0 } else { units.of(policy) });
        Units::ByPolicy(own.collect())
    }

    /// Units of an operation that charges some under policies for concurrency alone.
    pub(crate) fn only_permits(&self, units: &Units) -> Units {
        let own = self
            .named()
            .iter()
            .enumerate()
            .map(|(policy, named)| named.policy.concurrency().map_or(0, |_| units.of(policy)));
        Units::ByPolicy(own.collect())
    }

    /// The policies, in the order of declaration.
    #[must_use]
    pub fn named(&self) -> &[NamedPolicy] {
        &self.named
    }

    /// The number of key dimensions.
    #[must_use]
    pub fn key_dimensions(&self) -> usize {
        self.key_dimensions
    }

    /// The policy, if it is the only one.
    #[must_use]
    pub fn alone(&self) -> Option<&Policy> {
        match &*self.named {
            [NamedPolicy { policy, .. }] => Some(policy),
            _ => None,
        }
    }

    /// Checks the policies of an override. A policy without an entry keeps its numbers.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] if there is not one entry for each policy, if an entry has another
    /// algorithm or another number of limits, or if one of several counts refused calls.
    pub fn check_override(&self, by: &[Option<Arc<Policy>>]) -> Result<(), InvalidPolicySet> {
        if by.len() != self.named.len() {
            return Err(InvalidPolicySet("must be one for each policy"));
        }
        for (named, other) in self.named.iter().zip(by) {
            let Some(other) = other else { continue };
            if other.tag() != named.policy.tag() {
                return Err(InvalidPolicySet("must be of the same kind as the policy"));
            }
            if other.named_limits() != named.policy.named_limits() {
                return Err(InvalidPolicySet("must have the same limits as the policy"));
            }
            if self.named.len() > 1 && other.counts_refused() {
                return Err(InvalidPolicySet(COUNTS_REFUSED));
            }
        }
        Ok(())
    }

    /// The number of limits that decisions report by name; 0 if there is only one limit.
    #[must_use]
    pub fn named_limits(&self) -> usize {
        match self.alone() {
            Some(policy) => policy.named_limits(),
            None => self.named.iter().map(|named| named.policy.named_limits().max(1)).sum(),
        }
    }
}

impl From<Policy> for PolicySet {
    fn from(policy: Policy) -> Self {
        Self::single(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra, LogLimit, SlidingLog};

    fn gcra(name: &str, key_dimension: usize) -> NamedPolicy {
        let policy = Policy::Gcra(Gcra::new(7, 1_000, 7).unwrap());
        NamedPolicy { name: name.into(), policy, key_dimension }
    }

    #[test]
    fn policies_that_cannot_decide_together_are_refused() {
        let why = |named| PolicySet::multi(named).unwrap_err().to_string();
        assert_eq!(why(vec![]), "must be 1 to 8 policies");
        assert_eq!(why(vec![gcra("a", 0); 9]), "must be 1 to 8 policies");
        assert_eq!(why(vec![gcra("a", 0), gcra("b", 2)]), "must count by each key dimension");
        assert_eq!(why(vec![gcra("a", 0), gcra("a", 1)]), "must have distinct names");
        let window = FixedWindow::new(7, 1_000).unwrap().counting_refused(true);
        let counting =
            NamedPolicy { name: "c".into(), policy: Policy::FixedWindow(window), key_dimension: 0 };
        assert!(why(vec![gcra("a", 0), counting.clone()]).starts_with("countRefused"));
        assert!(PolicySet::multi(vec![counting]).is_ok());
    }

    #[test]
    fn one_policy_has_one_key_dimension_and_no_names() {
        let one = PolicySet::single(gcra("a", 0).policy);
        assert_eq!((one.key_dimensions(), one.named_limits(), one.alone().is_some()), (1, 0, true));
        let two = PolicySet::multi(vec![gcra("a", 0), gcra("b", 1)]).unwrap();
        assert_eq!(
            (two.key_dimensions(), two.named_limits(), two.alone().is_some()),
            (2, 2, false)
        );
    }

    #[test]
    fn a_key_is_overridden_by_policies_of_the_same_kinds() {
        let two = PolicySet::multi(vec![gcra("a", 0), gcra("b", 1)]).unwrap();
        let why = |by: &[Option<Policy>]| {
            let by: Vec<_> = by.iter().map(|policy| policy.clone().map(Arc::new)).collect();
            two.check_override(&by).map_err(|error| error.to_string())
        };
        let (same, window) = (gcra("c", 0).policy, FixedWindow::new(7, 1_000).unwrap());
        assert_eq!(why(&[None, Some(same.clone())]), Ok(()));
        assert!(why(&[Some(same)]).unwrap_err().contains("one for each"));
        let kind = why(&[Some(Policy::FixedWindow(window)), None]).unwrap_err();
        assert_eq!(kind, "must be of the same kind as the policy");

        let logs = |limits: &[LogLimit]| {
            Policy::SlidingLog(SlidingLog::with_limits(limits, None).unwrap())
        };
        let limit = |limit| LogLimit { limit, window: 10 * limit };
        let one = PolicySet::single(logs(&[limit(1), limit(2)]));
        let fewer = one.check_override(&[Some(Arc::new(logs(&[limit(1)])))]);
        assert_eq!(fewer.unwrap_err().to_string(), "must have the same limits as the policy");

        let counting = |counts| Policy::FixedWindow(window.counting_refused(counts));
        let named = |name: &str| NamedPolicy {
            name: name.into(),
            policy: counting(false),
            key_dimension: 0,
        };
        let two = PolicySet::multi(vec![named("a"), named("b")]).unwrap();
        let counts = two.check_override(&[None, Some(Arc::new(counting(true)))]);
        assert!(counts.unwrap_err().to_string().starts_with("countRefused"));
        let alone = PolicySet::single(counting(false));
        assert_eq!(alone.check_override(&[Some(Arc::new(counting(true)))]), Ok(()));
    }
}
