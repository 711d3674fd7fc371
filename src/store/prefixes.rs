//! Which prefixes are open, and with which policies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::policies::{NamedPolicy, Policies};

/// The prefix is open with different policies: two limits would count on the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixTaken;

impl fmt::Display for PrefixTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is in use on this store by a limiter with a different policy")
    }
}

impl std::error::Error for PrefixTaken {}

/// The open prefixes, and a number for each prefix, policy name and kind of state ever opened.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    open: HashMap<String, Open>,
    /// Kept for good, so that a limiter that is closed and made again finds its states.
    numbers: HashMap<(String, Box<str>, &'static str), u32>,
}

#[derive(Debug)]
struct Open {
    policies: Policies,
    ledgers: usize,
}

impl Prefixes {
    /// The numbers of the spaces of `prefix`, one for each policy: its name and its kind of state.
    pub(crate) fn open(
        &mut self,
        prefix: &str,
        policies: &Policies,
    ) -> Result<Box<[u32]>, PrefixTaken> {
        match self.open.entry(prefix.to_owned()) {
            Entry::Occupied(open) if open.get().policies != *policies => return Err(PrefixTaken),
            Entry::Occupied(mut open) => open.get_mut().ledgers += 1,
            Entry::Vacant(vacant) => {
                vacant.insert(Open { policies: policies.clone(), ledgers: 1 });
            }
        }
        let number = |NamedPolicy { name, policy, .. }: &NamedPolicy| {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let space = (prefix.to_owned(), name.clone(), policy.tag());
            *self.numbers.entry(space).or_insert(next)
        };
        Ok(policies.named().iter().map(number).collect())
    }

    /// The policies that a prefix is open with. Ledgers that count with these very ones share what states refer to.
    pub(crate) fn policies(&self, prefix: &str) -> Option<&Policies> {
        self.open.get(prefix).map(|open| &open.policies)
    }

    /// One ledger of the prefix fewer.
    pub(crate) fn close(&mut self, prefix: &str) {
        if let Some(open) = self.open.get_mut(prefix) {
            open.ledgers -= 1;
            if open.ledgers == 0 {
                self.open.remove(prefix);
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

    fn gcra(limit: u64) -> Policies {
        Policies::one(policy(limit))
    }

    fn named(names: &[&str]) -> Policies {
        let named =
            |name: &&str| NamedPolicy { name: (*name).into(), policy: policy(9), subject: 0 };
        Policies::several(names.iter().map(named).collect()).unwrap()
    }

    #[test]
    fn equal_policies_share_a_space_and_different_ones_are_refused() {
        let mut prefixes = Prefixes::default();
        let space = prefixes.open("api", &gcra(10)).unwrap();
        assert_eq!(prefixes.open("api", &gcra(10)).unwrap(), space);
        assert_eq!(prefixes.open("api", &gcra(20)), Err(PrefixTaken));
        assert_ne!(prefixes.open("web", &gcra(20)).unwrap(), space);
    }

    #[test]
    fn a_closed_prefix_keeps_its_states_under_new_numbers() {
        let mut prefixes = Prefixes::default();
        let space = prefixes.open("api", &gcra(10)).unwrap();
        prefixes.close("api");
        assert_eq!(prefixes.open("api", &gcra(20)), Ok(space));
    }

    #[test]
    fn another_algorithm_never_meets_the_old_states() {
        let mut prefixes = Prefixes::default();
        let space = prefixes.open("api", &gcra(10)).unwrap();
        prefixes.close("api");
        let window = Policy::FixedWindow(FixedWindow::new(10, 1_000_000).unwrap());
        assert_ne!(prefixes.open("api", &Policies::one(window)), Ok(space));
    }

    #[test]
    fn each_policy_has_a_space_by_its_name() {
        let mut prefixes = Prefixes::default();
        let spaces = prefixes.open("api", &named(&["burst", "daily"])).unwrap();
        assert_ne!(spaces[0], spaces[1]);
        assert_eq!(prefixes.open("api", &named(&["burst"])), Err(PrefixTaken));
        assert_eq!(prefixes.open("api", &named(&["daily", "burst"])), Err(PrefixTaken));
        prefixes.close("api");
        let other = prefixes.open("api", &named(&["daily", "hourly"])).unwrap();
        assert_eq!(other[0], spaces[1], "it is the same policy, wherever it is declared");
        assert!(!spaces.contains(&other[1]));
    }
}
