//! What limiters enforce, checked once.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{ClassInstance, Result};
use napi::{Error, Status};
use napi_derive::napi;

use super::policy::Policy;
use crate::policy::policy_set::{self, NamedPolicy};

/// A policy, or several that decide together.
#[napi]
#[derive(Debug)]
pub struct Policies {
    inner: policy_set::Policies,
    is_named: bool,
}

impl Policies {
    pub(crate) fn inner(&self) -> policy_set::Policies {
        self.inner.clone()
    }

    /// Whether decisions tell of limits by name.
    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }
}

#[napi]
impl Policies {
    /// A single policy, without a name.
    #[napi(factory, catch_unwind)]
    pub fn one(policy: &Policy) -> Self {
        let inner = policy_set::Policies::one(policy.inner());
        Self { is_named: inner.named_limits() > 0, inner }
    }

    /// Policies by name; `subjects` has the number of the kind of key that each counts by. Throws if they
    /// cannot decide together.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "names: readonly string[], policies: readonly Policy[], subjects: readonly number[]"
    )]
    pub fn several(
        names: Vec<String>,
        policies: Vec<ClassInstance<'_, Policy>>,
        subjects: Vec<u32>,
    ) -> Result<Self> {
        let named = names.into_iter().zip(policies).zip(subjects);
        let named = named.map(|((name, policy), subject)| NamedPolicy {
            name: name.into(),
            policy: policy.inner(),
            subject: subject as usize,
        });
        match policy_set::Policies::several(named.collect()) {
            Ok(inner) => Ok(Self { inner, is_named: true }),
            Err(invalid) => Err(Error::new(Status::InvalidArg, invalid.to_string())),
        }
    }
}
