//! Sends requests in the order of their arrival, and completes each by its deadline.
//!
//! One task sends all requests, so the order is that task's order. A request is sent as one
//! pipeline. Script calls that surely have not run are sent again: the sender stops sending new
//! requests, waits until every request in flight is answered, and then sends the retries in their
//! order.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use redis::{Cmd, Value as Reply};
use tokio::sync::mpsc;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::redis::batch::pending_calls::PendingCalls;
use crate::redis::batch::script_call::{ScriptCall, ScriptFailure};
use crate::redis::connection::connector::{MAX_IN_FLIGHT, SessionHandle};
use crate::redis::connection::flush_request::FlushRequest;
use crate::redis::connection::script_reply::script_reply;
use crate::redis::connection::server_time::ServerTime;
use crate::redis::connection::state::{StateSubscriber, queue_timeout};

/// The pause before a retry of script calls that the server could not run.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The time that it takes to read an answer that is in the socket already.
const READ_GRACE: Duration = Duration::from_millis(1);

/// The properties of a server that its connection has found out.
#[derive(Debug, Default)]
pub(crate) struct ServerTraits {
    pub(crate) time: ServerTime,
    /// Whether a script call may have one key only: see [`Flush::by_key`].
    pub(crate) has_one_key_per_script: AtomicBool,
}

/// A flush with unanswered script calls, which are sent as one pipeline.
pub(crate) struct PendingRequest {
    calls: PendingCalls,
    request: FlushRequest,
    server: Arc<ServerTraits>,
}

impl PendingRequest {
    /// Prepares the script calls of an unsent flush. Without a script call, the flush is complete.
    pub(crate) fn new(mut request: FlushRequest, server: &Arc<ServerTraits>) -> Option<Self> {
        let has_one_key = server.has_one_key_per_script.load(Ordering::Relaxed);
        let flush = mem::take(&mut request.flush);
        request.flush = if has_one_key { flush.by_key() } else { flush.deduplicate() };
        let calls = PendingCalls::new(request.script_calls(&server.time));
        (!calls.is_answered()).then(|| Self { calls, request, server: Arc::clone(server) })
    }

    fn refreshed(mut self) -> Self {
        if self.request.is_out_of_date(&self.server.time) {
            self.calls = PendingCalls::new(self.request.script_calls(&self.server.time));
        }
        self
    }

    /// Fails all script calls without an answer, and completes the request.
    fn fail(mut self, failure: &ScriptFailure) -> Option<Self> {
        self.calls.fail(failure);
        self.complete()
    }

    /// Completes the request if all script calls are answered. Returns it if some of its calls must
    /// be sent again. Keys of several slots that the server does not take together are sent again
    /// by key.
    fn complete(mut self) -> Option<Self> {
        if !self.calls.is_answered() {
            return Some(self);
        }
        let Self { calls, request, server } = &mut self;
        request.answers.extend(mem::take(calls).into_answers());
        if request.flush.retry_cross_slot(&request.answers) {
            server.has_one_key_per_script.store(true, Ordering::Relaxed);
            *calls = PendingCalls::new(request.flush.script_calls());
        }
        if calls.is_answered() && request.retry_stale(&server.time) {
            *calls = PendingCalls::new(request.flush.script_calls());
        }
        if calls.is_answered() {
            request.report();
            return None;
        }
        if Instant::now() < request.deadline {
            return Some(self);
        }
        self.fail(&retry_timeout())
    }

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

/// A request that was sent, the time, the id of its session, and the replies.
struct RequestOutcome {
    pending: PendingRequest,
    sent_at: Instant,
    session_id: u64,
    replies: Result<Vec<Reply>, ScriptFailure>,
}

async fn send(pending: PendingRequest, session: SessionHandle, session_id: u64) -> RequestOutcome {
    let sent_at = Instant::now();
    let commands = pending.commands();
    let mut connection = session.connection.clone();
    let sending = connection.send_packed_commands(&commands, 0, commands.len());
    tokio::pin!(sending);
    let mut sent = timeout_at(pending.request.deadline, &mut sending).await;
    if sent.is_err() {
        // The answer may be in the socket: the event loop may have been too busy to read it.
        session.read_available();
        sent = timeout(READ_GRACE, sending).await;
    }
    let replies = match sent {
        Ok(Ok(replies)) => Ok(replies),
        Ok(Err(error)) => Err(ScriptFailure::Broken(session.reason(&error))),
        Err(_) => Err(ScriptFailure::TimedOut),
    };
    RequestOutcome { pending, sent_at, session_id, replies }
}

pub(crate) async fn run(
    mut requests: mpsc::UnboundedReceiver<PendingRequest>,
    mut state: StateSubscriber,
) {
    // Unconstrained: a task's budget of 128 operations could stop the first poll of a future, so
    // that the request after it would be sent first.
    let mut in_flight = FuturesOrdered::new();
    let mut next: Option<PendingRequest> = None;
    let mut retries: VecDeque<PendingRequest> = VecDeque::new();
    loop {
        if in_flight.is_empty() && !retries.is_empty() {
            if retries.iter().any(|pending| pending.calls.pause_reason().is_some()) {
                let deadlines = retries.iter().map(|pending| pending.request.deadline);
                sleep_until(deadlines.fold(Instant::now() + RETRY_PAUSE, Instant::min)).await;
                retries = fail_expired(retries);
            }
            let mut is_source_sent = false;
            for mut pending in mem::take(&mut retries) {
                match state.wait_until_up(pending.request.deadline, true).await {
                    Ok(_) if Instant::now() >= pending.request.deadline => {
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
        let deadline = next.as_ref().map_or_else(Instant::now, |pending| pending.request.deadline);
        let retry_deadline = retries.iter().map(|pending| pending.request.deadline).min();
        tokio::select! {
            biased;
            Some(outcome) = in_flight.next(), if !in_flight.is_empty() => {
                retries.extend(process(outcome, &mut state));
            }
            request = requests.recv(), if next.is_none() => match request {
                Some(request) => {
                    state.traffic.on_call(request.calls.first_key());
                    next = Some(request);
                }
                None => return,
            },
            found = state.wait_until_up(deadline, may_start), if next.is_some() => {
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
    let fail = |pending: PendingRequest| match now < pending.request.deadline {
        true => Some(pending),
        false => pending.fail(&retry_timeout()),
    };
    retries.into_iter().filter_map(fail).collect()
}

/// The failure of script calls that have not run and could not be sent again before the deadline.
fn retry_timeout() -> ScriptFailure {
    ScriptFailure::Unavailable("there was no time left to send it again".into())
}

/// Processes the replies, and returns the request if it must be sent again.
fn process(outcome: RequestOutcome, state: &mut StateSubscriber) -> Option<PendingRequest> {
    let RequestOutcome { mut pending, sent_at, session_id, replies } = outcome;
    let replies = match replies {
        Ok(replies) => {
            state.traffic.on_answer();
            replies
        }
        Err(failure) => {
            match failure {
                ScriptFailure::TimedOut => state.report_unanswered(session_id, sent_at),
                _ => state.report_broken(session_id),
            }
            return pending.fail(&failure);
        }
    };
    for (index, reply) in pending.calls.unanswered().into_iter().zip(replies) {
        match script_reply(reply) {
            Ok(values) => pending.calls.on_answer(index, Ok(values)),
            Err(error) => pending.calls.on_error(index, &error),
        }
    }
    if let Some(why) = pending.calls.pause_reason() {
        state.report_refused(session_id, why);
    }
    if Instant::now() + RETRY_PAUSE >= pending.request.deadline {
        pending.calls.fail_paused();
    }
    pending.complete()
}
