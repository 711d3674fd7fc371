//! The store in Redis: calls are noted one by one, and go and come back in rounds.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{
    ClassInstance, Either, Env, Float64Array, FnArgs, Function, JsValue, PromiseRaw, Result,
    Unknown, create_custom_tokio_runtime,
};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::{module_init, napi};
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;

use super::answer::{Answer as Place, Failure};
use super::hot::{self, Question};
use super::key::KeyBuffer;
use super::policy::Policy;
use super::redis_answers::{Answers, RedisAnswers};
use super::whole;
use crate::clock::{Clock, SystemClock};
use crate::decision::Decision;
use crate::key::Key;
use crate::policy;
use crate::store::prefixes::Prefixes;
use crate::store::redis::{self, Answer, Batch, Connection, Job, Names, Round};

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
    policy: Arc<policy::Policy>,
    batch: Mutex<Batch>,
}

/// Notes a call.
struct Note;

impl Question for Note {
    type Asked = Noted;
    type Place = Place;

    fn ask(noted: &Noted, key: Key<'_>, cost: u64, _clock: &impl Clock) -> Option<Decision> {
        locked(&noted.batch).push(&noted.names, key, cost);
        None
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

    /// Opens a limiter's keys. Throws while the prefix is open with another policy.
    #[napi(catch_unwind)]
    pub fn open(&self, prefix: String, policy: &Policy) -> Result<RedisLedger> {
        let policy = policy.inner();
        locked(&self.prefixes)
            .open(&prefix, &policy)
            .map_err(|taken| Error::new(Status::InvalidArg, taken.to_string()))?;
        let names = Names::new(&prefix, "default", &policy);
        let noted = Arc::new(Noted { names, policy: Arc::new(policy), batch: Mutex::default() });
        let prefixes = Arc::clone(&self.prefixes);
        Ok(RedisLedger { noted, prefix, prefixes, closed: AtomicBool::new(false) })
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
            calls.push(Arc::clone(&ledger.noted.policy), batch);
        }
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

    /// What taking `cost` units from a key would answer; or a failure's code if it is no key.
    #[napi(
        catch_unwind,
        ts_args_type = "ledger: RedisLedger, key: string, cost: number, timeoutMs: number"
    )]
    pub fn peek<'env>(
        &self,
        env: &'env Env,
        ledger: &RedisLedger,
        key: Unknown<'_>,
        cost: f64,
        timeout_ms: f64,
    ) -> Result<Either<f64, PromiseRaw<'env, RedisAnswers>>> {
        let noted = Arc::clone(&ledger.noted);
        let cost = whole(cost);
        let key = match with_key(*env, key, |key| noted.names.key(key)) {
            Ok(key) => key,
            Err(failure) => return Ok(Either::A(failure.code())),
        };
        let policy = Arc::clone(&noted.policy);
        let asked = self.ask(move |connection| {
            connection.peek(policy, key, cost, || SystemClock.now(), deadline(timeout_ms))
        });
        let promise = env.spawn_future(async move {
            Ok(Answers::of_peek(&noted.policy, cost, asked.await).into())
        })?;
        Ok(Either::B(promise))
    }

    /// Makes a key as if never used; or answers with a failure's code if it is no key.
    #[napi(catch_unwind, ts_args_type = "ledger: RedisLedger, key: string, timeoutMs: number")]
    pub fn reset<'env>(
        &self,
        env: &'env Env,
        ledger: &RedisLedger,
        key: Unknown<'_>,
        timeout_ms: f64,
    ) -> Result<Either<f64, PromiseRaw<'env, RedisAnswers>>> {
        let job = match with_key(*env, key, |key| Job::reset(&ledger.noted.names, key)) {
            Ok(job) => job,
            Err(failure) => return Ok(Either::A(failure.code())),
        };
        let asked = self.ask(move |connection| connection.ask(job, deadline(timeout_ms)));
        let promise = env.spawn_future(async move { Ok(Answers::of_reset(asked.await).into()) })?;
        Ok(Either::B(promise))
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

    fn ask<A: Future<Output = Answer>, F: FnOnce(&Connection) -> A>(
        &self,
        ask: F,
    ) -> impl Future<Output = Answer> + use<A, F> {
        let asked = locked(&self.connection).as_ref().map(ask);
        async move {
            match asked {
                Some(asked) => asked.await,
                None => Err(redis::Failure::Closed),
            }
        }
    }
}

fn deadline(timeout_ms: f64) -> Instant {
    Instant::now() + Duration::from_millis(whole(timeout_ms))
}

/// Reads a key and hands it on; or says why it is none.
fn with_key<T>(
    env: Env,
    key: Unknown<'_>,
    take: impl FnOnce(Key<'_>) -> T,
) -> core::result::Result<T, Failure> {
    let mut buffer = KeyBuffer::new();
    // SAFETY: the environment and the value are the running callback's.
    unsafe { buffer.read(env.raw(), key.value().value) }.map(take)
}

#[napi]
impl RedisLedger {
    /// The function that notes a call of `cost` units on `key`; the code in `answer` is 0 or that
    /// of a failure.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost: number) => void")]
    pub fn bind_note(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<Note>(env, Arc::clone(&self.noted), answer)
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
