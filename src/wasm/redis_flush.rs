//! Calls that are sent together, and their results.

#![allow(clippy::needless_pass_by_value, reason = "wasm-bindgen hands strings over by value")]

use wasm_bindgen::prelude::wasm_bindgen;

use super::whole;
use crate::abi::responses::FlushResponses;
use crate::redis::text::{text_of, values_of};
use crate::redis::{Flush, ScriptCall, ScriptFailure, ScriptResult};
use crate::wasm::redis_store::WasmRedisLimiter;

/// A flush. JavaScript sends its script calls one after the other and passes the replies back.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct WasmFlush {
    flush: Flush,
    /// The script calls of the current attempt.
    script_calls: Vec<ScriptCall>,
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
        let (policies, batch) = limiter.take_calls();
        self.flush.push(policies, batch);
    }

    /// Adds a peek of `cost` units from the keys in the scratch buffer. Returns 0 or a failure's
    /// code.
    #[wasm_bindgen(js_name = pushPeek)]
    pub fn push_peek(&mut self, limiter: &WasmRedisLimiter, tag: Option<String>, cost: f64) -> f64 {
        match limiter.peeking(tag.as_deref(), whole(cost)) {
            Ok((policies, batch)) => self.flush.push(policies, batch),
            Err(failure) => return failure.code(),
        }
        0.0
    }

    /// Builds the script calls for the server's estimated time, in epoch microseconds. Returns
    /// their number.
    pub fn start(&mut self, epoch_us: f64) -> usize {
        let mut flush = std::mem::take(&mut self.flush);
        flush.set_time(whole(epoch_us));
        self.flush = flush.deduplicate();
        self.script_calls = self.flush.script_calls();
        self.script_calls.len()
    }

    /// The names of a script call's keys.
    pub fn keys(&self, index: usize) -> Vec<String> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        self.script_calls[index].keys.iter().map(text).collect()
    }

    /// A script call's arguments.
    pub fn arguments(&self, index: usize) -> Vec<String> {
        self.script_calls[index].arguments.iter().map(|argument| text_of(argument)).collect()
    }

    /// Adds the reply to the next script call. If it is invalid, each of the calls is malformed.
    pub fn answer(&mut self, reply: &str) {
        self.results.push(Ok(values_of(reply).unwrap_or_default()));
    }

    /// Adds the failure of the next script call. `ts/wasm/redis/retry-method.ts` has the same
    /// numbers.
    pub fn fail(&mut self, kind: u32, why: &str) {
        self.results.push(Err(match kind {
            0 => ScriptFailure::Unavailable(why.into()),
            1 => ScriptFailure::Broken(why.into()),
            2 => ScriptFailure::TimedOut,
            _ => ScriptFailure::Refused(why.into()),
        }));
    }

    /// Prepares script calls that retry stale calls. Returns the server's time in epoch
    /// microseconds, or -1 if there is nothing to retry.
    #[expect(clippy::cast_precision_loss, reason = "the engine's times are below 2^53")]
    #[wasm_bindgen(js_name = retryStale)]
    pub fn retry_stale(&mut self) -> f64 {
        let Some(now) = self.flush.retry_stale(&self.results) else { return -1.0 };
        self.script_calls = self.flush.script_calls();
        now as f64
    }

    /// The number of script calls of the current attempt.
    #[wasm_bindgen(js_name = scriptCallCount)]
    pub fn script_call_count(&self) -> usize {
        self.script_calls.len()
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
