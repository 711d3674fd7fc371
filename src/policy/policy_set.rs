//! The policies of a limiter: one, or several that decide together.

use std::fmt;
use std::sync::Arc;

use crate::algorithm::Algorithm as _;
use crate::policy::Policy;
use crate::short_list::ShortList;

/// The most policies of a limiter.
pub const MOST_POLICIES: usize = 8;

/// A list by policy of a limiter, or by subject of a call: mostly short.
pub(crate) type ByPolicy<T> = ShortList<T, 4>;

/// The rule for a policy that counts refused calls among several.
const COUNTS_REFUSED: &str = "countRefused cannot be used among several policies";

/// One policy, or several by name: a call is charged by all of them or by none.
///
/// Each policy counts by one of the call's *subjects*: the kinds of keys that the call names (a user, an
/// address). A limiter whose policies all count by the same key has one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    named: Box<[NamedPolicy]>,
    subjects: usize,
}

/// One of a limiter's policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPolicy {
    /// The name in decisions and in stored keys.
    pub name: Box<str>,
    /// The algorithm with its numbers.
    pub policy: Policy,
    /// The index of its subject.
    pub subject: usize,
}

/// The error for policies that cannot decide together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPolicies(&'static str);

impl InvalidPolicies {
    /// The rule that they break.
    #[must_use]
    pub fn rule(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for InvalidPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidPolicies {}

impl Policies {
    /// One policy, named `default` in stored keys.
    #[must_use]
    pub fn one(policy: Policy) -> Self {
        let named = NamedPolicy { name: "default".into(), policy, subject: 0 };
        Self { named: Box::new([named]), subjects: 1 }
    }

    /// Several policies by name.
    ///
    /// # Errors
    /// [`InvalidPolicies`] in four cases: there is no policy, or more than [`MOST_POLICIES`]; two policies have
    /// the same name, and so would use the same keys; one of several counts refused calls, although a call that
    /// another one refuses is charged by none; a subject below the largest has no policy.
    pub fn several(named: Vec<NamedPolicy>) -> Result<Self, InvalidPolicies> {
        if named.is_empty() || named.len() > MOST_POLICIES {
            return Err(InvalidPolicies("must be 1 to 8 policies"));
        }
        let is_taken = |(index, one): (usize, &NamedPolicy)| {
            named[..index].iter().any(|other| other.name == one.name)
        };
        if named.iter().enumerate().any(is_taken) {
            return Err(InvalidPolicies("must have names of their own"));
        }
        if named.len() > 1 && named.iter().any(|named| named.policy.counts_refused()) {
            return Err(InvalidPolicies(COUNTS_REFUSED));
        }
        let subjects = named.iter().map(|named| named.subject + 1).max().unwrap_or_default();
        let has_policy = |subject| named.iter().any(|named| named.subject == subject);
        if !(0..subjects).all(has_policy) {
            return Err(InvalidPolicies("must count by each of the subjects"));
        }
        Ok(Self { named: named.into(), subjects })
    }

    /// The policies, in the order of declaration.
    #[must_use]
    pub fn named(&self) -> &[NamedPolicy] {
        &self.named
    }

    /// The number of subjects.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.subjects
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
    /// [`InvalidPolicies`] if there is not one entry for each policy, if an entry has another algorithm or
    /// another number of limits, or if one of several counts refused calls.
    pub fn check_override(&self, by: &[Option<Arc<Policy>>]) -> Result<(), InvalidPolicies> {
        if by.len() != self.named.len() {
            return Err(InvalidPolicies("must be one for each policy"));
        }
        for (named, other) in self.named.iter().zip(by) {
            let Some(other) = other else { continue };
            if other.tag() != named.policy.tag() {
                return Err(InvalidPolicies("must be of the same kind as the policy"));
            }
            if other.named_limits() != named.policy.named_limits() {
                return Err(InvalidPolicies("must have the same limits as the policy"));
            }
            if self.named.len() > 1 && other.counts_refused() {
                return Err(InvalidPolicies(COUNTS_REFUSED));
            }
        }
        Ok(())
    }

    /// How many limits decisions tell of by name; 0 if there is only one.
    #[must_use]
    pub fn named_limits(&self) -> usize {
        match self.alone() {
            Some(policy) => policy.named_limits(),
            None => self.named.iter().map(|named| named.policy.named_limits().max(1)).sum(),
        }
    }
}

impl From<Policy> for Policies {
    fn from(policy: Policy) -> Self {
        Self::one(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra, LogLimit, SlidingLog};

    fn gcra(name: &str, subject: usize) -> NamedPolicy {
        let policy = Policy::Gcra(Gcra::new(7, 1_000, 7).unwrap());
        NamedPolicy { name: name.into(), policy, subject }
    }

    #[test]
    fn policies_that_cannot_decide_together_are_refused() {
        let why = |named| Policies::several(named).unwrap_err().to_string();
        assert_eq!(why(vec![]), "must be 1 to 8 policies");
        assert_eq!(why(vec![gcra("a", 0); 9]), "must be 1 to 8 policies");
        assert_eq!(why(vec![gcra("a", 0), gcra("b", 2)]), "must count by each of the subjects");
        assert_eq!(why(vec![gcra("a", 0), gcra("a", 1)]), "must have names of their own");
        let window = FixedWindow::new(7, 1_000).unwrap().counting_refused(true);
        let counting =
            NamedPolicy { name: "c".into(), policy: Policy::FixedWindow(window), subject: 0 };
        assert!(why(vec![gcra("a", 0), counting.clone()]).starts_with("countRefused"));
        assert!(Policies::several(vec![counting]).is_ok());
    }

    #[test]
    fn one_policy_has_one_subject_and_no_names() {
        let one = Policies::one(gcra("a", 0).policy);
        assert_eq!((one.subjects(), one.named_limits(), one.alone().is_some()), (1, 0, true));
        let two = Policies::several(vec![gcra("a", 0), gcra("b", 1)]).unwrap();
        assert_eq!((two.subjects(), two.named_limits(), two.alone().is_some()), (2, 2, false));
    }

    #[test]
    fn a_key_is_overridden_by_policies_of_the_same_kinds() {
        let two = Policies::several(vec![gcra("a", 0), gcra("b", 1)]).unwrap();
        let why = |by: &[Option<Policy>]| {
            let by: Vec<_> = by.iter().map(|policy| policy.clone().map(Arc::new)).collect();
            two.check_override(&by).map_err(|error| error.to_string())
        };
        let (same, window) = (gcra("c", 0).policy, FixedWindow::new(7, 1_000).unwrap());
        assert_eq!(why(&[None, Some(same.clone())]), Ok(()));
        assert!(why(&[Some(same)]).unwrap_err().contains("one for each"));
        let kind = why(&[Some(Policy::FixedWindow(window)), None]).unwrap_err();
        assert_eq!(kind, "must be of the same kind as the policy");

        let logs =
            |limits: &[LogLimit]| Policy::SlidingLog(SlidingLog::several(limits, None).unwrap());
        let limit = |limit| LogLimit { limit, window: 10 * limit };
        let one = Policies::one(logs(&[limit(1), limit(2)]));
        let fewer = one.check_override(&[Some(Arc::new(logs(&[limit(1)])))]);
        assert_eq!(fewer.unwrap_err().to_string(), "must have the same limits as the policy");

        let counting = |counts| Policy::FixedWindow(window.counting_refused(counts));
        let named =
            |name: &str| NamedPolicy { name: name.into(), policy: counting(false), subject: 0 };
        let two = Policies::several(vec![named("a"), named("b")]).unwrap();
        let counts = two.check_override(&[None, Some(Arc::new(counting(true)))]);
        assert!(counts.unwrap_err().to_string().starts_with("countRefused"));
        let alone = Policies::one(counting(false));
        assert_eq!(alone.check_override(&[Some(Arc::new(counting(true)))]), Ok(()));
    }
}
