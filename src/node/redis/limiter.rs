//! One limiter over Redis: it enqueues calls until a flush sends them.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, Result, Uint8ArraySlice, Unknown,
};
use napi_derive::napi;

use crate::clock::Clock;
use crate::key::Key;
use crate::node::hot::{self, CallResult, LimiterCall};
use crate::node::operation::{self, KeyBuffers};
use crate::node::policy::NativePolicy;
use crate::node::reservation;
use crate::node::response::{DecisionBuffer, FailureCode};
use crate::node::whole;
use crate::policy::decision::Decision;
use crate::policy::operation::Operation;
use crate::policy::policy_set::PolicySet;
use crate::prefixes::Prefixes;
use crate::redis::{CallBatch, Flush, KeyNames};

/// One limiter over Redis.
#[napi]
pub struct NativeRedisLimiter {
    queue: Arc<RedisCallQueue>,
    prefix: String,
    prefixes: Arc<Mutex<Prefixes>>,
    closed: AtomicBool,
}

/// Calls that wait for the next flush.
struct RedisCallQueue {
    names: KeyNames,
    policies: Arc<PolicySet>,
    batch: Mutex<CallBatch>,
}

/// Enqueues a take.
struct EnqueueTake;

impl LimiterCall for EnqueueTake {
    type Target = Arc<RedisCallQueue>;
    type Output = DecisionBuffer;

    fn call(
        queue: &Arc<RedisCallQueue>,
        key: Key<'_>,
        cost: u64,
        _clock: &impl Clock,
    ) -> CallResult<Option<Decision>> {
        locked(&queue.batch).push(&queue.names, key, cost);
        Ok(None)
    }
}

impl NativeRedisLimiter {
    pub(crate) fn new(
        prefix: String,
        policies: PolicySet,
        tags: Option<NonZeroU16>,
        prefixes: Arc<Mutex<Prefixes>>,
    ) -> Self {
        let names = KeyNames::new(&prefix, &policies).with_tags(tags);
        let queue = RedisCallQueue { names, policies: Arc::new(policies), batch: Mutex::default() };
        Self { queue: Arc::new(queue), prefix, prefixes, closed: AtomicBool::new(false) }
    }

    /// Takes out the enqueued calls.
    pub(crate) fn take_calls(&self) -> (Arc<PolicySet>, CallBatch) {
        (Arc::clone(&self.queue.policies), locked(&self.queue.batch).take())
    }

    /// A flush with one peek of `cost` units.
    pub(crate) fn peeking(
        &self,
        env: Env,
        keys: &Array<'_>,
        tag: Option<&str>,
        cost: u64,
    ) -> CallResult<Flush> {
        let (mut batch, mut flush) = (CallBatch::new(), Flush::peeking());
        self.queue.enqueue(&mut batch, env, keys, tag, Operation::Peek { cost })?;
        flush.push(Arc::clone(&self.queue.policies), batch);
        Ok(flush)
    }
}

impl RedisCallQueue {
    /// Adds an operation to a batch. The array has one key per key dimension, or undefined.
    fn enqueue(
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
        batch.push_operation(&self.names, &keys[..self.policies.key_dimensions()], tag, operation);
        Ok(())
    }
}

#[napi]
impl NativeRedisLimiter {
    /// Returns a function that enqueues a take of `cost` units from `key`. It writes 0 or a
    /// failure's code to `answer`.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost: number) => void")]
    pub fn bind_enqueue(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<EnqueueTake>(env, Arc::clone(&self.queue), answer)
    }

    /// Enqueues an operation by its code. `keys` has one key per
    /// key dimension, or undefined. Returns 0 or a failure's code, as do the functions below.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, operation: number, amount: number"
    )]
    pub fn enqueue_operation(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        operation: f64,
        amount: f64,
    ) -> f64 {
        match operation::operation(whole(operation), whole(amount)) {
            Some(operation) => self.enqueue(env, &keys, tag.as_deref(), operation),
            None => FailureCode::Panicked.code(),
        }
    }

    /// Enqueues a refund of `units` of an earlier call. `taken` has the call's time and, by policy,
    /// the time from which the key was to be fresh, in whole epoch microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, units: number, taken: Float64Array"
    )]
    pub fn enqueue_refund(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        units: f64,
        taken: Float64ArraySlice<'_>,
    ) -> f64 {
        self.enqueue(env, &keys, tag.as_deref(), operation::refund(units, &taken))
    }

    /// Enqueues an override of the keys' policies for `lasting_us` microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, policies: readonly (NativePolicy | undefined)[], lastingUs: number"
    )]
    pub fn enqueue_override(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        policies: Vec<Option<ClassInstance<'_, NativePolicy>>>,
        lasting_us: f64,
    ) -> f64 {
        let operation = operation::override_numbers(policies, lasting_us);
        self.enqueue(env, &keys, tag.as_deref(), operation)
    }

    /// Enqueues a scheduled reservation of `cost` units in a slot at most `max_wait_us`
    /// microseconds ahead. The doubles of the reservation follow the limits in the answer.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, cost: number, maxWaitUs: number"
    )]
    pub fn enqueue_schedule(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        cost: f64,
        max_wait_us: f64,
    ) -> f64 {
        self.enqueue(env, &keys, tag.as_deref(), reservation::schedule(cost, max_wait_us))
    }

    /// Enqueues the cancellation of a scheduled reservation. It takes effect only if no later
    /// reservation follows.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, booked: Float64Array"
    )]
    pub fn enqueue_cancel_scheduled(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        booked: Float64ArraySlice<'_>,
    ) -> f64 {
        self.enqueue(env, &keys, tag.as_deref(), reservation::cancel_scheduled(&booked))
    }

    /// Enqueues a reservation of `cost` units. `hold` has 16 bytes and lasts `lasting_us`
    /// microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, hold: Uint8Array, cost: number, lastingUs: number"
    )]
    pub fn enqueue_reserve(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        hold: Uint8ArraySlice<'_>,
        cost: f64,
        lasting_us: f64,
    ) -> f64 {
        match operation::reserve(cost, &hold, lasting_us) {
            Some(operation) => self.enqueue(env, &keys, tag.as_deref(), operation),
            None => FailureCode::Panicked.code(),
        }
    }

    /// Enqueues the settlement of a hold. `numbers` has its units, the actual units, its end, the
    /// time of its decision and, by policy, the time from which the key was to be fresh. Times are
    /// in whole epoch microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, hold: Uint8Array, numbers: Float64Array"
    )]
    pub fn enqueue_settle(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        hold: Uint8ArraySlice<'_>,
        numbers: Float64ArraySlice<'_>,
    ) -> f64 {
        match operation::settle(&hold, &numbers) {
            Some(operation) => self.enqueue(env, &keys, tag.as_deref(), operation),
            None => FailureCode::Panicked.code(),
        }
    }

    fn enqueue(&self, env: Env, keys: &Array<'_>, tag: Option<&str>, operation: Operation) -> f64 {
        let queue = &self.queue;
        let result = queue.enqueue(&mut locked(&queue.batch), env, keys, tag, operation);
        result.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Releases the prefix for other policies.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            locked(&self.prefixes).close(&self.prefix);
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
