//! The store in Redis: calls are noted one by one, and go in batches, with one promise for each.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{
    ClassInstance, Either, Env, Float64Array, JsValue, PromiseRaw, Result, Unknown,
    create_custom_tokio_runtime,
};
use napi::{Error, Status};
use napi_derive::{module_init, napi};
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;

use super::answer::{self, Failure};
use super::hot::{self, Question};
use super::key::KeyBuffer;
use super::policy::Policy;
use super::whole;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::policy;
use crate::store::prefixes::Prefixes;
use crate::store::redis::{self, Batch, CallError, Connection, Job, Names, Script};

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
    policy: policy::Policy,
    batch: Mutex<Batch>,
}

/// Notes a call.
struct Note;

impl Question for Note {
    type Asked = Noted;

    fn ask(noted: &Noted, key: Key<'_>, cost: u64, _clock: &impl Clock) -> Option<Decision> {
        locked(&noted.batch).push(&noted.names, key, cost);
        None
    }
}

/// What became of a batch.
#[napi(object)]
pub struct RedisAnswers {
    /// An answer for each call; a failure's second number is that of its text.
    pub answers: Float64Array,
    /// What failures say.
    pub texts: Vec<String>,
}

#[napi]
impl RedisStore {
    /// Connects in the background. Throws if the URL is none.
    #[napi(constructor, catch_unwind)]
    pub fn new(url: String, connect_timeout_ms: f64) -> Result<Self> {
        // The client's own text may hold the URL, and with it a password.
        let client = ::redis::Client::open(url)
            .map_err(|_| Error::new(Status::InvalidArg, "must be a Redis URL"))?;
        let Some(runtime) = RUNTIME.get() else {
            return Err(Error::new(Status::GenericFailure, "could not start a thread"));
        };
        let timeout = Duration::from_millis(whole(connect_timeout_ms));
        let connection = Connection::open(client, timeout, runtime);
        Ok(Self { connection: Mutex::new(Some(connection)), prefixes: Arc::default() })
    }

    /// Opens a limiter's keys. Throws while the prefix is open with another policy.
    #[napi(catch_unwind)]
    pub fn open(&self, prefix: String, policy: &Policy) -> Result<RedisLedger> {
        let policy = policy.inner();
        locked(&self.prefixes)
            .open(&prefix, &policy)
            .map_err(|taken| Error::new(Status::InvalidArg, taken.to_string()))?;
        let names = Names::new(&prefix, "default", &policy);
        let noted = Arc::new(Noted { names, policy, batch: Mutex::default() });
        let prefixes = Arc::clone(&self.prefixes);
        Ok(RedisLedger { noted, prefix, prefixes, closed: AtomicBool::new(false) })
    }

