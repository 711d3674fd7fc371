//! Policy sets, checked once when they are created.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{ClassInstance, Result};
use napi_derive::napi;

use super::policy::NativePolicy;
use super::{invalid, whole};
use crate::policy::ban::BanRule;
use crate::policy::policy_set::{self, NamedPolicy};

/// A policy, or several that decide together.
#[napi]
#[derive(Debug)]
pub struct NativePolicySet {
    inner: policy_set::PolicySet,
    is_named: bool,
}

impl NativePolicySet {
    pub(crate) fn inner(&self) -> policy_set::PolicySet {
        self.inner.clone()
    }

    /// Whether responses report limits, and bans.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }
}

#[napi]
impl NativePolicySet {
    /// A single policy, without a name.
    #[napi(factory, catch_unwind)]
    pub fn single(policy: &NativePolicy) -> Self {
        let inner = policy_set::PolicySet::single(policy.inner());
        Self { is_named: inner.named_limits() > 0, inner }
    }

    /// These policies with a rule for bans. `policies` has a bit for each policy to which it
    /// applies. `numbers` are the target, the strikes for a ban, the length of their window, the time
    /// after which a ban no longer counts, and the lengths of bans; times are in microseconds. The
    /// target is 1 plus the index of the policy whose key gets all strikes, or 0 without one. Throws if
    /// a number is out of range.
    #[napi(catch_unwind, ts_args_type = "policies: number, numbers: readonly number[]")]
    pub fn with_ban(&self, policies: u32, numbers: Vec<f64>) -> Result<Self> {
        let numbers: Vec<_> = numbers.into_iter().map(whole).collect();
        let rule = BanRule::new(policies, &numbers)
            .ok_or_else(|| invalid("must have numbers in their ranges"))?;
        Ok(Self { inner: self.inner().with_ban(rule), is_named: true })
    }

    /// These policies with the most units that may be owed, by policy; a negative number for the default.
    #[napi(catch_unwind, ts_args_type = "maxOwed: readonly number[]")]
    pub fn with_max_owed(&self, max_owed: Vec<f64>) -> Self {
        let max_owed = max_owed.into_iter().map(|most| (most >= 0.0).then(|| whole(most)));
        Self { inner: self.inner().with_max_owed(max_owed.collect()), is_named: self.is_named }
    }

    /// Policies by name. `keyDimensions` has the number of each policy's key dimension. Throws if the
    /// policies cannot decide together.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "names: readonly string[], policies: readonly NativePolicy[], keyDimensions: readonly number[]"
    )]
    pub fn multi(
        names: Vec<String>,
        policies: Vec<ClassInstance<'_, NativePolicy>>,
        key_dimensions: Vec<u32>,
    ) -> Result<Self> {
        let named = names.into_iter().zip(policies).zip(key_dimensions);
        let named = named.map(|((name, policy), key_dimension)| NamedPolicy {
            name: name.into(),
            policy: policy.inner(),
            key_dimension: key_dimension as usize,
        });
        let inner = policy_set::PolicySet::multi(named.collect()).map_err(invalid)?;
        Ok(Self { inner, is_named: true })
    }
}
