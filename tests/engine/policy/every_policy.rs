//! Versions of a policy, for every algorithm.

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use tollgate::policy::Policy;

use crate::algorithm::buckets::{BucketSpec, any_versions, leaky};
use crate::algorithm::calendar_window::{CalendarSpec, any_calendar};
use crate::algorithm::log_oracle::{LogSpec, any_logs, any_one};
use crate::algorithm::sliding_counter::{CounterSpec, any_counter};
use crate::algorithm::sliding_window::{SlidingSpec, any_close, any_sliding};
use crate::policy::count_refused;
use crate::policy::specs::{RateSpec, any_rate};

/// The algorithms, each of which may have several versions: see [`versions`].
pub(crate) const KINDS: usize = 12;

/// One to three versions of a spec, as policies.
fn several<S: std::fmt::Debug + Clone + 'static>(
    spec: impl Strategy<Value = S> + 'static,
    policy: impl Fn(S) -> Policy + 'static,
) -> BoxedStrategy<Vec<Policy>> {
    let policies = move |specs: Vec<S>| specs.into_iter().map(&policy).collect();
    prop::collection::vec(spec, 1..4).prop_map(policies).boxed()
}

fn buckets(policy: fn(BucketSpec) -> Policy) -> BoxedStrategy<Vec<Policy>> {
    let policies = move |specs: Vec<BucketSpec>| specs.into_iter().map(policy).collect();
    any_versions(1..4).prop_map(policies).boxed()
}

/// One to three versions of a policy of the algorithm with this number.
pub(crate) fn versions(kind: usize) -> BoxedStrategy<Vec<Policy>> {
    match kind {
        0 => several(any_rate(), RateSpec::gcra),
        1 => several(any_rate(), leaky),
        2 => buckets(BucketSpec::continuous),
        3 => buckets(BucketSpec::interval),
        4 => {
            let policies = |specs: Vec<_>| specs.into_iter().map(count_refused::policy).collect();
            count_refused::any_specs().prop_map(policies).boxed()
        }
        5 => several(any_calendar(), CalendarSpec::policy),
        6 => several(any_counter(), CounterSpec::policy),
        7 => several(any_sliding(), SlidingSpec::list),
        8 => several(any_close(), SlidingSpec::hash),
        9 => several(any_one(), LogSpec::policy),
        10 => several(any_logs(), LogSpec::policy),
        _ => several(any_rate(), RateSpec::token_bucket),
    }
}

/// One to three versions of a policy of any algorithm.
pub(crate) fn any_policies() -> impl Strategy<Value = Vec<Policy>> {
    (0..KINDS).prop_flat_map(versions)
}
