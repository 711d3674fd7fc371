//! Mixes of policies that decide together.

use proptest::prelude::*;
use tollgate::policy::ban::BanRule;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};

use crate::policy::bans::any_ban;
use crate::policy::multi_policy_oracle::{Pair, any_pair};

/// Two to five policies, and the number of their key dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) key_dimensions: usize,
    pub(crate) ban: Option<BanRule>,
}

pub(crate) fn any_mix() -> impl Strategy<Value = Mix> {
    (prop::collection::vec(any_pair(), 2..=5), 1..=3_usize, any_ban()).prop_map(
        |(pairs, key_dimensions, ban)| Mix {
            key_dimensions: key_dimensions.min(pairs.len()),
            pairs,
            ban,
        },
    )
}

impl Mix {
    pub(crate) fn key_dimension(&self, policy: usize) -> usize {
        policy % self.key_dimensions
    }

    pub(crate) fn policies(&self) -> PolicySet {
        let named = |(number, pair): (usize, &Pair)| NamedPolicy {
            name: format!("policy-{number}").into(),
            policy: pair.0.policy(),
            key_dimension: self.key_dimension(number),
        };
        let policies =
            PolicySet::multi(self.pairs.iter().enumerate().map(named).collect()).unwrap();
        match &self.ban {
            Some(rule) => policies.with_ban(rule.clone()),
            None => policies,
        }
    }
}
