//! A flush on its way to a server, or a part of it on its way to a node of a cluster.

use std::mem;
use std::sync::Arc;

use tokio::time::Instant;

use super::server_time::ServerTime;
use crate::redis::batch::flush::Flush;
use crate::redis::batch::partition::FlushPartition;
use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
use crate::time::Micros;

/// A flush is out of date if it was prepared for a time that differs by this much from the
/// server's. Every window is longer.
const REFRESH_THRESHOLD: Micros = 100_000;

/// Some calls of a flush, with the answers that decide them.
#[derive(Debug)]
pub struct AnsweredCalls<'a> {
    /// The calls.
    pub flush: &'a Flush,
    /// The answers to all script calls of [`flush`](Self::flush).
    pub answers: &'a [ScriptResult],
    /// The indices of the calls in the original flush, from 0; `None` if these are all its calls.
    pub calls: Option<&'a [u32]>,
}

/// The caller of a flush. The parts of the flush share it.
trait FlushCaller: Send + Sync {
    fn now(&self) -> Micros;
    fn receive(&self, parts: &[AnsweredCalls<'_>]);
}

impl<C, R> FlushCaller for (C, R)
where
    C: Fn() -> Micros + Send + Sync,
    R: Fn(&[AnsweredCalls<'_>]) + Send + Sync,
{
    fn now(&self) -> Micros {
        self.0()
    }

    fn receive(&self, parts: &[AnsweredCalls<'_>]) {
        self.1(parts);
    }
}

/// A flush, or a part of it, until its caller has received all answers. If it is dropped before,
/// its calls without an answer fail as closed.
pub(crate) struct FlushRequest {
    pub(crate) flush: Flush,
    /// The indices of the calls in the caller's flush; `None` if these are all its calls.
    calls: Option<Vec<u32>>,
    pub(crate) answers: Vec<ScriptResult>,
    /// The estimated server time for which the script calls were prepared.
    prepared_for: Micros,
    pub(crate) deadline: Instant,
    caller: Arc<dyn FlushCaller>,
    pub(crate) is_reported: bool,
}

impl FlushRequest {
    pub(crate) fn new(
        flush: Flush,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        on_answers: impl Fn(&[AnsweredCalls<'_>]) + Send + Sync + 'static,
    ) -> Self {
        Self::with_caller(flush, None, deadline, Arc::new((clock, on_answers)))
    }

    fn with_caller(
        flush: Flush,
        calls: Option<Vec<u32>>,
        deadline: Instant,
        caller: Arc<dyn FlushCaller>,
    ) -> Self {
        let (answers, prepared_for, is_reported) = (Vec::new(), 0, false);
        Self { flush, calls, answers, prepared_for, deadline, caller, is_reported }
    }

    /// Takes the flush out, to replace this request by [parts](Self::part).
    pub(crate) fn take_flush(&mut self) -> Flush {
        self.is_reported = true;
        mem::take(&mut self.flush)
    }

    pub(crate) fn part(&self, FlushPartition { flush, calls, .. }: FlushPartition) -> Self {
        let calls = match &self.calls {
            Some(all) => calls.into_iter().map(|call| all[call as usize]).collect(),
            None => calls,
        };
        Self::with_caller(flush, Some(calls), self.deadline, Arc::clone(&self.caller))
    }

    /// The script calls to send to a server with this time.
    pub(crate) fn script_calls(&mut self, server_time: &ServerTime) -> Vec<ScriptCall> {
        // Stale calls have received the server's time with their answer.
        if self.answers.is_empty() {
            self.prepared_for = server_time.at(self.caller.now());
            self.flush.set_time(self.prepared_for);
        }
        self.flush.script_calls()
    }

    /// Whether the script calls must be prepared again before they are sent for the first time.
    /// Otherwise calls that were prepared before the server's time was known would be stale, and
    /// calls that were prepared right after that would overtake them.
    pub(crate) fn is_out_of_date(&self, server_time: &ServerTime) -> bool {
        let difference = || server_time.at(self.caller.now()).abs_diff(self.prepared_for);
        self.flush.is_timed() && difference() >= REFRESH_THRESHOLD
    }

    /// Whether there are stale calls. They must be sent again, with the server's time.
    pub(crate) fn retry_stale(&mut self, server_time: &ServerTime) -> bool {
        let now = self.flush.retry_stale(&self.answers);
        if let Some(now) = now {
            server_time.learn(now, self.caller.now());
        }
        now.is_some()
    }

    /// Fills in the missing answers with a failure.
    pub(crate) fn fail(&mut self, failure: &ScriptFailure) {
        self.answers.resize_with(self.flush.script_calls.len(), || Err(failure.clone()));
    }

    /// Reports the calls, all of which have answers. In a cluster, the request may be under way.
    pub(crate) fn report(&mut self) {
        self.is_reported = true;
        self.caller.receive(&[self.as_answered()]);
    }

    /// Reports several requests: those of one flush together.
    pub(crate) fn report_all(mut completed: Vec<Self>) {
        // When a cluster goes down, there may be thousands of requests, of a hundred flushes.
        // Sorting puts those of one flush next to each other.
        completed.sort_by_key(|request| (request.deadline, Arc::as_ptr(&request.caller).addr()));
        for own in completed.chunk_by_mut(|one, other| Arc::ptr_eq(&one.caller, &other.caller)) {
            own.iter_mut().for_each(|request| request.is_reported = true);
            own[0].caller.receive(&own.iter().map(Self::as_answered).collect::<Vec<_>>());
        }
    }

    fn as_answered(&self) -> AnsweredCalls<'_> {
        AnsweredCalls { flush: &self.flush, answers: &self.answers, calls: self.calls.as_deref() }
    }
}

impl Drop for FlushRequest {
    fn drop(&mut self) {
        if !self.is_reported {
            self.fail(&ScriptFailure::Closed);
            self.report();
        }
    }
}
