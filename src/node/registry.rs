//! One JavaScript function that serves all limiters of a thread.
//!
//! A function per limiter is slower: if a program has several limiters, V8 sees several functions
//! at one call site, and calls them on a slower path (18 ns of 170, and 38 of 275 with `await`).
//! This function is always the same.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use napi::bindgen_prelude::{Env, Float64Array, Result, Uint32Array, Unknown};
use napi_derive::napi;

use super::hot::{self, CallResult, LimiterCall, TakeCall};
use super::response::{DecisionBuffer, FailureCode};
use crate::clock::Clock;
use crate::key::Key;
use crate::memory;
use crate::policy::decision::Decision;

/// The registered limiters, by number.
#[derive(Debug, Default)]
struct LimiterSlab {
    limiters: Vec<Option<Arc<memory::MemoryLimiter>>>,
    free: Vec<usize>,
}

impl LimiterSlab {
    fn add(&mut self, limiter: Arc<memory::MemoryLimiter>) -> usize {
        let number = self.free.pop().unwrap_or(self.limiters.len());
        self.limiters.resize(self.limiters.len().max(number + 1), None);
        self.limiters[number] = Some(limiter);
        number
    }

    fn remove(&mut self, number: usize) {
        self.limiters[number] = None;
        self.free.push(number);
    }
}

/// The number of a registered limiter. Dropping it removes the limiter.
#[derive(Debug)]
pub(crate) struct LimiterRegistration {
    limiters: Rc<RefCell<LimiterSlab>>,
    number: usize,
}

impl LimiterRegistration {
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for LimiterRegistration {
    fn drop(&mut self) {
        self.limiters.borrow_mut().remove(self.number);
    }
}

/// The data of the function: the limiters, and the number of the limiter to call.
struct RegistryTarget {
    limiters: Rc<RefCell<LimiterSlab>>,
    /// The first element is the number of the limiter.
    which: Uint32Array,
}

/// Takes units from the limiter whose number is in `which`.
struct RegistryTake;

impl LimiterCall for RegistryTake {
    type Target = RegistryTarget;
    type Output = DecisionBuffer;

    #[inline]
    fn call(
        RegistryTarget { limiters, which }: &RegistryTarget,
        key: Key<'_>,
        cost: u64,
        clock: &impl Clock,
    ) -> CallResult<Option<Decision>> {
        let number = which.first().map_or(usize::MAX, |&number| number as usize);
        let limiters = limiters.borrow();
        let Some(Some(limiter)) = limiters.limiters.get(number) else {
            return Err(FailureCode::Panicked);
        };
        TakeCall::call(limiter, key, cost, clock)
    }
}

/// Takes units from keys of any registered limiter with a single limit without a name.
#[napi]
#[derive(Debug, Default)]
pub struct LimiterRegistry {
    limiters: Rc<RefCell<LimiterSlab>>,
}

#[napi]
impl LimiterRegistry {
    /// An empty registry.
    #[napi(constructor, catch_unwind)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a function that takes `cost` units from `key` of the limiter whose number is in
    /// `which`, and writes the response into `answer`. `epochMs` below 0 means the system's clock.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind(
        &self,
        env: Env,
        which: Uint32Array,
        answer: Float64Array,
    ) -> Result<Unknown<'static>> {
        let target = RegistryTarget { limiters: Rc::clone(&self.limiters), which };
        hot::function::<RegistryTake>(env, target, answer)
    }
}

impl LimiterRegistry {
    /// Adds a limiter, until the registration is dropped.
    pub(crate) fn register(&self, limiter: Arc<memory::MemoryLimiter>) -> LimiterRegistration {
        let number = self.limiters.borrow_mut().add(limiter);
        LimiterRegistration { limiters: Rc::clone(&self.limiters), number }
    }
}
