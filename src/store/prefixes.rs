//! Which prefixes are open, and with which policy.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::policy::Policy;

/// The prefix is open with a different policy: two limits would count on the same keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixTaken;

impl fmt::Display for PrefixTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is in use on this store by a limiter with a different policy")
    }
}

impl std::error::Error for PrefixTaken {}

/// The open prefixes, and a number for each prefix and kind of state ever opened.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    open: HashMap<String, Open>,
    /// Kept for good, so that a limiter that is closed and made again finds its states.
    numbers: HashMap<(String, &'static str), u32>,
}

#[derive(Debug)]
struct Open {
    policy: Policy,
    ledgers: usize,
}

impl Prefixes {
    /// The number of the space of `prefix` and of the policy's kind of state.
    pub(crate) fn open(&mut self, prefix: &str, policy: &Policy) -> Result<u32, PrefixTaken> {
        match self.open.entry(prefix.to_owned()) {
            Entry::Occupied(open) if open.get().policy != *policy => return Err(PrefixTaken),
            Entry::Occupied(mut open) => open.get_mut().ledgers += 1,
            Entry::Vacant(vacant) => {
                vacant.insert(Open { policy: policy.clone(), ledgers: 1 });
            }
        }
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        Ok(*self.numbers.entry((prefix.to_owned(), policy.tag())).or_insert(next))
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

    fn gcra(limit: u64) -> Policy {
        Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap())
    }

    #[test]
    fn equal_policies_share_a_space_and_different_ones_are_refused() {
        let mut prefixes = Prefixes::default();
        let space = prefixes.open("api", &gcra(10)).unwrap();
        assert_eq!(prefixes.open("api", &gcra(10)), Ok(space));
        assert_eq!(prefixes.open("api", &gcra(20)), Err(PrefixTaken));
        assert_ne!(prefixes.open("web", &gcra(20)), Ok(space));
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
        assert_ne!(prefixes.open("api", &window), Ok(space));
    }
}
