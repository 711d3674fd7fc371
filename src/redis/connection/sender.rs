//! Sends requests in the order of their arrival, and completes each by its deadline.
//!
//! One task sends all requests, so the order is that task's order. A request is sent as one
//! pipeline. Script calls that surely have not run are sent again: the sender stops sending new
//! requests, waits until every request in flight is answered, and then sends the retries in their
//! order.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use redis::{Cmd, Value as Reply};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::redis::batch::pending_calls::PendingCalls;
use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
use crate::redis::connection::connector::{MAX_IN_FLIGHT, SessionHandle};
use crate::redis::connection::request_handler::RequestHandler;
use crate::redis::connection::script_reply::script_reply;
use crate::redis::connection::state::StateSubscriber;

/// The pause before a retry of script calls that the server could not run.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The time that it takes to read an answer that is in the socket already.
const READ_GRACE: Duration = Duration::from_millis(1);

/// Script calls that are sent as one pipeline.
#[derive(Debug)]
pub(crate) struct PipelineRequest {
    pub(crate) script_calls: Vec<ScriptCall>,
    pub(crate) deadline: Instant,
    pub(crate) completion: Completion,
}

/// Passes the answers to the request's handler, one for each script call. If it is dropped before
/// that, every answer is [`ScriptFailure::Closed`].
pub(crate) struct Completion {
    /// The number of script calls.
    expected: usize,
    handler: Option<Box<dyn RequestHandler>>,
}

impl Completion {
    pub(crate) fn new(expected: usize, handler: impl RequestHandler + 'static) -> Self {
        Self { expected, handler: Some(Box::new(handler)) }
    }

    /// Passes the answers to the handler, and returns the script calls to send next.
    fn resolve(&mut self, answers: Vec<ScriptResult>) -> Vec<ScriptCall> {
        let Some(mut handler) = self.handler.take() else { return Vec::new() };
        let next = handler.on_answers(answers);
        if !next.is_empty() {
            (self.expected, self.handler) = (next.len(), Some(handler));
        }
        next
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.resolve(vec![Err(ScriptFailure::Closed); self.expected]);
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("expected", &self.expected).finish_non_exhaustive()
    }
}

/// A request that has unanswered script calls.
struct PendingRequest {
    calls: PendingCalls,
    deadline: Instant,
    completion: Completion,
}

impl PendingRequest {
    fn new(PipelineRequest { script_calls, deadline, completion }: PipelineRequest) -> Self {
        Self { calls: PendingCalls::new(script_calls), deadline, completion }
    }

    /// Refreshes the request before it is sent for the first time.
    fn refreshed(mut self) -> Self {
        let handler = self.completion.handler.as_mut();
        if let Some(calls) = handler.and_then(|handler| handler.refresh()) {
            self.calls.refresh(calls);
        }
        self
    }

    /// Fails all script calls without an answer, and completes the request.
    fn fail(mut self, failure: &ScriptFailure) -> Option<Self> {
        self.calls.fail(failure);
        self.complete()
    }

    /// Completes the request if all script calls are answered. Returns it if some of them must be
    /// sent again, or if its handler returns new script calls.
    fn complete(mut self) -> Option<Self> {
        if !self.calls.is_answered() {
            return Some(self);
        }
        let next = self.completion.resolve(std::mem::take(&mut self.calls).into_answers());
        if next.is_empty() {
            return None;
        }
        self.calls = PendingCalls::new(next);
        if Instant::now() < self.deadline {
            return Some(self);
        }
        self.fail(&retry_timeout())
    }

    /// The commands of the unanswered script calls.
    fn commands(&self) -> redis::Pipeline {
        let mut pipeline = redis::pipe();
        for index in self.calls.unanswered() {
            pipeline.add_command(command(self.calls.call(index), self.calls.sends_source(index)));
        }
        pipeline
    }
}

/// The command of a script call, with the script's source or its digest.
pub(crate) fn command(call: &ScriptCall, sends_source: bool) -> Cmd {
    let mut command = match sends_source {
        true => redis::cmd("EVAL").arg(call.script.source()).take(),
        false => redis::cmd("EVALSHA").arg(call.script.sha1()).take(),
    };
    command.arg(call.keys.len());
    for word in call.keys.iter().chain(call.arguments.iter().map(Vec::as_slice)) {
        command.arg(word);
    }
    command
}

/// A request that was sent, the id of its session, and the replies.
struct RequestOutcome {
    pending: PendingRequest,
    session_id: u64,
    replies: Result<Vec<Reply>, TransportError>,
}

/// The reason why a request has no replies.
enum TransportError {
    /// There was no answer by the deadline. Contains the time of sending.
    TimedOut(Instant),
    Broken(Arc<str>),
}

async fn send(pending: PendingRequest, session: SessionHandle, session_id: u64) -> RequestOutcome {
    let sent_at = Instant::now();
    let commands = pending.commands();
    let mut connection = session.connection.clone();
    let sending = connection.send_packed_commands(&commands, 0, commands.len());
    tokio::pin!(sending);
    let mut sent = timeout_at(pending.deadline, &mut sending).await;
    if sent.is_err() {
        // The answer may be in the socket: the event loop may have been too busy to read it.
        session.read_available();
        sent = timeout(READ_GRACE, sending).await;
    }
    let replies = match sent {
        Ok(Ok(replies)) => Ok(replies),
        Ok(Err(error)) => Err(TransportError::Broken(session.reason(&error))),
        Err(_) => Err(TransportError::TimedOut(sent_at)),
    };
    RequestOutcome { pending, session_id, replies }
}

