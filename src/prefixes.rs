//! The open prefixes of a store, and their policies.

use std::fmt;

use crate::policy::policy_set::{InvalidPolicySet, NamedPolicy, PolicySet};

/// The error for a prefix that is open with different policies: both limits would count on the same
/// keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixInUse;

impl PrefixInUse {
    /// The rule that the prefix breaks.
    pub const RULE: &str = "is in use on this store by a limiter with a different policy";
}

impl fmt::Display for PrefixInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::RULE)
    }
}

impl std::error::Error for PrefixInUse {}

/// The error for a variant that differs in more than numbers, or that another limiter of the prefix
/// uses with other policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidVariant(&'static str);

impl InvalidVariant {
    /// The rule that the variant breaks.
    #[must_use]
    pub fn rule(self) -> &'static str {
        self.0
    }
}

impl From<InvalidPolicySet> for InvalidVariant {
    fn from(invalid: InvalidPolicySet) -> Self {
        Self(invalid.rule())
    }
}

impl From<PrefixInUse> for InvalidVariant {
    fn from(_: PrefixInUse) -> Self {
        Self(PrefixInUse::RULE)
    }
}

impl fmt::Display for InvalidVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidVariant {}

/// The open prefixes, and a number for each namespace ever opened. Both lists are sorted.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    open: Vec<OpenPrefix>,
    /// Never removed, so that a limiter that is closed and opened again finds its states.
    numbers: Vec<(Namespace, u32)>,
}

/// Which variant of a prefix's policies a limiter opens.
#[derive(Debug, Clone, Copy)]
pub struct VariantIndex {
    /// The index among the variants of the prefix, from 0.
    pub index: usize,
    /// Whether the policies replace those of the same index.
    pub replaces: bool,
}

