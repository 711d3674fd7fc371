//! One limiter over Redis: it enqueues calls until a flush sends them.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, Result, Unknown,
};
use napi::{Error, Status, sys};
use napi_derive::napi;

use crate::clock::Clock;
use crate::key::Key;
use crate::node::hot::{self, CallResult, LimiterCall};
use crate::node::key::{KeyBuffer, number};
use crate::node::operation::{self, KeyBuffers};
use crate::node::policy::NativePolicy;
use crate::node::policy_set::NativePolicySet;
use crate::node::response::{DecisionBuffer, FailureCode};
use crate::node::whole;
use crate::policy::decision::Decision;
use crate::policy::operation::Operation;
use crate::policy::policy_set::{InvalidPolicySet, PolicySet};
use crate::policy::variants::PolicyVariants;
use crate::prefixes::{Prefixes, VariantIndex};
use crate::redis::{CallBatch, Flush, KeyNames};

/// One limiter over Redis.
#[napi]
pub struct NativeRedisLimiter {
    queue: Arc<NativeCallQueue>,
    variant: u16,
    prefix: String,
    prefixes: Arc<Mutex<Prefixes>>,
    closed: AtomicBool,
}

struct NativeCallQueue {
    names: KeyNames,
    variants: Mutex<PolicyVariants>,
    batch: Mutex<CallBatch>,
}

struct VariantCalls {
    queue: Arc<NativeCallQueue>,
    variant: u16,
}

impl LimiterCall for VariantCalls {
    type Target = Self;
    type Output = DecisionBuffer;

    fn call(
        Self { queue, variant }: &Self,
        key: Key<'_>,
        cost: u64,
        _clock: &impl Clock,
    ) -> CallResult<Option<Decision>> {
        let mut batch = locked(&queue.batch);
        batch.push(&queue.names, key, cost);
        batch.set_variant(*variant);
        Ok(None)
    }
}

/// The callback: `(key, count)`. See [`NativeRedisLimiter::bind_enqueue_by_policy`].
unsafe extern "C" fn enqueue_by_policy(
    env: sys::napi_env,
    info: sys::napi_callback_info,
) -> sys::napi_value {
    // SAFETY: the environment, the information and the data are those of the running callback.
    unsafe {
        let ([key, count], _, VariantCalls { queue, variant }, answer) =
            hot::arguments::<2, VariantCalls, [f64]>(env, info);
        let count = usize::try_from(whole(number(env, count))).unwrap_or(0).min(answer.len());
        let costs: Vec<_> = answer[..count].iter().copied().map(whole).collect();
        let mut buffer = KeyBuffer::new();
        let key = buffer.read(env, key);
        // A panic becomes a failure.
        let enqueued = catch_unwind(AssertUnwindSafe(|| {
            let take = Operation::Take { cost: costs.into() };
            let mut batch = locked(&queue.batch);
            batch.push_operation(&queue.names, &[Some(key?)], None, take);
            batch.set_variant(*variant);
            Ok(())
        }));
        let enqueued = enqueued.unwrap_or(Err(FailureCode::Panicked));
        answer[0] = enqueued.map_or_else(FailureCode::code, |()| 0.0);
    }
    ptr::null_mut()
}

impl NativeRedisLimiter {
    pub(crate) fn new(
        prefix: String,
        policies: PolicySet,
        tags: Option<NonZeroU16>,
        prefixes: Arc<Mutex<Prefixes>>,
    ) -> Self {
        let names = KeyNames::new(&prefix, &policies).with_tags(tags);
        let queue = NativeCallQueue {
            names,
            variants: Mutex::new(PolicyVariants::new(policies)),
            batch: Mutex::default(),
        };
        let closed = AtomicBool::new(false);
        Self { queue: Arc::new(queue), variant: 0, prefix, prefixes, closed }
    }

    /// Moves the enqueued calls of all variants into a flush.
    pub(crate) fn move_calls(&self, flush: &mut Flush) {
        let batch = locked(&self.queue.batch).take();
        flush.push_variants(&locked(&self.queue.variants), batch);
    }

