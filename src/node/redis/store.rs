//! The store in Redis: calls are noted one by one, and go and come back in rounds.

#![allow(unsafe_code, reason = "napi's C interface")]
#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Function, Result, create_custom_tokio_runtime,
};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::{module_init, napi};
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;

use crate::clock::{Clock, SystemClock};
use crate::node::policy_set::Policies;
use crate::node::redis::events::{NoticeArguments, Notices};
use crate::node::redis::limiter::{RedisLedger, locked};
use crate::node::redis::listener::{self, Listener};
use crate::node::redis::responses::{self, Heard, SettleArguments};
use crate::node::redis::target::RedisTarget;
use crate::node::whole;
use crate::prefixes::Prefixes;
use crate::redis::{self, AnsweredCalls, Credentials, Remote, Round, Value};

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

/// The runtime that serves all connections.
pub(crate) fn runtime() -> Result<Handle> {
    let none = || Error::new(Status::GenericFailure, "could not start a thread");
    RUNTIME.get().cloned().ok_or_else(none)
}

/// A Redis server, or a cluster, as a store.
#[napi]
pub struct RedisStore {
    remote: Arc<Mutex<Option<Remote>>>,
    listener: Option<Rc<Listener>>,
    tags: Option<NonZeroU16>,
    settle: Arc<Settle>,
    notices: Notices,
    prefixes: Arc<Mutex<Prefixes>>,
}

/// Tells JavaScript what became of rounds. It does not keep the process alive: callers who wait do.
type Settle = ThreadsafeFunction<Heard, (), SettleArguments, Status, false, true>;

#[napi]
impl RedisStore {
    /// Connects in the background. `settle` hears what became of what is submitted, of all calls of a round or of
    /// those that are numbered; `notice` hears `'up'` (the
    /// address, the version), `'down'` (why), `'evicting'` (the policy), `'policies'`
    /// (see `note_policies`) and `'login'` (a number: see `login`).
    /// `listens` says that the event loop is Node's own: then answers are read in it. Throws if the certificates are
    /// none.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        target: RedisTarget,
        #[napi(
            ts_arg_type = "(round: number, answers: Float64Array, texts: string[], calls: Uint32Array | null | undefined) => void"
        )]
        settle: Function<'_, SettleArguments, ()>,
        #[napi(ts_arg_type = "(kind: string, words: string[]) => void")] notice: Function<
            '_,
            NoticeArguments,
            (),
        >,
        listens: bool,
    ) -> Result<Self> {
        let runtime = &runtime()?;
        let remote = Arc::default();
        let listener = listens.then(|| Listener::new(env, &settle, Arc::clone(&remote)));
        let listener = listener.transpose()?;
        let settle = settle.build_threadsafe_function::<Heard>().weak::<true>();
        let settle = settle.build_callback(|context| Ok(context.value.into_arguments()))?;
        let notices = Notices::new(&notice)?;
        let (tags, warn) = (target.tags(), notices.clone());
        let opened = target.open(notices.clone(), runtime, move |found| warn.warn(found))?;
        runtime.spawn(notices.clone().follow(opened.health()));
        *locked(&remote) = Some(opened);
        Ok(Self {
            remote,
            listener,
            tags,
            settle: Arc::new(settle),
            notices,
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
        Ok(RedisLedger::new(prefix, policies, self.tags, Arc::clone(&self.prefixes)))
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
            let (policies, batch) = ledger.take_noted();
            calls.push(policies, batch);
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
        match ledger.peeking(env, &keys, tag.as_deref(), whole(cost)) {
            Ok(calls) => self.send(round, calls, timeout_ms),
            Err(failure) => return failure.code(),
        }
        0.0
    }

    /// Has the text of a prefix's policies noted in Redis, for so many milliseconds, and gives notice of all that are
    /// (`'policies'`: the prefix, the texts). There is no notice if it fails.
    #[napi(catch_unwind)]
    pub fn note_policies(&self, prefix: String, text: String, lasting_ms: f64, timeout_ms: f64) {
        let notices = self.notices.clone();
        let round = Round::noting(&prefix, &text, whole(lasting_ms));
        let hear = move |parts: &[AnsweredCalls<'_>]| {
            let answers = parts.iter().flat_map(|part| part.answers);
            for texts in answers.filter_map(|answer| answer.as_ref().ok()) {
                notices.noted(prefix.clone(), texts.iter().filter_map(text_of).collect());
            }
        };
        if let Some(remote) = &*locked(&self.remote) {
            remote.decide(round, || SystemClock.now(), deadline(timeout_ms), hear);
        }
    }

    /// Whether there is a connection, as far as is known.
    #[napi(getter, catch_unwind)]
    pub fn is_up(&self) -> bool {
        locked(&self.remote).as_ref().is_some_and(Remote::is_up)
    }

    /// Answers the notice that asks for a login; without a password `failed` says why there is none.
    #[napi(catch_unwind)]
    pub fn login(
        &self,
        number: u32,
        username: Option<String>,
        password: Option<String>,
        failed: Option<String>,
    ) {
        let login = failed.map_or(Ok(Credentials { username, password }), Err);
        self.notices.answer(number, login);
    }

    /// Drops the connection; what waits settles as closed.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        if let Some(listener) = &self.listener {
            listener.stop();
        }
        drop(locked(&self.remote).take());
    }

    fn send(&self, round: u32, calls: Round, timeout_ms: f64) {
        let settle = Arc::clone(&self.settle);
        let settle = move |parts: &[AnsweredCalls<'_>]| {
            let read = AssertUnwindSafe(|| responses::of_parts(parts));
            // No answers at all say that the engine has a defect.
            let answers = catch_unwind(read).unwrap_or_default();
            let all: Option<Vec<_>> = parts.iter().map(|part| part.calls).collect();
            let calls = all.map(|calls| calls.concat());
            // If it does not take them, its isolate has ended, and nobody waits.
            if let Some(heard) = listener::keep(Heard { round, answers, calls }) {
                settle.call(heard, ThreadsafeFunctionCallMode::NonBlocking);
            }
        };
        if let Some(listener) = &self.listener {
            listener.listen();
        }
        match &*locked(&self.remote) {
            Some(remote) => {
                remote.decide(calls, || SystemClock.now(), deadline(timeout_ms), settle);
            }
            None => {
                let answers = vec![Err(redis::Failure::Closed); calls.jobs().len()];
                settle(&[AnsweredCalls { flush: &calls, answers: &answers, calls: None }]);
            }
        }
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::Number(_) => None,
    }
}

fn deadline(timeout_ms: f64) -> Instant {
    Instant::now() + Duration::from_millis(whole(timeout_ms))
}
