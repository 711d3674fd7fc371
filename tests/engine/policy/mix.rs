//! Mixes of policies of all kinds that decide together.

use proptest::prelude::*;
use tollgate::policy::ban::BanRule;
use tollgate::policy::policy_set::{MAX_POLICIES, NamedPolicy, PolicySet};

use crate::algorithm::buckets::BucketSpec;
use crate::algorithm::calendar_window::{CalendarSpec, any_calendar};
use crate::algorithm::log_oracle::LogSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::policy::bans::any_ban;
use crate::policy::multi_policy_oracle::Spec;
use crate::policy::specs::{RateSpec, SECOND, WindowSpec, any_rate, any_window};

/// A policy, and another of the same kind that may decide on a key in its place (an override).
pub(crate) type Pair = (Spec, Spec);

fn pairs<S: Clone + std::fmt::Debug + 'static>(
    any: impl Strategy<Value = S> + 'static,
    spec: fn(S) -> Spec,
) -> BoxedStrategy<Pair> {
    prop::collection::vec(any, 2)
        .prop_map(move |two| (spec(two[0].clone()), spec(two[1].clone())))
        .boxed()
}

/// Small limits over times of seconds, so that each policy of a mix refuses now and then.
pub(crate) fn any_pair() -> impl Strategy<Value = Pair> {
    let time = || prop_oneof![1..3_000_u64, 1_000..3 * SECOND];
    let rate = || {
        (1..20_u64, time(), 1..12_u64).prop_map(|(units, period, burst)| RateSpec {
            units,
            period,
            burst,
        })
    };
    let window = || (1..12_u64, time()).prop_map(|(limit, window)| WindowSpec { limit, window });
    let bucket = || {
        let levels = (rate(), 0..12_u64, prop_oneof![Just(0), 1..4_u64]);
        levels.prop_map(|(rate, initial, debt)| BucketSpec {
            rate,
            initial: initial.min(rate.burst),
            debt,
        })
    };
    let counter =
        (1..12_u64, 1..3_000_u64).prop_map(|(limit, window_ms)| CounterSpec { limit, window_ms });
    let sliding = (window(), 1..12_u64)
        .prop_map(|(WindowSpec { limit, window }, buckets)| SlidingSpec { limit, window, buckets });
    let calendar =
        (any_calendar(), 1..40_u64).prop_map(|(spec, limit)| CalendarSpec { limit, ..spec });
    let log = (1..12_u64, time()).prop_map(|(limit, window)| LogSpec::one(limit, window, false));
    let shape = (1..12_u64, 1..12_u64, time(), 2..9_u64, any::<bool>(), 1..9_u64);
    let logs = shape.prop_map(|(limit, more, window, times, turned, precision)| {
        let mut limits = [(limit, window), (limit + more, window * times)];
        if turned {
            limits.reverse();
        }
        LogSpec::several(&limits, precision.min(window))
    });
    prop_oneof![
        pairs(rate(), Spec::Gcra),
        pairs(rate(), Spec::Leaky),
        pairs(bucket(), Spec::Continuous),
        pairs(bucket(), Spec::Interval),
        pairs(window(), Spec::Window),
        pairs(counter, Spec::Counter),
        pairs(sliding, Spec::Sliding),
        pairs(calendar, Spec::Calendar),
        pairs(log, Spec::Log),
        pairs(logs, Spec::Log),
        pairs(any_rate(), Spec::Gcra),
        pairs(any_window(), Spec::Window),
    ]
}

/// One to eight policies, and the number of their key dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) key_dimensions: usize,
    pub(crate) ban: Option<BanRule>,
}

pub(crate) fn any_mix() -> impl Strategy<Value = Mix> {
    let pairs = prop_oneof![
        4 => prop::collection::vec(any_pair(), 1..=5),
        1 => prop::collection::vec(any_pair(), 6..=MAX_POLICIES),
    ];
    (pairs, 1..=3_usize, any_ban()).prop_map(|(pairs, key_dimensions, ban)| Mix {
        key_dimensions: key_dimensions.min(pairs.len()),
        pairs,
        ban,
    })
}

impl Mix {
    pub(crate) fn key_dimension(&self, policy: usize) -> usize {
        policy % self.key_dimensions
    }

    /// The policies. Nothing may be owed, which the oracle does not know.
    pub(crate) fn policies(&self) -> PolicySet {
        self.owing(vec![Some(0); MAX_POLICIES])
    }

    /// The policies, with how many units may be owed under each.
    pub(crate) fn owing(&self, max_owed: Vec<Option<u64>>) -> PolicySet {
        let named = |(number, pair): (usize, &Pair)| NamedPolicy {
            name: format!("policy-{number}").into(),
            policy: pair.0.policy(),
            key_dimension: self.key_dimension(number),
        };
        let policies = match &self.pairs[..] {
            [one] => PolicySet::single(one.0.policy()),
            several => PolicySet::multi(several.iter().enumerate().map(named).collect()).unwrap(),
        };
        let policies = policies.with_max_owed(max_owed);
        match &self.ban {
            Some(rule) => policies.with_ban(rule.clone()),
            None => policies,
        }
    }
}
