//! The store in Redis: calls are noted one by one, and go and come back in rounds.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, FnArgs, Function, Result, Unknown,
    create_custom_tokio_runtime,
};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::{module_init, napi};
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;

use super::answer::{Answer as Place, Failure};
use super::hot::{self, Answered, Question};
use super::operation::{self, KeyBuffers};
use super::policies::Policies;
use super::policy::Policy;
use super::redis_answers::Answers;
use super::whole;
use crate::clock::{Clock, SystemClock};
use crate::decision::Decision;
use crate::key::Key;
use crate::operation::Operation;
use crate::policies;
use crate::store::prefixes::Prefixes;
use crate::store::redis::{self, Answer, Batch, Connection, Names, Round};

static RUNTIME: OnceCell<Handle> = OnceCell::new();

/// One thread serves all connections of the process: it waits far more than it works.
#[module_init]
fn start_runtime() {
    let threads =
        Builder::new_multi_thread().worker_threads(1).thread_name("tollgate").enable_all().build();
    if let Ok(runtime) = threads
        && RUNTIME.set(runtime.handle().clone()).is_ok()
    {
        create_custom_tokio_runtime(runtime);
    }
}

/// A Redis server as a store.
#[napi]
pub struct RedisStore {
    connection: Mutex<Option<Connection>>,
    settle: Arc<Settle>,
    prefixes: Arc<Mutex<Prefixes>>,
}

/// One limiter's keys in Redis.
#[napi]
pub struct RedisLedger {
    noted: Arc<Noted>,
    prefix: String,
    prefixes: Arc<Mutex<Prefixes>>,
    closed: AtomicBool,
}

/// Calls that wait to be sent.
pub(super) struct Noted {
    names: Names,
    policies: Arc<policies::Policies>,
    batch: Mutex<Batch>,
}

/// Notes a call.
struct Note;

impl Question for Note {
    type Asked = Noted;
    type Place = Place;

    fn ask(
        noted: &Noted,
        key: Key<'_>,
        cost: u64,
        _clock: &impl Clock,
    ) -> Answered<Option<Decision>> {
        locked(&noted.batch).push(&noted.names, key, cost);
        Ok(None)
    }
}

/// What became of a round, by its number.
struct Settled {
    round: u32,
    answers: Answers,
}

/// Tells JavaScript what became of rounds. It does not keep the process alive: callers who wait do.
type Settle = ThreadsafeFunction<Settled, (), SettleArguments, Status, false, true>;
type SettleArguments = FnArgs<(u32, Float64Array, Vec<String>)>;

