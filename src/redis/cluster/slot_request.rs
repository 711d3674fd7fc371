//! The calls of a flush on keys of one slot, on their way to a node.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::redis::batch::flush::Flush;
use crate::redis::batch::partition::FlushPartition;
use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
use crate::redis::connection::{Address, ServerTime};
use crate::time::Micros;

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

type OnResults = dyn Fn(&[AnsweredCalls<'_>]) + Send + Sync;

/// The caller's side of a flush, shared by its slot requests.
pub(crate) struct RequestContext {
    pub(crate) clock: Box<dyn Fn() -> Micros + Send + Sync>,
    pub(crate) on_results: Box<OnResults>,
    pub(crate) deadline: Instant,
}

/// Calls on keys of one slot, sent as one script call. If it is dropped before it is completed,
/// its calls fail as closed.
pub(crate) struct SlotRequest {
    pub(crate) slot: u16,
    pub(crate) context: Arc<RequestContext>,
    flush: Flush,
    calls: Vec<u32>,
    /// The answers to earlier script calls, which left some calls stale.
    answers: Vec<ScriptResult>,
    script_call: Option<ScriptCall>,
    /// Whether the node needs the script's source.
    pub(crate) with_source: bool,
    /// Whether the script call must declare its keys, so it shares no command.
    pub(crate) declares_keys: bool,
    /// The node of an ASK redirect, to be used once in the place of the slot's owner.
    pub(crate) ask: Option<Address>,
    /// The number of redirects and aborted transactions since the last pause.
    pub(crate) redirects: u32,
    /// Whether the slot queues track the deadline.
    pub(crate) is_deadline_tracked: bool,
    is_completed: bool,
}

impl fmt::Debug for SlotRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, calls, .. } = self;
        f.debug_struct("SlotRequest")
            .field("slot", slot)
            .field("calls", calls)
            .finish_non_exhaustive()
    }
}

impl SlotRequest {
    pub(crate) fn new(
        FlushPartition { slot, flush, calls }: FlushPartition,
        context: Arc<RequestContext>,
    ) -> Self {
        Self {
            slot,
            context,
            flush,
            calls,
            answers: Vec::new(),
            script_call: None,
            with_source: false,
            declares_keys: false,
            ask: None,
            redirects: 0,
            is_deadline_tracked: false,
            is_completed: false,
        }
    }

    /// A request for a whole flush, which the router must split by slot.
    pub(crate) fn of_flush(flush: Flush, context: Arc<RequestContext>) -> Self {
        let calls = (0..).take(flush.len()).collect();
        Self::new(FlushPartition { slot: 0, flush, calls }, context)
    }

    /// Splits the request by slot. The second value holds the calls whose keys do not share a slot.
    pub(crate) fn by_slot(mut self) -> (Vec<Self>, Option<Self>) {
        self.is_completed = true;
        let split = std::mem::take(&mut self.flush).by_slot();
        let request = |part| Self::new(part, Arc::clone(&self.context));
        (split.partitions.into_iter().map(request).collect(), split.cross_slot.map(request))
    }

    /// Splits the request into its calls, in order. A request of one call is not split, and neither
    /// is one that has some of its answers.
    pub(crate) fn by_call(mut self) -> Vec<Self> {
        if self.calls.len() < 2 || !self.answers.is_empty() {
            return vec![self];
        }
        self.is_completed = true;
        let calls = std::mem::take(&mut self.calls);
        let request = |FlushPartition { slot, flush, calls: own }| {
            let calls = own.into_iter().map(|call: u32| calls[call as usize]).collect();
            Self::new(FlushPartition { slot, flush, calls }, Arc::clone(&self.context))
        };
        std::mem::take(&mut self.flush).by_call(self.slot).into_iter().map(request).collect()
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.context.deadline
    }

    /// The script call to send to a node with this time.
    pub(crate) fn script_call(&mut self, server_time: &ServerTime) -> &ScriptCall {
        let Self { flush, context, answers, script_call, .. } = self;
        script_call.get_or_insert_with(|| {
            // Stale calls have received the node's time with their answer.
            if answers.is_empty() {
                flush.set_time(server_time.at((context.clock)()));
            }
            flush.script_calls().pop().unwrap_or_else(ScriptCall::deciding)
        })
    }

    /// Resets the request before it is sent to another node, or later.
    pub(crate) fn reset(&mut self) {
        self.script_call = None;
        self.with_source = false;
        self.ask = None;
    }

    /// Adds an answer, and returns whether the request is complete. If not, it must be sent again.
    pub(crate) fn on_answer(&mut self, answer: ScriptResult, server_time: &ServerTime) -> bool {
        self.answers.push(answer);
        let Some(now) = self.flush.retry_stale(&self.answers) else { return true };
        server_time.learn(now, (self.context.clock)());
        self.reset();
        false
    }

    /// Reports the calls as failed, while the request is still under way.
    pub(crate) fn report_failure(&mut self, failure: &ScriptFailure) {
        self.fail(failure);
        self.is_completed = true;
        (self.context.on_results)(&[self.as_answered()]);
    }

    /// Whether the calls have been reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_completed
    }

    fn as_answered(&self) -> AnsweredCalls<'_> {
        AnsweredCalls { flush: &self.flush, answers: &self.answers, calls: Some(&self.calls) }
    }

    /// Fills in the missing answers with a failure.
    pub(crate) fn fail(&mut self, failure: &ScriptFailure) {
        let missing = self.flush.script_call_count().saturating_sub(self.answers.len());
        self.answers.extend(std::iter::repeat_n(Err(failure.clone()), missing));
    }
}

impl Drop for SlotRequest {
    fn drop(&mut self) {
        if !self.is_completed {
            self.is_completed = true;
            self.fail(&ScriptFailure::Closed);
            (self.context.on_results)(&[self.as_answered()]);
        }
    }
}

/// Reports completed requests to their callers: those of one flush together.
pub(crate) fn report(mut completed: Vec<SlotRequest>) {
    // When a cluster goes down, there may be thousands of requests, of a hundred flushes. Sorting
    // puts those of one flush next to each other.
    let flush = |request: &SlotRequest| (request.deadline(), Arc::as_ptr(&request.context).addr());
    completed.sort_by_key(flush);
    for own in completed.chunk_by_mut(|one, other| Arc::ptr_eq(&one.context, &other.context)) {
        own.iter_mut().for_each(|request| request.is_completed = true);
        let on_results = &own[0].context.on_results;
        on_results(&own.iter().map(SlotRequest::as_answered).collect::<Vec<_>>());
    }
}
