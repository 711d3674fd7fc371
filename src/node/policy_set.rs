//! Policy sets, checked once when they are created.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{ClassInstance, Result};
use napi::{Error, Status};
use napi_derive::napi;

use super::policy::NativePolicy;
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

    /// Whether decisions report limits by name.
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

    /// Policies by name. `subjects` has the number of each policy's key dimension. Throws if the
    /// policies cannot decide together.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "names: readonly string[], policies: readonly NativePolicy[], keyDimensions: readonly number[]"
    )]
    pub fn multi(
        names: Vec<String>,
        policies: Vec<ClassInstance<'_, NativePolicy>>,
        subjects: Vec<u32>,
    ) -> Result<Self> {
        let named = names.into_iter().zip(policies).zip(subjects);
        let named = named.map(|((name, policy), subject)| NamedPolicy {
            name: name.into(),
            policy: policy.inner(),
            key_dimension: subject as usize,
        });
        match policy_set::PolicySet::multi(named.collect()) {
            Ok(inner) => Ok(Self { inner, is_named: true }),
            Err(invalid) => Err(Error::new(Status::InvalidArg, invalid.to_string())),
        }
    }
}