    pub(crate) fn peeking(
        &self,
        env: Env,
        keys: &Array<'_>,
        tag: Option<&str>,
        peek: Operation,
    ) -> CallResult<Flush> {
        let (mut batch, mut flush) = (CallBatch::new(), Flush::peeking());
        self.push(&mut batch, env, keys, tag, peek)?;
        flush.push_variants(&locked(&self.queue.variants), batch);
        Ok(flush)
    }

    /// Adds an operation to a batch. The array has one key per key dimension, or undefined.
    fn push(
        &self,
        batch: &mut CallBatch,
        env: Env,
        keys: &Array<'_>,
        tag: Option<&str>,
        operation: Operation,
    ) -> CallResult<()> {
        let mut buffers = KeyBuffers::new();
        // SAFETY: the environment and the array are the running callback's.
        let keys = unsafe { buffers.read_array(env, keys) }?;
        batch.push_operation(&self.queue.names, &keys, tag, operation);
        batch.set_variant(self.variant);
        Ok(())
    }
}

#[napi]
impl NativeRedisLimiter {
    /// Returns a function that enqueues a take of `cost` units from `key`. It writes 0 or a
    /// failure's code to `answer`.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost: number) => void")]
    pub fn bind_enqueue(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        let calls = VariantCalls { queue: Arc::clone(&self.queue), variant: self.variant };
        hot::function::<VariantCalls>(env, calls, answer)
    }

    /// Returns a function that enqueues a take from `key` with a cost for each policy. The first `count`
    /// numbers of `answer` are the costs. It writes 0 or a failure's code to `answer`.
    #[napi(catch_unwind, ts_return_type = "(key: string, count: number) => void")]
    pub fn bind_enqueue_by_policy(
        &self,
        env: Env,
        answer: Float64Array,
    ) -> Result<Unknown<'static>> {
        let calls = VariantCalls { queue: Arc::clone(&self.queue), variant: self.variant };
        hot::bind::<_, [f64]>(env, calls, answer, enqueue_by_policy)
    }

    /// Enqueues an operation, by the numbers of `numbersOf` in `ts/backends/operation.ts`. `keys` has one
    /// key per key dimension, or undefined; an override has its policies. Returns 0 or a failure's code.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, operation: number, numbers: Float64Array, overrides: readonly (NativePolicy | undefined)[]"
    )]
    pub fn enqueue(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        operation: f64,
        numbers: Float64ArraySlice<'_>,
        overrides: Vec<Option<ClassInstance<'_, NativePolicy>>>,
    ) -> f64 {
        let operation = operation::read_operation(operation, &numbers, overrides);
        let Some(operation) = operation else { return FailureCode::Panicked.code() };
        let mut batch = locked(&self.queue.batch);
        let result = self.push(&mut batch, env, &keys, tag.as_deref(), operation);
        result.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Opens a limiter on the same keys and the same queue whose policies have other numbers, as the
    /// variant of this index. `replaces` tells an update from another limiter. Throws if the policies differ
    /// in more than numbers.
    #[napi(catch_unwind)]
    pub fn open_variant(
        &self,
        policies: &NativePolicySet,
        index: u32,
        replaces: bool,
    ) -> Result<Self> {
        let (policies, index) =
            (policies.inner(), VariantIndex { index: index as usize, replaces });
        let invalid = |error: InvalidPolicySet| Error::new(Status::InvalidArg, error.to_string());
        let mut variants = locked(&self.queue.variants);
        variants.get(0).check_variant(&policies).map_err(invalid)?;
        locked(&self.prefixes).open_variant(&self.prefix, index, &policies).map_err(invalid)?;
        let variant = variants.add(policies).map_err(invalid)?;
        Ok(Self {
            queue: Arc::clone(&self.queue),
            variant,
            prefix: self.prefix.clone(),
            prefixes: Arc::clone(&self.prefixes),
            closed: AtomicBool::new(false),
        })
    }

    /// Releases the prefix for other policies. No call of this limiter may be pending.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            locked(&self.prefixes).close(&self.prefix);
            locked(&self.queue.variants).remove(self.variant);
        }
    }
}

impl Drop for NativeRedisLimiter {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
