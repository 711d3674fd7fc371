//! One limiter's states on the embedded store.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::sync::Arc;

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, JsValue, Result, Unknown,
};
use napi::{Error, Status};
use napi_derive::napi;

use super::hot::{self, Question, Take, TakeNamed, TimeOf};
use super::key::{KeyBuffer, element};
use super::operation::{self, KeyBuffers};
use super::policy::Policy;
use super::reservation;
use super::response;
use super::whole;
use crate::memory;
use crate::node::registry::{Membership, Takes};
use crate::policy::operation::{HoldId, Operation};

/// The states of one limiter's keys. `epochMs` below 0 means the system's clock, everywhere.
#[napi]
#[derive(Debug)]
pub struct Ledger {
    inner: Arc<memory::Ledger>,
    is_named: bool,
    /// Among those that one function asks.
    membership: Option<Membership>,
}

impl Ledger {
    pub(crate) fn new(ledger: memory::Ledger, is_named: bool) -> Self {
        Self { inner: Arc::new(ledger), is_named, membership: None }
    }

    fn take_each<'a, Q: Question<Asked = Arc<memory::Ledger>>>(
        &self,
        env: Env,
        keys: &Array<'_>,
        costs: &[f64],
        time: &TimeOf,
        answers: impl Iterator<Item = &'a mut Q::Place>,
    ) {
        for ((index, &cost), answer) in (0..keys.len()).zip(costs).zip(answers) {
            let mut buffer = KeyBuffer::new();
            // SAFETY: the environment and the array are the running callback's.
            let key =
                unsafe { buffer.read(env.raw(), element(env.raw(), keys.value().value, index)) };
            hot::ask::<Q>(answer, &self.inner, key, whole(cost), time);
        }
    }

    fn perform(
        &self,
        env: Env,
        keys: &Array<'_>,
        operation: impl Into<Option<Operation>>,
        epoch_ms: f64,
        answer: &mut [f64],
    ) {
        let mut buffers = KeyBuffers::new();
        // SAFETY: the environment and the array are the running callback's.
        let keys = unsafe { buffers.read_array(env, keys) };
        let time = TimeOf::call(epoch_ms);
        operation::perform(answer, &self.inner, keys, operation.into().as_ref(), &time);
    }
}

#[napi]
impl Ledger {
    /// Whether answers of takes tell of a single limit without a name, in six doubles.
    #[napi(getter, catch_unwind)]
    pub fn is_single(&self) -> bool {
        !self.is_named
    }

    /// The function that takes `cost` units from `key`, and answers into `answer`, of a ledger whose limits have names; others
    /// are asked by [`Takes`].
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind_take(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<TakeNamed>(env, Arc::clone(&self.inner), answer)
    }

    /// The function that performs operations on keys, by the numbers of `ts/backends/operation.ts`, and answers
    /// into `answer`. Keys are those of the limiter's subjects in order; undefined are left out.
    #[napi(
        catch_unwind,
        ts_return_type = "(operation: number, amount: number, epochMs: number, ...keys: (string | undefined)[]) => void"
    )]
    pub fn bind_perform(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        operation::function(env, Arc::clone(&self.inner), answer)
    }

    /// Takes `costs[i]` units from `keys[i]`, each by itself and in order, and answers into the
    /// i-th part of `answers`.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly string[], costs: Float64Array, epochMs: number, answers: Float64Array"
    )]
    pub fn take_many(
        &self,
        env: Env,
        keys: Array<'_>,
        costs: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answers: Float64ArraySlice<'_>,
    ) {
        let time = TimeOf::call(epoch_ms);
        // SAFETY: TypeScript made the array for this call, and nothing else uses it meanwhile.
        let answers = unsafe { answers.as_mut() };
        if self.is_named {
            let length = response::length_of(self.inner.named_limits().max(1));
            let answers = answers.chunks_exact_mut(length);
            self.take_each::<TakeNamed>(env, &keys, &costs, &time, answers);
        } else {
            let answers = answers.as_chunks_mut::<{ response::LENGTH }>().0;
            self.take_each::<Take>(env, &keys, &costs, &time, answers.iter_mut());
        }
    }

    /// Gives back `units` of an earlier call: `taken` has its time and then, by policy, when the key was to
    /// be as if never used, in whole microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], units: number, taken: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn refund(
        &self,
        env: Env,
        keys: Array<'_>,
        units: f64,
        taken: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::refund(units, &taken);
        // SAFETY: the array is the ledger's own, and nothing else uses it meanwhile.
        self.perform(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Settles a reservation: `numbers` has its units, the actual units and when it ends; then the time of the
    /// decision on it and, by policy, when the key was to be as if never used; all in whole microseconds.
    /// That it was not settled before is the caller's to know.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], numbers: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn settle(
        &self,
        env: Env,
        keys: Array<'_>,
        numbers: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::settle(&HoldId::default(), &numbers);
        // SAFETY: the array is the ledger's own, and nothing else uses it meanwhile.
        self.perform(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Gives keys numbers of their own, by policy, for so many microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], policies: readonly (Policy | undefined)[], lastingUs: number, epochMs: number, answer: Float64Array"
    )]
    pub fn override_numbers(
        &self,
        env: Env,
        keys: Array<'_>,
        policies: Vec<Option<ClassInstance<'_, Policy>>>,
        lasting_us: f64,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::override_numbers(policies, lasting_us);
        // SAFETY: the array is the ledger's own, and nothing else uses it meanwhile.
        self.perform(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Books `cost` units for the first time at which all policies admit them, if that is at most so many
    /// microseconds away: the answer's units are those. Behind the limits stand the doubles of what was
    /// booked.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], cost: number, maxWaitUs: number, epochMs: number, answer: Float64Array"
    )]
    pub fn book(
        &self,
        env: Env,
        keys: Array<'_>,
        cost: f64,
        max_wait_us: f64,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = reservation::book(cost, max_wait_us);
        // SAFETY: the array is the ledger's own, and nothing else uses it meanwhile.
        self.perform(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Gives back what was booked, if nobody is behind it.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], booked: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn unbook(
        &self,
        env: Env,
        keys: Array<'_>,
        booked: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = reservation::unbook(&booked);
        // SAFETY: the array is the ledger's own, and nothing else uses it meanwhile.
        self.perform(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Frees the prefix for another policy. The memory is freed when the bound functions are.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.inner.close();
    }
}

#[napi]
impl Takes {
    /// Adds a ledger, and tells its number, which is its own until it is collected.
    #[napi(catch_unwind)]
    pub fn add(&self, ledger: &mut Ledger) -> Result<u32> {
        let membership = ledger.membership.insert(self.admit(Arc::clone(&ledger.inner)));
        u32::try_from(membership.number())
            .map_err(|error| Error::new(Status::GenericFailure, error.to_string()))
    }
}
