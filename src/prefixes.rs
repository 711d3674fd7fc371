//! The open prefixes of a store, and their policies.

use crate::policy::policy_set::{InvalidPolicySet, NamedPolicy, PolicySet};

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
    /// Whether the policies are an update of those of the same index, and not those of another limiter.
    pub replaces: bool,
}

/// What [`Prefixes`] has opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The number of each policy's namespace.
    pub(crate) namespaces: Box<[u32]>,
    /// Whether another limiter has the prefix open with other numbers.
    pub(crate) has_other_numbers: bool,
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
    /// Opens `prefix`. A namespace is a prefix, a policy name and a kind of state.
    ///
    /// Other numbers take over, as when a module with a limiter is loaded again: each limiter decides by
    /// its own, as during an update.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] if the prefix is open with policies that differ in more than numbers.
    pub(crate) fn open(
        &mut self,
        prefix: &str,
        policies: &PolicySet,
    ) -> Result<Opened, InvalidPolicySet> {
        let mut has_other_numbers = false;
        match self.find(prefix) {
            Ok(index) => {
                let OpenPrefix { variants, limiters, .. } = &mut self.open[index];
                variants[0].check_variant(policies).map_err(|_| InvalidPolicySet::PREFIX_IN_USE)?;
                has_other_numbers = variants[0] != *policies;
                if has_other_numbers {
                    variants[0] = policies.clone();
                }
                *limiters += 1;
            }
            Err(index) => {
                let variants = vec![policies.clone()];
                self.open
                    .insert(index, OpenPrefix { prefix: prefix.into(), variants, limiters: 1 });
            }
        }
        let number = |NamedPolicy { name, policy, .. }: &NamedPolicy| {
            self.number((prefix.into(), name.clone(), policy.tag()))
        };
        let namespaces = policies.named().iter().map(number).collect();
        Ok(Opened { namespaces, has_other_numbers })
    }

    /// The policies of an open prefix. Limiters that use these same policies share the numbers that
    /// states refer to.
    pub(crate) fn policies(&self, prefix: &str) -> Option<&PolicySet> {
        self.open[self.find(prefix).ok()?].variants.first()
    }

    /// Opens a variant of an open prefix for one more limiter. Returns whether another limiter of the prefix
    /// uses other numbers as this variant, unless they are updated.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] if the prefix is not open.
    pub(crate) fn open_variant(
        &mut self,
        prefix: &str,
        VariantIndex { index, replaces }: VariantIndex,
        policies: &PolicySet,
    ) -> Result<bool, InvalidPolicySet> {
        let Ok(open) = self.find(prefix) else { return Err(InvalidPolicySet::PREFIX_IN_USE) };
        let OpenPrefix { variants, limiters, .. } = &mut self.open[open];
        *limiters += 1;
        let Some(known) = variants.get_mut(index) else {
            variants.push(policies.clone());
            return Ok(false);
        };
        let differs = known != policies;
        if differs {
            *known = policies.clone();
        }
        Ok(differs && !replaces)
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

    fn window() -> PolicySet {
        PolicySet::single(Policy::FixedWindow(FixedWindow::new(10, 1_000_000).unwrap()))
    }

    fn opened(prefixes: &mut Prefixes, prefix: &str, policies: &PolicySet) -> (Box<[u32]>, bool) {
        let Opened { namespaces, has_other_numbers } = prefixes.open(prefix, policies).unwrap();
        (namespaces, has_other_numbers)
    }

    #[test]
    fn one_kind_of_policies_shares_a_namespace_and_another_kind_is_refused() {
        let mut prefixes = Prefixes::default();
        let (namespaces, differs) = opened(&mut prefixes, "api", &gcra(10));
        assert!(!differs);
        assert_eq!(opened(&mut prefixes, "api", &gcra(10)), (namespaces.clone(), false));
        assert_eq!(opened(&mut prefixes, "api", &gcra(20)), (namespaces.clone(), true));
        assert_eq!(opened(&mut prefixes, "api", &gcra(20)), (namespaces.clone(), false));
        assert_eq!(prefixes.policies("api"), Some(&gcra(20)));
        assert_eq!(prefixes.open("api", &window()), Err(InvalidPolicySet::PREFIX_IN_USE));
        assert_ne!(opened(&mut prefixes, "web", &gcra(20)).0, namespaces);
    }

    #[test]
    fn a_variant_with_other_numbers_is_told_unless_it_is_an_update() {
        let mut prefixes = Prefixes::default();
        let variant = |index, replaces| VariantIndex { index, replaces };
        assert_eq!(
            prefixes.open_variant("api", variant(1, false), &gcra(2)),
            Err(InvalidPolicySet::PREFIX_IN_USE)
        );
        prefixes.open("api", &gcra(1)).unwrap();
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(2)), Ok(false));
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(3)), Ok(true));
        assert_eq!(prefixes.open_variant("api", variant(1, true), &gcra(4)), Ok(false));
        assert_eq!(prefixes.open_variant("api", variant(1, false), &gcra(4)), Ok(false));
        assert_eq!(prefixes.open_variant("api", variant(0, true), &gcra(5)), Ok(false));
        assert_eq!(prefixes.policies("api"), Some(&gcra(5)));
        for _ in 0..6 {
            assert_eq!(prefixes.open("web", &window()).map(|_| ()), Ok(()));
            prefixes.close("web");
            assert_eq!(prefixes.open("api", &window()), Err(InvalidPolicySet::PREFIX_IN_USE));
            prefixes.close("api");
        }
        assert!(prefixes.open("api", &window()).is_ok());
    }

    #[test]
    fn a_closed_prefix_keeps_its_states_under_new_numbers() {
        let mut prefixes = Prefixes::default();
        let before = opened(&mut prefixes, "api", &gcra(10));
        prefixes.close("api");
        assert_eq!(opened(&mut prefixes, "api", &gcra(20)), before);
    }

    #[test]
    fn another_algorithm_never_meets_the_old_states() {
        let mut prefixes = Prefixes::default();
        let (namespaces, _) = opened(&mut prefixes, "api", &gcra(10));
        prefixes.close("api");
        assert_ne!(opened(&mut prefixes, "api", &window()).0, namespaces);
    }

    #[test]
    fn each_policy_has_a_namespace_by_its_name() {
        let mut prefixes = Prefixes::default();
        let (namespaces, _) = opened(&mut prefixes, "api", &named(&["burst", "daily"]));
        assert_ne!(namespaces[0], namespaces[1]);
        assert_eq!(prefixes.open("api", &named(&["burst"])), Err(InvalidPolicySet::PREFIX_IN_USE));
        assert_eq!(
            prefixes.open("api", &named(&["daily", "burst"])),
            Err(InvalidPolicySet::PREFIX_IN_USE)
        );
        prefixes.close("api");
        let (other, _) = opened(&mut prefixes, "api", &named(&["daily", "hourly"]));
        assert_eq!(other[0], namespaces[1], "it is the same policy, wherever it is declared");
        assert!(!namespaces.contains(&other[1]));
    }
}
