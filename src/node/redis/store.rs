//! The Redis store: limiters enqueue calls one by one, and flushes send and complete them together.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napi::bindgen_prelude::{
    Array, ClassInstance, Either, Env, Float64Array, FnArgs, Function, Result,
    retain_current_module_for_unload_safety,
};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::napi;
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use crate::abi::operation;
use crate::abi::response::FailureCode;
use crate::abi::responses::FlushResponses;
use crate::clock::{Clock, SystemClock};
use crate::node::policy_set::NativePolicySet;
use crate::node::redis::copied_array::CopiedArray;
use crate::node::redis::events::{EventArguments, StoreEvents};
use crate::node::redis::limiter::{NativeRedisLimiter, locked};
use crate::node::redis::listener::{self, EventLoopReader};
use crate::node::redis::responses::{self, FlushArguments, FlushResults};
use crate::node::redis::target::RedisTarget;
use crate::node::whole;
use crate::prefixes::Prefixes;
use crate::protocol::operation as codes;
use crate::redis::{self, AnsweredCalls, Credentials, Flush, RedisDeployment, ReplyValue};

/// It belongs to the process: napi would end it with the last thread that has loaded the addon, and
/// a later thread would have none.
static RUNTIME: OnceCell<Runtime> = OnceCell::new();

/// The runtime that serves all connections of the process. One thread, because it is mostly idle.
pub(crate) fn runtime() -> Result<Handle> {
    let start = || {
        // The thread outlives the JavaScript threads, so its code must stay loaded.
        retain_current_module_for_unload_safety();
        Builder::new_multi_thread().worker_threads(1).thread_name("tollgate").enable_all().build()
    };
    let failed =
        |why| Error::new(Status::GenericFailure, format!("could not start a thread: {why}"));
    RUNTIME.get_or_try_init(start).map(|runtime| runtime.handle().clone()).map_err(failed)
}

/// A Redis server, or a cluster, as a store.
#[napi]
pub struct NativeRedisStore {
    deployment: Arc<Mutex<Option<RedisDeployment>>>,
    reader: Option<Rc<EventLoopReader>>,
    tags: Option<NonZeroU16>,
    results: Arc<FlushResults>,
    complete: Arc<FlushCallback>,
    events: StoreEvents,
    prefixes: Arc<Mutex<Prefixes>>,
}

/// Passes the next flush result to JavaScript. It does not keep the process alive; waiting callers
/// do.
type FlushCallback = ThreadsafeFunction<(), (), FlushArguments, Status, false, true>;

