//! Calls that are sent together, and their results.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::FailureCode;
use super::{builder, whole};
use crate::abi::responses::FlushResponses;
use crate::policy::operation::Operation;
use crate::protocol::operation;
use crate::redis::text::{text_of, values_of};
use crate::redis::{ErrorMeaning, Flush, PendingCalls, ScriptFailure, ScriptResult};
use crate::wasm::redis_store::WasmRedisLimiter;
use crate::wasm::scratch::with_scratch;

/// The prefixes that clients put before a server's error.
const ERROR_PREFIXES: [&str; 2] = ["Command failed: ", "ReplyError: "];

/// The codes of failed attempts to connect: nothing was sent.
const NOT_SENT: [&str; 3] = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"];

/// A flush. JavaScript sends its unanswered script calls and passes the replies back.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct WasmFlush {
    flush: Flush,
    /// The script calls of the current attempt.
    pending: PendingCalls,
    /// The results of the script calls of all attempts.
    results: Vec<ScriptResult>,
    answers: FlushResponses,
}

#[wasm_bindgen]
impl WasmFlush {
    /// A flush without calls. If it `peeks`, its calls change nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(peeks: bool) -> Self {
        let flush = if peeks { Flush::peeking() } else { Flush::default() };
        Self { flush, ..Self::default() }
    }

    /// Adds the enqueued calls of a limiter.
    pub fn push(&mut self, limiter: &WasmRedisLimiter) {
        limiter.move_calls(&mut self.flush);
    }

    /// Adds a peek of `cost` units from the keys in the scratch buffer. Returns 0 or a failure's
    /// code.
    #[wasm_bindgen(js_name = pushPeek)]
    pub fn push_peek(&mut self, limiter: &WasmRedisLimiter, tag: Option<String>, cost: f64) -> f64 {
        let peek = Operation::Peek { cost: whole(cost).into() };
        let pushed = limiter.push_peek(&mut self.flush, tag.as_deref(), peek);
        pushed.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// Adds a peek of units by policy from the keys in the scratch buffer, which also has the `count`
    /// numbers of `numbersOf` in `ts/backends/operation.ts`. Returns 0 or a failure's code.
    #[wasm_bindgen(js_name = pushMeteredPeek)]
    pub fn push_metered_peek(
        &mut self,
        limiter: &WasmRedisLimiter,
        tag: Option<String>,
        count: usize,
    ) -> f64 {
        let code = operation::PEEK + operation::METERED;
        let peek = with_scratch(|scratch| builder::read_operation(scratch, code, count));
        let pushed = peek
            .ok_or(FailureCode::Panicked)
            .and_then(|peek| limiter.push_peek(&mut self.flush, tag.as_deref(), peek));
        pushed.map_or_else(FailureCode::code, |()| 0.0)
    }

    /// The number of its calls.
    #[wasm_bindgen(js_name = callCount)]
    pub fn call_count(&self) -> usize {
        self.flush.len()
    }

    /// Appends the calls of a later flush, if one script call can have them all. Neither flush has
    /// been sent; this one must be [started](Self::start) again. Returns whether it did.
    pub fn append(&mut self, later: &mut Self) -> bool {
        self.flush.append(&mut later.flush)
    }

    /// Builds the script calls for the server's estimated time, in epoch microseconds.
    pub fn start(&mut self, epoch_us: f64, has_one_key_per_script: bool) {
        let mut flush = std::mem::take(&mut self.flush);
        flush.set_time(whole(epoch_us));
        self.flush = if has_one_key_per_script { flush.by_key() } else { flush.deduplicate() };
        self.pending = PendingCalls::new(self.flush.script_calls());
    }

    /// The indexes of the script calls that have no answer.
    pub fn unanswered(&self) -> Vec<u32> {
        self.pending.unanswered().into_iter().filter_map(|index| index.try_into().ok()).collect()
    }

    /// Whether a script call must be sent as the script's source, not as its digest.
    #[wasm_bindgen(js_name = sendsSource)]
    pub fn sends_source(&self, index: usize) -> bool {
        self.pending.sends_source(index)
    }

    /// The names of a script call's keys.
    pub fn keys(&self, index: usize) -> Vec<String> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        self.pending.call(index).keys.iter().map(text).collect()
    }

    /// A script call's arguments.
    pub fn arguments(&self, index: usize) -> Vec<String> {
        self.pending.call(index).arguments.iter().map(|argument| text_of(argument)).collect()
    }

    /// Handles the reply to a script call. If it is invalid, each of the calls is malformed.
    #[wasm_bindgen(js_name = onReply)]
    pub fn on_reply(&mut self, index: usize, reply: &str) {
        self.pending.on_answer(index, Ok(values_of(reply).unwrap_or_default()));
    }

    /// Handles a client's error: its message, and the code of a failed system call. Only an error
    /// that is certainly the server's own, or that nothing was sent, means that the script has not
    /// run.
    #[wasm_bindgen(js_name = onError)]
    pub fn on_error(&mut self, index: usize, message: &str, system_code: &str) {
        let text = ERROR_PREFIXES.iter().find_map(|prefix| message.strip_prefix(prefix));
        let text = text.unwrap_or(message);
        if ErrorMeaning::of(text) != ErrorMeaning::MayHaveRun || text.starts_with("ERR ") {
            self.pending.on_error(index, text);
            return;
        }
        // Other messages of clients may contain a URL with a password.
        let why = if system_code.is_empty() { "the client failed" } else { system_code };
        let failure = match NOT_SENT.contains(&system_code) {
            true => ScriptFailure::Unavailable(why.into()),
            false => ScriptFailure::Broken(why.into()),
        };
        self.pending.on_answer(index, Err(failure));
    }

    /// The deadline has passed while a script call was in flight.
    #[wasm_bindgen(js_name = onTimeout)]
    pub fn on_timeout(&mut self, index: usize) {
        self.pending.on_answer(index, Err(ScriptFailure::TimedOut));
    }

    /// Fails the script calls that have not run: the deadline has passed.
    #[wasm_bindgen(js_name = failUnsent)]
    pub fn fail_unsent(&mut self) {
        self.pending.fail_paused();
        let why = "the deadline passed before it was sent";
        self.pending.fail(&ScriptFailure::Unavailable(why.into()));
    }

    /// Whether all script calls have an answer.
    #[wasm_bindgen(js_name = isAnswered)]
    pub fn is_answered(&self) -> bool {
        self.pending.is_answered()
    }

    /// Whether some script calls must wait before they are sent again.
    #[wasm_bindgen(js_name = isPaused)]
    pub fn is_paused(&self) -> bool {
        self.pending.pause_reason().is_some()
    }

    /// Ends an attempt, and prepares script calls of one key each in the place of those that the
    /// server refused because their keys are in several slots. Returns whether there were any.
    #[wasm_bindgen(js_name = retryCrossSlot)]
    pub fn retry_cross_slot(&mut self) -> bool {
        self.results.extend(std::mem::take(&mut self.pending).into_answers());
        let is_retried = self.flush.retry_cross_slot(&self.results);
        if is_retried {
            self.pending = PendingCalls::new(self.flush.script_calls());
        }
        is_retried
    }

    /// Ends an attempt, and prepares script calls that retry stale calls. Returns the server's time
    /// in epoch microseconds, or -1 if there is nothing to retry.
    #[expect(clippy::cast_precision_loss, reason = "the engine's times are below 2^53")]
    #[wasm_bindgen(js_name = retryStale)]
    pub fn retry_stale(&mut self) -> f64 {
        self.results.extend(std::mem::take(&mut self.pending).into_answers());
        let Some(now) = self.flush.retry_stale(&self.results) else { return -1.0 };
        self.pending = PendingCalls::new(self.flush.script_calls());
        now as f64
    }

    /// Returns the answers to all calls, after all script calls have a result.
    /// `ts/backends/redis/batching/response-decoder.ts` decodes them.
    pub fn complete(&mut self) -> Vec<f64> {
        let Self { flush, results, .. } = self;
        let (mut answers, mut details) = (FlushResponses::with_capacity(flush.len()), Vec::new());
        let mut takes = flush.takes();
        flush.complete(results, |executed| {
            answers.push(executed, takes.next() == Some(true), &mut details);
        });
        drop(takes);
        let mut answers = answers.finish(details);
        let doubles = std::mem::take(&mut answers.doubles);
        self.answers = answers;
        doubles
    }

    /// The texts of failures.
    pub fn texts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.answers.texts)
    }
}