    /// Sends what has been noted for these ledgers. The answers are theirs, in order.
    #[napi(catch_unwind, ts_args_type = "ledgers: readonly RedisLedger[], timeoutMs: number")]
    pub fn submit<'env>(
        &self,
        env: &'env Env,
        ledgers: Vec<ClassInstance<'env, RedisLedger>>,
        timeout_ms: f64,
    ) -> Result<PromiseRaw<'env, RedisAnswers>> {
        let noted: Vec<(Arc<Noted>, Batch)> = ledgers
            .iter()
            .map(|ledger| (Arc::clone(&ledger.noted), locked(&ledger.noted.batch).take()))
            .collect();
        let jobs = noted.iter().map(|(noted, batch)| batch.job(&noted.policy, false)).collect();
        let running = self.run(jobs, timeout_ms);
        env.spawn_future(async move {
            let answers = running.await;
            let mut encoder = Encoder::default();
            for ((noted, batch), answer) in noted.iter().zip(answers) {
                encoder.batch(&noted.policy, batch, answer);
            }
            Ok(encoder.finish())
        })
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
        let mut batch = Batch::new();
        if let Some(failure) = push(*env, key, |key| batch.push(&noted.names, key, 0)) {
            return Ok(Either::A(failure.code()));
        }
        let running = self.run(vec![batch.job(&noted.policy, true)], timeout_ms);
        let cost = whole(cost);
        let promise = env.spawn_future(async move {
            let mut encoder = Encoder::default();
            for answer in running.await {
                encoder.peek(&noted.policy, &batch, cost, answer);
            }
            Ok(encoder.finish())
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
        let mut keys = Vec::new();
        if let Some(failure) = push(*env, key, |key| keys.push(ledger.noted.names.of(key))) {
            return Ok(Either::A(failure.code()));
        }
        let job = Job { script: Script::reset(), keys, arguments: Vec::new() };
        let running = self.run(vec![job], timeout_ms);
        let promise = env.spawn_future(async move {
            let mut encoder = Encoder::default();
            for answer in running.await {
                encoder.push(answer.map(|_| None).map_err(|failure| told(&failure)));
            }
            Ok(encoder.finish())
        })?;
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

    fn run(
        &self,
        jobs: Vec<Job>,
        timeout_ms: f64,
    ) -> impl Future<Output = Vec<redis::Answer>> + use<> {
        let count = jobs.len();
        let deadline = Instant::now() + Duration::from_millis(whole(timeout_ms));
        let running =
            locked(&self.connection).as_ref().map(|connection| connection.run(jobs, deadline));
        async move {
            match running {
                Some(running) => running.await,
                None => vec![Err(redis::Failure::Closed); count],
            }
        }
    }
}

/// Reads a key and hands it on; or says why it is none.
fn push(env: Env, key: Unknown<'_>, take: impl FnOnce(Key<'_>)) -> Option<Failure> {
    let mut buffer = KeyBuffer::new();
    // SAFETY: the environment and the value are the running callback's.
    unsafe { buffer.read(env.raw(), key.value().value) }.map(take).err()
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

/// Builds the answers to a batch.
#[derive(Default)]
struct Encoder {
    answers: Vec<f64>,
    texts: Vec<String>,
}

impl Encoder {
    fn push(&mut self, answer: core::result::Result<Option<Decision>, (Failure, String)>) {
        let mut place = [0.0; answer::LENGTH];
        match answer {
            Ok(decision) => answer::write(&mut place, Ok(decision)),
            Err((failure, text)) => {
                answer::write(&mut place, Err(failure));
                place[1] = f64::from(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
                self.texts.push(text);
            }
        }
        self.answers.extend(place);
    }

    fn batch(&mut self, policy: &policy::Policy, batch: &Batch, answer: redis::Answer) {
        let failure = match answer.map(|values| batch.decisions(policy, &values)) {
            Ok(Ok(decisions)) => {
                for decision in decisions {
                    self.push(decision.map(Some).map_err(|error| unanswered(&error)));
                }
                return;
            }
            Ok(Err(malformed)) => (Failure::Refused, malformed.to_string()),
            Err(failure) => told(&failure),
        };
        for _ in 0..batch.len() {
            self.push(Err(failure.clone()));
        }
    }

    fn peek(&mut self, policy: &policy::Policy, batch: &Batch, cost: u64, answer: redis::Answer) {
        let standing = answer.map_err(|failure| told(&failure)).and_then(|values| {
            let states = batch.standing(policy, &values);
            states.map_err(|malformed| (Failure::Refused, malformed.to_string()))
        });
        match standing {
            Ok(Ok((state, now))) => {
                self.push(Ok(Some(crate::decision::peek(policy, &state, now, cost))));
            }
            Ok(Err(error)) => self.push(Err(unanswered(&error))),
            Err(failure) => self.push(Err(failure)),
        }
    }

    fn finish(self) -> RedisAnswers {
        RedisAnswers { answers: Float64Array::new(self.answers), texts: self.texts }
    }
}

fn unanswered(error: &CallError) -> (Failure, String) {
    (Failure::Refused, error.to_string())
}

fn told(failure: &redis::Failure) -> (Failure, String) {
    let kind = match failure {
        redis::Failure::Unavailable(_) => Failure::Unavailable,
        redis::Failure::Broken(_) => Failure::Broken,
        redis::Failure::TimedOut => Failure::TimedOut,
        redis::Failure::Refused(_) => Failure::Refused,
        redis::Failure::Closed => Failure::Closed,
    };
    (kind, failure.to_string())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
