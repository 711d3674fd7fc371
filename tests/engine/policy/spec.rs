//! The numbers of a policy of any kind.

use tollgate::policy::Policy;

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::algorithm::calendar_window::CalendarSpec;
use crate::algorithm::log_oracle::LogSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::policy::specs::{RateSpec, WindowSpec};

/// A policy of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spec {
    Gcra(RateSpec),
    Leaky(RateSpec),
    Continuous(BucketSpec),
    Interval(BucketSpec),
    Window(WindowSpec),
    Counter(CounterSpec),
    Sliding(SlidingSpec),
    Calendar(CalendarSpec),
    Log(LogSpec),
}

impl Spec {
    pub(crate) fn policy(self) -> Policy {
        match self {
            Self::Gcra(spec) => spec.gcra(),
            Self::Leaky(spec) => leaky(spec),
            Self::Continuous(spec) => spec.continuous(),
            Self::Interval(spec) => spec.interval(),
            Self::Window(spec) => spec.policy(),
            Self::Counter(spec) => spec.policy(),
            Self::Sliding(spec) => spec.list(),
            Self::Calendar(spec) => spec.policy(),
            Self::Log(spec) => spec.policy(),
        }
    }

    /// The largest cost that a call can have.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Self::Gcra(spec) | Self::Leaky(spec) => spec.burst,
            Self::Continuous(spec) | Self::Interval(spec) => spec.rate.burst + spec.debt,
            Self::Window(spec) => spec.limit,
            Self::Counter(spec) => spec.limit,
            Self::Sliding(spec) => spec.limit,
            Self::Calendar(spec) => spec.limit,
            Self::Log(spec) => spec.limits().iter().map(|limit| limit.0).min().unwrap(),
        }
    }
}