type Namespace = (Box<str>, Box<str>, &'static str);

#[derive(Debug)]
struct OpenPrefix {
    prefix: Box<str>,
    /// The policies of the prefix, and then those of its further variants.
    variants: Vec<PolicySet>,
    limiters: usize,
}

impl Prefixes {
    /// Opens `prefix`, and returns the number of each policy's namespace. A namespace is a prefix,
    /// a policy name and a kind of state.
    pub(crate) fn open(
        &mut self,
        prefix: &str,
        policies: &PolicySet,
    ) -> Result<Box<[u32]>, PrefixInUse> {
        match self.find(prefix) {
            Ok(index) if self.open[index].variants[0] != *policies => return Err(PrefixInUse),
            Ok(index) => self.open[index].limiters += 1,
            Err(index) => {
                let variants = vec![policies.clone()];
                self.open
                    .insert(index, OpenPrefix { prefix: prefix.into(), variants, limiters: 1 });
            }
        }
        let number = |NamedPolicy { name, policy, .. }: &NamedPolicy| {
            self.number((prefix.into(), name.clone(), policy.tag()))
        };
        Ok(policies.named().iter().map(number).collect())
    }

    /// The policies of an open prefix. Limiters that use these same policies share the numbers that
    /// states refer to.
    pub(crate) fn policies(&self, prefix: &str) -> Option<&PolicySet> {
        self.open[self.find(prefix).ok()?].variants.first()
    }

    /// Opens a variant of an open prefix for one more limiter. With `replaces`, limiters of the
    /// prefix that are opened later must use these policies.
    ///
    /// # Errors
    /// [`PrefixInUse`] if another limiter of the prefix uses other policies as this variant.
    pub(crate) fn open_variant(
        &mut self,
        prefix: &str,
        VariantIndex { index, replaces }: VariantIndex,
        policies: &PolicySet,
    ) -> Result<(), PrefixInUse> {
        let Ok(open) = self.find(prefix) else { return Err(PrefixInUse) };
        let OpenPrefix { variants, limiters, .. } = &mut self.open[open];
        match variants.get_mut(index) {
            Some(known) if replaces => *known = policies.clone(),
            Some(known) if known != policies => return Err(PrefixInUse),
            Some(_) => {}
            None => variants.push(policies.clone()),
        }
        *limiters += 1;
        Ok(())
    }

    /// Closes one limiter of the prefix.
    pub(crate) fn close(&mut self, prefix: &str) {
        if let Ok(index) = self.find(prefix) {
            self.open[index].limiters -= 1;
            if self.open[index].limiters == 0 {
                self.open.remove(index);
            }
        }
    }

    /// The index of an open prefix, or the index at which to insert it.
    fn find(&self, prefix: &str) -> Result<usize, usize> {
        self.open.binary_search_by(|open| (*open.prefix).cmp(prefix))
    }

    fn number(&mut self, namespace: Namespace) -> u32 {
        match self.numbers.binary_search_by(|(known, _)| known.cmp(&namespace)) {
            Ok(index) => self.numbers[index].1,
            Err(index) => {
                let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
                self.numbers.insert(index, (namespace, next));
                next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::policy::Policy;

    fn policy(limit: u64) -> Policy {
        Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap())
    }

    fn gcra(limit: u64) -> PolicySet {
        PolicySet::single(policy(limit))
    }

    fn named(names: &[&str]) -> PolicySet {
        let named =
            |name: &&str| NamedPolicy { name: (*name).into(), policy: policy(9), key_dimension: 0 };
        PolicySet::multi(names.iter().map(named).collect()).unwrap()
    }

    #[test]
    fn equal_policies_share_a_namespace_and_different_ones_are_refused() {
        let mut prefixes = Prefixes::default();
        let namespace = prefixes.open("api", &gcra(10)).unwrap();
        assert_eq!(prefixes.open("api", &gcra(10)).unwrap(), namespace);
        assert_eq!(prefixes.open("api", &gcra(20)), Err(PrefixInUse));
        assert_ne!(prefixes.open("web", &gcra(20)).unwrap(), namespace);
    }

    #[test]
    fn variants_are_equal_for_all_limiters_of_a_prefix_unless_they_are_replaced() {
        let mut prefixes = Prefixes::default();
        let variant = |index, replaces| VariantIndex { index, replaces };
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(2)), Err(PrefixInUse));
        prefixes.open("api", &gcra(1)).unwrap();
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(2)), Ok(()));
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(3)), Err(PrefixInUse));
        assert_eq!(prefixes.open_variant("api", variant(1, true), &gcra(3)), Ok(()));
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(3)), Ok(()));
        assert_eq!(prefixes.open_variant("api", variant(0, true), &gcra(4)), Ok(()));
        assert_eq!(prefixes.open("api", &gcra(1)), Err(PrefixInUse));
        for _ in 0..5 {
            assert_eq!(prefixes.open("api", &gcra(1)), Err(PrefixInUse));
            prefixes.close("api");
        }
        assert!(prefixes.open("api", &gcra(1)).is_ok());
    }

    #[test]
    fn a_closed_prefix_keeps_its_states_under_new_numbers() {
        let mut prefixes = Prefixes::default();
        let namespace = prefixes.open("api", &gcra(10)).unwrap();
        prefixes.close("api");
        assert_eq!(prefixes.open("api", &gcra(20)), Ok(namespace));
    }

    #[test]
    fn another_algorithm_never_meets_the_old_states() {
        let mut prefixes = Prefixes::default();
        let namespace = prefixes.open("api", &gcra(10)).unwrap();
        prefixes.close("api");
        let window = Policy::FixedWindow(FixedWindow::new(10, 1_000_000).unwrap());
        assert_ne!(prefixes.open("api", &PolicySet::single(window)), Ok(namespace));
    }

    #[test]
    fn each_policy_has_a_namespace_by_its_name() {
        let mut prefixes = Prefixes::default();
        let namespaces = prefixes.open("api", &named(&["burst", "daily"])).unwrap();
        assert_ne!(namespaces[0], namespaces[1]);
        assert_eq!(prefixes.open("api", &named(&["burst"])), Err(PrefixInUse));
        assert_eq!(prefixes.open("api", &named(&["daily", "burst"])), Err(PrefixInUse));
        prefixes.close("api");
        let other = prefixes.open("api", &named(&["daily", "hourly"])).unwrap();
        assert_eq!(other[0], namespaces[1], "it is the same policy, wherever it is declared");
        assert!(!namespaces.contains(&other[1]));
    }
}
