//! Random policies, alone and together, for the twin tests of operations.

use proptest::prelude::*;
use tollgate::algorithm::{FixedWindow, LogLimit, SlidingLog};
use tollgate::calendar::Every;
use tollgate::policy::Policy;
use tollgate::policy::ban::BanRule;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::algorithm::calendar_window::CalendarSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::policy::bans::any_ban;
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};

/// The kinds of [`KINDS`] that may be among several policies; the others count refused calls.
const AMONG_SEVERAL: usize = 12;
pub(super) const KINDS: usize = 14;

/// A policy of each kind, by number, with a limit.
pub(super) fn policy(kind: usize, limit: u64) -> Policy {
    let rate = RateSpec { units: limit, period: SECOND, burst: limit };
    match kind % 14 {
        0 => RateSpec { units: 7, period: SECOND, burst: limit }.gcra(),
        1 => leaky(rate),
        2 => BucketSpec { rate, initial: limit / 2, debt: 3 }.continuous(),
        3 => BucketSpec { rate, initial: limit, debt: 0 }.interval(),
        4 => BucketSpec { rate, initial: limit / 2, debt: 2 }.interval(),
        5 => WindowSpec { limit, window: SECOND }.policy(),
        6 => CalendarSpec { limit, every: Every::HOUR, zone: "Asia/Kathmandu" }.policy(),
        7 => CounterSpec { limit, window_ms: 900 }.policy(),
        8 => SlidingSpec { limit, window: SECOND, buckets: 5 }.list(),
        9 => SlidingSpec { limit, window: HOUR, buckets: 7 }.hash(),
        10 => Policy::SlidingLog(SlidingLog::new(limit, SECOND, false).unwrap()),
        12 => {
            let window = FixedWindow::new(limit, SECOND).unwrap();
            Policy::FixedWindow(window.counting_refused(true))
        }
        13 => Policy::SlidingLog(SlidingLog::new(limit, SECOND, true).unwrap()),
        _ => {
            let limits = [(limit, SECOND), (limit + 4, 3 * SECOND)];
            let limits = limits.map(|(limit, window)| LogLimit { limit, window });
            Policy::SlidingLog(SlidingLog::with_limits(&limits, None).unwrap())
        }
    }
}

/// One to five policies, by one or two key dimensions.
pub(super) fn any_policies() -> impl Strategy<Value = PolicySet> {
    let named = (0..KINDS, 2_u64..20, 0..2_usize);
    let one = prop::collection::vec(named.clone(), 1..2);
    let kinds = prop_oneof![one, prop::collection::vec(named, 2..6)];
    (kinds, any_ban(), any_max_owed()).prop_map(|(kinds, ban, max_owed)| {
        let names = ["a", "b", "c", "d", "e"];
        let first = kinds[0].2;
        let named =
            kinds.iter().zip(names).map(|(&(kind, limit, key_dimension), name)| NamedPolicy {
                name: name.into(),
                policy: policy(if kinds.len() > 1 { kind % AMONG_SEVERAL } else { kind }, limit),
                // The first key dimension that is used is number 0.
                key_dimension: usize::from(key_dimension != first),
            });
        let policies = PolicySet::multi(named.collect()).unwrap().with_max_owed(max_owed);
        with_ban(policies, ban)
    })
}

/// How many units may be owed, by policy: by default, none, few or many.
pub(super) fn any_max_owed() -> impl Strategy<Value = Vec<Option<u64>>> {
    let many = prop_oneof![30_u64..90, Just(u64::MAX)];
    let one = prop_oneof![
        Just(None),
        Just(None),
        Just(Some(0)),
        (1..9_u64).prop_map(Some),
        many.prop_map(Some)
    ];
    prop::collection::vec(one, 5)
}

pub(super) fn with_ban(policies: PolicySet, ban: Option<BanRule>) -> PolicySet {
    match ban {
        Some(rule) => policies.with_ban(rule),
        None => policies,
    }
}

/// Two to four policies with a fast path, by one or two key dimensions.
pub(super) fn any_simple_policies() -> impl Strategy<Value = PolicySet> {
    let named = (0..8_usize, 2_u64..20, prop::bool::weighted(0.2));
    (prop::collection::vec(named, 2..5), any_ban()).prop_map(|(kinds, ban)| {
        let named = kinds.iter().zip(["a", "b", "c", "d"]).enumerate().map(
            |(index, (&(kind, limit, other), name))| NamedPolicy {
                name: name.into(),
                policy: policy(kind, limit),
                key_dimension: usize::from(other && index > 0),
            },
        );
        with_ban(PolicySet::multi(named.collect()).unwrap(), ban)
    })
}