/// Sends requests until the connection is dropped.
pub(crate) async fn run(
    mut requests: mpsc::UnboundedReceiver<PipelineRequest>,
    mut state: StateSubscriber,
) {
    // Unconstrained: a task's budget of 128 operations could stop the first poll of a future, so
    // that the request after it would be sent first.
    let mut in_flight = FuturesOrdered::new();
    let mut next: Option<PendingRequest> = None;
    let mut retries: VecDeque<PendingRequest> = VecDeque::new();
    loop {
        if in_flight.is_empty() && !retries.is_empty() {
            if retries.iter().any(|pending| pending.calls.is_paused()) {
                let deadlines = retries.iter().map(|pending| pending.deadline);
                sleep_until(deadlines.fold(Instant::now() + RETRY_PAUSE, Instant::min)).await;
                retries = fail_expired(retries);
            }
            let mut is_source_sent = false;
            for mut pending in std::mem::take(&mut retries) {
                match state.wait_until_up(pending.deadline).await {
                    Ok(_) if Instant::now() >= pending.deadline => {
                        retries.extend(pending.fail(&retry_timeout()));
                    }
                    Ok((session, id)) => {
                        pending.calls.send_source_once(&mut is_source_sent);
                        in_flight.push_back(unconstrained(send(pending, session, id)));
                    }
                    Err(failure) => retries.extend(pending.fail(&failure)),
                }
            }
        }
        let may_start = retries.is_empty() && in_flight.len() < MAX_IN_FLIGHT;
        let deadline = next.as_ref().map_or_else(Instant::now, |pending| pending.deadline);
        let retry_deadline = retries.iter().map(|pending| pending.deadline).min();
        tokio::select! {
            biased;
            Some(outcome) = in_flight.next(), if !in_flight.is_empty() => {
                retries.extend(process(outcome, &mut state));
            }
            request = requests.recv(), if next.is_none() => match request {
                Some(request) => {
                    state.on_call(request.script_calls.iter().find_map(|call| call.keys.iter().next()));
                    next = Some(PendingRequest::new(request));
                }
                None => return,
            },
            found = next_session(&mut state, deadline, may_start), if next.is_some() => {
                let Some(pending) = next.take() else { continue };
                match found {
                    Ok(_) if Instant::now() >= deadline => {
                        retries.extend(pending.fail(&queue_timeout()));
                    }
                    Ok((session, id)) => {
                        in_flight.push_back(unconstrained(send(pending.refreshed(), session, id)));
                    }
                    Err(failure) => retries.extend(pending.fail(&failure)),
                }
            }
            // The requests in flight may have later deadlines than those that wait for them.
            () = sleep_until(retry_deadline.unwrap_or(deadline)), if retry_deadline.is_some() => {
                retries = fail_expired(retries);
            }
        }
    }
}

/// Fails the requests whose deadline has passed before they could be sent again.
fn fail_expired(retries: VecDeque<PendingRequest>) -> VecDeque<PendingRequest> {
    let now = Instant::now();
    let fail = |pending: PendingRequest| match now < pending.deadline {
        true => Some(pending),
        false => pending.fail(&retry_timeout()),
    };
    retries.into_iter().filter_map(fail).collect()
}

/// Waits for the session of the next request. While the request may not start, this waits until
/// its deadline, or until the connection is down.
async fn next_session(
    state: &mut StateSubscriber,
    deadline: Instant,
    may_start: bool,
) -> Result<(SessionHandle, u64), ScriptFailure> {
    if may_start {
        return state.wait_until_up(deadline).await;
    }
    Err(state.wait_until_down(deadline).await.unwrap_or_else(queue_timeout))
}

/// The failure of a request that was queued until its deadline.
fn queue_timeout() -> ScriptFailure {
    ScriptFailure::Unavailable("too many requests were in flight".into())
}

/// The failure of script calls that have not run and could not be sent again before the deadline.
fn retry_timeout() -> ScriptFailure {
    ScriptFailure::Unavailable("there was no time left to send it again".into())
}

/// Processes the replies, and returns the request if it must be sent again.
fn process(outcome: RequestOutcome, state: &mut StateSubscriber) -> Option<PendingRequest> {
    let RequestOutcome { mut pending, session_id, replies } = outcome;
    let replies = match replies {
        Ok(replies) => {
            state.on_answer();
            replies
        }
        Err(TransportError::TimedOut(sent_at)) => {
            state.report_unanswered(session_id, sent_at);
            return pending.fail(&ScriptFailure::TimedOut);
        }
        Err(TransportError::Broken(why)) => {
            state.report_broken(session_id);
            return pending.fail(&ScriptFailure::Broken(why));
        }
    };
    for (index, reply) in pending.calls.unanswered().into_iter().zip(replies) {
        match script_reply(reply) {
            Ok(values) => pending.calls.on_answer(index, Ok(values)),
            Err(error) => pending.calls.on_error(index, &error),
        }
    }
    if pending.calls.is_paused() {
        state.request_health_check();
    }
    if Instant::now() + RETRY_PAUSE >= pending.deadline {
        pending.calls.fail_paused();
    }
    pending.complete()
}