#[napi]
impl RedisStore {
    /// Connects in the background; `settle` hears what became of what is submitted. Throws if the URL
    /// is none.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        url: String,
        connect_timeout_ms: f64,
        #[napi(ts_arg_type = "(round: number, answers: Float64Array, texts: string[]) => void")]
        settle: Function<'_, SettleArguments, ()>,
    ) -> Result<Self> {
        // The client's own text may hold the URL, and with it a password.
        let client = ::redis::Client::open(url)
            .map_err(|_| Error::new(Status::InvalidArg, "must be a Redis URL"))?;
        let Some(runtime) = RUNTIME.get() else {
            return Err(Error::new(Status::GenericFailure, "could not start a thread"));
        };
        let settle = settle.build_threadsafe_function::<Settled>().weak::<true>();
        let settle = settle.build_callback(|context| {
            let Settled { round, answers: Answers { answers, texts } } = context.value;
            Ok(FnArgs::from((round, Float64Array::new(answers), texts)))
        })?;
        let timeout = Duration::from_millis(whole(connect_timeout_ms));
        let connection = Connection::open(client, timeout, runtime);
        Ok(Self {
            connection: Mutex::new(Some(connection)),
            settle: Arc::new(settle),
            prefixes: Arc::default(),
        })
    }

    /// Opens a limiter's keys. Throws while the prefix is open with other policies.
    #[napi(catch_unwind)]
    pub fn open(&self, prefix: String, policies: &Policies) -> Result<RedisLedger> {
        let policies = policies.inner();
        locked(&self.prefixes)
            .open(&prefix, &policies)
            .map_err(|taken| Error::new(Status::InvalidArg, taken.to_string()))?;
        let names = Names::new(&prefix, &policies);
        let noted = Noted { names, policies: Arc::new(policies), batch: Mutex::default() };
        let prefixes = Arc::clone(&self.prefixes);
        let closed = AtomicBool::new(false);
        Ok(RedisLedger { noted: Arc::new(noted), prefix, prefixes, closed })
    }

    /// Sends what has been noted for these ledgers, as a round of this number. The answers are theirs,
    /// in order.
    #[napi(
        catch_unwind,
        ts_args_type = "round: number, ledgers: readonly RedisLedger[], timeoutMs: number"
    )]
    pub fn submit(
        &self,
        round: u32,
        ledgers: Vec<ClassInstance<'_, RedisLedger>>,
        timeout_ms: f64,
    ) {
        let mut calls = Round::default();
        for ledger in ledgers {
            let batch = locked(&ledger.noted.batch).take();
            calls.push(Arc::clone(&ledger.noted.policies), batch);
        }
        self.send(round, calls, timeout_ms);
    }

    /// Asks what taking `cost` units would answer, as a round of this number. Answers 0, or with a failure's
    /// code if the keys are none: then there is no such round.
    #[napi(
        catch_unwind,
        ts_args_type = "round: number, ledger: RedisLedger, keys: readonly (string | undefined)[], tag: string | undefined, cost: number, timeoutMs: number"
    )]
    #[allow(clippy::too_many_arguments, reason = "one call of JavaScript's")]
    pub fn peek(
        &self,
        env: Env,
        round: u32,
        ledger: &RedisLedger,
        keys: Array<'_>,
        tag: Option<String>,
        cost: f64,
        timeout_ms: f64,
    ) -> f64 {
        let (noted, mut batch) = (&ledger.noted, Batch::new());
        let operation = Operation::Peek { cost: whole(cost) };
        if let Err(failure) = noted.note(&mut batch, env, &keys, tag.as_deref(), operation) {
            return failure.code();
        }
        let mut calls = Round::peeking();
        calls.push(Arc::clone(&noted.policies), batch);
        self.send(round, calls, timeout_ms);
        0.0
    }

    /// Whether there is a connection, as far as is known.
    #[napi(getter, catch_unwind)]
    pub fn is_up(&self) -> bool {
        locked(&self.connection).as_ref().is_some_and(Connection::is_up)
    }

    /// Drops the connection; what waits settles as closed.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        drop(locked(&self.connection).take());
    }

    fn send(&self, round: u32, calls: Round, timeout_ms: f64) {
        let settle = Arc::clone(&self.settle);
        let settle = move |calls: &Round, answers: &[Answer]| {
            let read = AssertUnwindSafe(|| Answers::of_round(calls, answers));
            // No answers at all say that the engine has a defect.
            let answers = catch_unwind(read).unwrap_or_default();
            // If it does not take them, its isolate has ended, and nobody waits.
            settle.call(Settled { round, answers }, ThreadsafeFunctionCallMode::NonBlocking);
        };
        match &*locked(&self.connection) {
            Some(connection) => {
                connection.decide(calls, || SystemClock.now(), deadline(timeout_ms), settle);
            }
            None => settle(&calls, &vec![Err(redis::Failure::Closed); calls.jobs().len()]),
        }
    }
}

fn deadline(timeout_ms: f64) -> Instant {
    Instant::now() + Duration::from_millis(whole(timeout_ms))
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

    /// Notes an operation, by the numbers of `ts/operation.ts`, on the keys of the limiter's subjects;
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
