//! The embedded store, for JavaScript.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use napi::bindgen_prelude::Result;
use napi_derive::napi;

use super::{invalid, whole};
use crate::memory::{self, Seed, open_named};
use crate::node::limiter::NativeMemoryLimiter;
use crate::node::policy_set::NativePolicySet;

/// A store in this process's memory.
#[napi]
#[derive(Debug)]
pub struct NativeMemoryStore(Arc<memory::MemoryStore>);

#[napi]
impl NativeMemoryStore {
    /// Creates a store, or returns the process's store of this name. Throws if that store has other
    /// options.
    #[napi(constructor, catch_unwind)]
    pub fn new(max_keys: f64, name: Option<String>, own_clock: bool) -> Result<Self> {
        let max_keys = usize::try_from(whole(max_keys)).unwrap_or(usize::MAX);
        let Some(name) = name else {
            return Ok(Self(memory::MemoryStore::new(max_keys, random_seed())));
        };
        open_named(&name, max_keys, own_clock, random_seed).map(Self).map_err(invalid)
    }

    /// Opens a limiter. Throws while the prefix is open with policies that differ in more than numbers.
    #[napi(catch_unwind)]
    pub fn open(&self, prefix: String, policies: &NativePolicySet) -> Result<NativeMemoryLimiter> {
        let limiter = self.0.open(&prefix, policies.inner()).map_err(invalid)?;
        Ok(NativeMemoryLimiter::new(limiter, policies.is_named()))
    }

    /// The number of keys that are stored separately now.
    #[napi(getter, catch_unwind)]
    #[allow(clippy::cast_precision_loss, reason = "fewer keys than 2^53")]
    pub fn held_keys(&self) -> f64 {
        self.0.held_keys() as f64
    }
}

/// A random seed. The standard library gets the keys of a `RandomState` from the operating system.
fn random_seed() -> Seed {
    (RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}