#[napi]
impl NativeRedisStore {
    /// Connects in the background. `complete` receives the results of submitted flushes: of all
    /// calls of a flush, or of the calls with the given numbers. Without a number there is no result.
    /// `event` receives `'up'` (the address, the version), `'down'` (the reason), `'evicting'` (the
    /// eviction policy), `'cluster-node'`, `'policies'` (those that another process has registered) and
    /// `'login'` (a number: see `login`). `polls` says that
    /// the event loop is Node's own and may read replies. Throws if the certificates are invalid.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        target: RedisTarget,
        #[napi(
            ts_arg_type = "(flush: number | null | undefined, answers: Float64Array, texts: string[], calls: Uint32Array | null | undefined) => void"
        )]
        complete: Function<'_, FlushArguments, ()>,
        #[napi(ts_arg_type = "(kind: string, words: string[]) => void")] event: Function<
            '_,
            EventArguments,
            (),
        >,
        polls: bool,
    ) -> Result<Self> {
        let runtime = &runtime()?;
        let deployment = Arc::default();
        let results = Arc::<FlushResults>::default();
        let reader = polls.then(|| {
            EventLoopReader::new(env, &complete, Arc::clone(&deployment), Arc::clone(&results))
        });
        let reader = reader.transpose()?;
        let complete = complete.build_threadsafe_function::<()>().weak::<true>();
        let next = Arc::clone(&results);
        let complete = complete.build_callback(move |_| Ok(next.next_arguments()))?;
        let events = StoreEvents::new(&event)?;
        let (tags, warn) = (target.tags.and_then(NonZeroU16::new), events.clone());
        let opened = target.open(events.clone(), runtime, move |found| warn.warn(found))?;
        runtime.spawn(events.clone().follow(opened.health()));
        *locked(&deployment) = Some(opened);
        Ok(Self {
            deployment,
            reader,
            tags,
            results,
            complete: Arc::new(complete),
            events,
            prefixes: Arc::default(),
        })
    }

    /// Opens the keys of a limiter. Throws while the prefix is open with policies that differ in more than
    /// numbers.
    #[napi(catch_unwind)]
    pub fn open(&self, prefix: String, policies: &NativePolicySet) -> Result<NativeRedisLimiter> {
        let policies = policies.inner();
        locked(&self.prefixes)
            .open(&prefix, &policies)
            .map_err(|taken| Error::new(Status::InvalidArg, taken.to_string()))?;
        Ok(NativeRedisLimiter::new(prefix, policies, self.tags, Arc::clone(&self.prefixes)))
    }

    /// Sends the enqueued calls of these limiters as the flush with this number. The answers are in
    /// the order of the limiters and their calls.
    #[napi(
        catch_unwind,
        ts_args_type = "flush: number, limiters: readonly NativeRedisLimiter[], timeoutMs: number"
    )]
    pub fn submit(
        &self,
        flush: u32,
        limiters: Vec<ClassInstance<'_, NativeRedisLimiter>>,
        timeout_ms: f64,
    ) {
        let mut calls = Flush::default();
        for limiter in limiters {
            limiter.move_calls(&mut calls);
        }
        self.send(flush, calls, timeout_ms);
    }

    /// Sends a peek of `cost` units as the flush with this number. Units by policy are the numbers of
    /// `numbersOf` in `ts/backends/operation.ts`. Returns 0, or a failure's code if a key is invalid:
    /// then there is no such flush.
    #[napi(
        catch_unwind,
        ts_args_type = "flush: number, limiter: NativeRedisLimiter, keys: readonly (string | undefined)[], tag: string | undefined, cost: number | Float64Array, timeoutMs: number"
    )]
    #[allow(clippy::too_many_arguments, reason = "JavaScript makes one call")]
    pub fn peek(
        &self,
        env: Env,
        flush: u32,
        limiter: &NativeRedisLimiter,
        keys: Array<'_>,
        tag: Option<String>,
        cost: Either<f64, Float64Array>,
        timeout_ms: f64,
    ) -> f64 {
        let peek = match &cost {
            Either::A(cost) => operation::read(codes::PEEK, &[*cost], Vec::new),
            Either::B(costs) => operation::read(codes::PEEK + codes::METERED, costs, Vec::new),
        };
        let Some(peek) = peek else { return FailureCode::Panicked.code() };
        match limiter.peeking(env, &keys, tag.as_deref(), peek) {
            Ok(calls) => self.send(flush, calls, timeout_ms),
            Err(failure) => return failure.code(),
        }
        0.0
    }

    /// Registers the text of a prefix's policies in Redis for `lasting_ms` milliseconds; 0 registers
    /// nothing. The event `'policies'` then has the prefix and all registered texts; without texts if
    /// it fails.
    #[napi(catch_unwind)]
    pub fn register_policies(
        &self,
        prefix: String,
        text: String,
        lasting_ms: f64,
        timeout_ms: f64,
    ) {
        let events = self.events.clone();
        let flush = Flush::registering(&prefix, &text, whole(lasting_ms));
        let on_complete = move |partitions: &[AnsweredCalls<'_>]| {
            let mut answers = partitions.iter().flat_map(|partition| partition.answers);
            let texts = answers.find_map(|answer| answer.as_ref().ok());
            let texts = texts.into_iter().flatten().filter_map(text_of).collect();
            events.registered_policies(prefix.clone(), texts);
        };
        if let Some(deployment) = &*locked(&self.deployment) {
            deployment.decide(flush, || SystemClock.now(), deadline(timeout_ms), on_complete);
        }
    }

    /// Whether there is a connection, as far as is known.
    #[napi(getter, catch_unwind)]
    pub fn is_up(&self) -> bool {
        locked(&self.deployment).as_ref().is_some_and(RedisDeployment::is_up)
    }

    /// Answers the event that requests a login. `failed` has the reason if there is no login.
    #[napi(catch_unwind)]
    pub fn login(
        &self,
        number: u32,
        username: Option<String>,
        password: Option<String>,
        failed: Option<String>,
    ) {
        let login = failed.map_or(Ok(Credentials { username, password }), Err);
        self.events.answer(number, login);
    }

    /// Drops the connection. Pending calls fail as closed.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if let Some(reader) = &self.reader {
            reader.stop();
        }
        drop(locked(&self.deployment).take());
    }

    fn send(&self, flush: u32, calls: Flush, timeout_ms: f64) {
        let (results, callback) = (Arc::clone(&self.results), Arc::clone(&self.complete));
        let complete = move |partitions: &[AnsweredCalls<'_>]| {
            let decode = AssertUnwindSafe(|| responses::of_partitions(partitions));
            // JavaScript treats missing answers as a defect of the engine.
            let answers = catch_unwind(decode).unwrap_or_default();
            let all: Option<Vec<_>> = partitions.iter().map(|partition| partition.calls).collect();
            let calls = all.map(|calls| CopiedArray(calls.concat()));
            let FlushResponses { doubles, texts } = answers;
            results.push(FnArgs::from((Some(flush), CopiedArray(doubles), texts, calls)));
            if !listener::is_reading() {
                // The call fails only if the isolate has ended.
                callback.call((), ThreadsafeFunctionCallMode::NonBlocking);
            }
        };
        if let Some(reader) = &self.reader {
            reader.start();
        }
        match &*locked(&self.deployment) {
            Some(deployment) => {
                deployment.decide(calls, || SystemClock.now(), deadline(timeout_ms), complete);
            }
            None => {
                let answers = vec![Err(redis::ScriptFailure::Closed); calls.script_calls().len()];
                complete(&[AnsweredCalls { flush: &calls, answers: &answers, calls: None }]);
            }
        }
    }
}

fn text_of(value: &ReplyValue) -> Option<String> {
    match value {
        ReplyValue::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        ReplyValue::Number(_) => None,
    }
}

fn deadline(timeout_ms: f64) -> Instant {
    Instant::now() + Duration::from_millis(whole(timeout_ms))
}
