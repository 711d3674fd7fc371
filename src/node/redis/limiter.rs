//! One limiter's keys in Redis: its calls are noted until they are sent.

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
use crate::node::hot::{self, Answered, Question};
use crate::node::operation::{self, KeyBuffers};
use crate::node::policy::Policy;
use crate::node::reservation;
use crate::node::response::{Answer as Place, Failure};
use crate::node::whole;
use crate::policy::decision::Decision;
use crate::policy::operation::Operation;
use crate::policy::policy_set::Policies;
use crate::prefixes::Prefixes;
use crate::redis::{Batch, Names, Round};

/// One limiter's keys in Redis.
#[napi]
pub struct RedisLedger {
    noted: Arc<Noted>,
    prefix: String,
    prefixes: Arc<Mutex<Prefixes>>,
    closed: AtomicBool,
}

/// Calls that wait to be sent.
struct Noted {
    names: Names,
    policies: Arc<Policies>,
    batch: Mutex<Batch>,
}

/// Notes a call.
struct Note;

impl Question for Note {
    type Asked = Arc<Noted>;
    type Place = Place;

    fn ask(
        noted: &Arc<Noted>,
        key: Key<'_>,
        cost: u64,
        _clock: &impl Clock,
    ) -> Answered<Option<Decision>> {
        locked(&noted.batch).push(&noted.names, key, cost);
        Ok(None)
    }
}

impl RedisLedger {
    pub(crate) fn new(
        prefix: String,
        policies: Policies,
        tags: Option<NonZeroU16>,
        prefixes: Arc<Mutex<Prefixes>>,
    ) -> Self {
        let names = Names::new(&prefix, &policies).with_tags(tags);
        let noted = Noted { names, policies: Arc::new(policies), batch: Mutex::default() };
        Self { noted: Arc::new(noted), prefix, prefixes, closed: AtomicBool::new(false) }
    }

    /// Takes out the calls that have been noted.
    pub(crate) fn take_noted(&self) -> (Arc<Policies>, Batch) {
        (Arc::clone(&self.noted.policies), locked(&self.noted.batch).take())
    }

    /// A round that tells what taking `cost` units would answer.
    pub(crate) fn peeking(
        &self,
        env: Env,
        keys: &Array<'_>,
        tag: Option<&str>,
        cost: u64,
    ) -> Answered<Round> {
        let (mut batch, mut round) = (Batch::new(), Round::peeking());
        self.noted.note(&mut batch, env, keys, tag, Operation::Peek { cost })?;
        round.push(Arc::clone(&self.noted.policies), batch);
        Ok(round)
    }
}

impl Noted {
    /// Notes an operation on the keys that the elements of an array are; the others are left out.
    fn note(
        &self,
        batch: &mut Batch,
        env: Env,
        keys: &Array<'_>,
        tag: Option<&str>,
        operation: Operation,
    ) -> Answered<()> {
        let mut buffers = KeyBuffers::new();
        // SAFETY: the environment and the array are the running callback's.
        let keys = unsafe { buffers.read_array(env, keys) }?;
        batch.push_operation(&self.names, &keys[..self.policies.subjects()], tag, operation);
        Ok(())
    }
}

#[napi]
impl RedisLedger {
    /// The function that notes a call of `cost` units on `key`; the code in `answer` is 0 or that
    /// of a failure.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost: number) => void")]
    pub fn bind_note(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<Note>(env, Arc::clone(&self.noted), answer)
    }

    /// Notes an operation, by the numbers of `ts/backends/operation.ts`, on the keys of the limiter's subjects;
    /// undefined are left out. Answers 0, or with a failure's code.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, operation: number, amount: number"
    )]
    pub fn note(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        operation: f64,
        amount: f64,
    ) -> f64 {
        match operation::operation(whole(operation), whole(amount)) {
            Some(operation) => self.noted(env, &keys, tag.as_deref(), operation),
            None => Failure::Panicked.code(),
        }
    }

    /// Notes that `units` of an earlier call come back: `taken` has its time and then, by policy, when the
    /// key was to be as if never used, in whole microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, units: number, taken: Float64Array"
    )]
    pub fn note_refund(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        units: f64,
        taken: Float64ArraySlice<'_>,
    ) -> f64 {
        self.noted(env, &keys, tag.as_deref(), operation::refund(units, &taken))
    }

    /// Notes that keys get numbers of their own, by policy, for so many microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, policies: readonly (Policy | undefined)[], lastingUs: number"
    )]
    pub fn note_override(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        policies: Vec<Option<ClassInstance<'_, Policy>>>,
        lasting_us: f64,
    ) -> f64 {
        let operation = operation::override_numbers(policies, lasting_us);
        self.noted(env, &keys, tag.as_deref(), operation)
    }

    /// Notes that `cost` units are to be booked for a slot at most so many microseconds away. Behind the
    /// answer's limits stand the doubles of what was booked.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, cost: number, maxWaitUs: number"
    )]
    pub fn note_book(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        cost: f64,
        max_wait_us: f64,
    ) -> f64 {
        self.noted(env, &keys, tag.as_deref(), reservation::book(cost, max_wait_us))
    }

    /// Notes that what was booked comes back, if nobody is behind it.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, booked: Float64Array"
    )]
    pub fn note_unbook(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        booked: Float64ArraySlice<'_>,
    ) -> f64 {
        self.noted(env, &keys, tag.as_deref(), reservation::unbook(&booked))
    }

    /// Notes a call of `cost` units under a hold of 16 bytes that lasts for so many microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, hold: Uint8Array, cost: number, lastingUs: number"
    )]
    pub fn note_reserve(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        hold: Uint8ArraySlice<'_>,
        cost: f64,
        lasting_us: f64,
    ) -> f64 {
        match operation::reserve(cost, &hold, lasting_us) {
            Some(operation) => self.noted(env, &keys, tag.as_deref(), operation),
            None => Failure::Panicked.code(),
        }
    }

    /// Notes that a hold is settled: `numbers` has its units, the actual units and when it ends; then the time of
    /// the decision on it and, by policy, when the key was to be as if never used; all in whole microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], tag: string | undefined, hold: Uint8Array, numbers: Float64Array"
    )]
    pub fn note_settle(
        &self,
        env: Env,
        keys: Array<'_>,
        tag: Option<String>,
        hold: Uint8ArraySlice<'_>,
        numbers: Float64ArraySlice<'_>,
    ) -> f64 {
        match operation::settle(&hold, &numbers) {
            Some(operation) => self.noted(env, &keys, tag.as_deref(), operation),
            None => Failure::Panicked.code(),
        }
    }

    fn noted(&self, env: Env, keys: &Array<'_>, tag: Option<&str>, operation: Operation) -> f64 {
        let noted = &self.noted;
        let result = noted.note(&mut locked(&noted.batch), env, keys, tag, operation);
        result.map_or_else(Failure::code, |()| 0.0)
    }

    /// Frees the prefix for another policy.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            locked(&self.prefixes).close(&self.prefix);
        }
    }
}

impl Drop for RedisLedger {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
