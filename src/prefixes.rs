//! Which prefixes are open, and with which policies.

use std::fmt;

use crate::policy::policy_set::{NamedPolicy, Policies};

/// The prefix is open with different policies: two limits would count on the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixTaken;

impl PrefixTaken {
    /// What is wrong with the prefix.
    pub const RULE: &str = "is in use on this store by a limiter with a different policy";
}

impl fmt::Display for PrefixTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::RULE)
    }
}

impl std::error::Error for PrefixTaken {}

/// The open prefixes, and a number for each prefix, policy name and kind of state ever opened; both in order.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    open: Vec<Open>,
    /// Kept for good, so that a limiter that is closed and made again finds its states.
    numbers: Vec<(Space, u32)>,
}

type Space = (Box<str>, Box<str>, &'static str);

#[derive(Debug)]
struct Open {
    prefix: Box<str>,
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
        match self.find(prefix) {
            Ok(index) if self.open[index].policies != *policies => return Err(PrefixTaken),
            Ok(index) => self.open[index].ledgers += 1,
            Err(index) => {
                let open = Open { prefix: prefix.into(), policies: policies.clone(), ledgers: 1 };
                self.open.insert(index, open);
            }
        }
        let number = |NamedPolicy { name, policy, .. }: &NamedPolicy| {
            self.number((prefix.into(), name.clone(), policy.tag()))
        };
        Ok(policies.named().iter().map(number).collect())
    }

    /// The policies that a prefix is open with. Ledgers that count with these very ones share what states refer to.
    pub(crate) fn policies(&self, prefix: &str) -> Option<&Policies> {
        Some(&self.open[self.find(prefix).ok()?].policies)
    }

    /// One ledger of the prefix fewer.
    pub(crate) fn close(&mut self, prefix: &str) {
        if let Ok(index) = self.find(prefix) {
            self.open[index].ledgers -= 1;
            if self.open[index].ledgers == 0 {
                self.open.remove(index);
            }
        }
    }

    /// Where a prefix is among those that are open, or would be.
    fn find(&self, prefix: &str) -> Result<usize, usize> {
        self.open.binary_search_by(|open| (*open.prefix).cmp(prefix))
    }

    fn number(&mut self, space: Space) -> u32 {
        match self.numbers.binary_search_by(|(known, _)| known.cmp(&space)) {
            Ok(index) => self.numbers[index].1,
            Err(index) => {
                let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
                self.numbers.insert(index, (space, next));
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
