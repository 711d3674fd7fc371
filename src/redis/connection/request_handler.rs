//! Callbacks of the sender for one request: refresh it before it is sent, and handle its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::server_time::ServerTime;
use crate::redis::batch::flush::Flush;
use crate::redis::batch::script_call::{ScriptCall, ScriptResult};
use crate::time::Micros;

/// Handles the answers of one request.
pub(crate) trait RequestHandler: Send {
    /// Called right before the request is first sent. Returns new script calls, in the place of
    /// the request's own, if those are out of date.
    fn refresh(&mut self) -> Option<Vec<ScriptCall>> {
        None
    }

    /// Receives the answers, one for each script call. Returns the script calls to send next as
    /// the same request; their answers come here, too. An empty result completes the request.
    fn on_answers(&mut self, answers: Vec<ScriptResult>) -> Vec<ScriptCall>;
}

/// A flush is out of date if it was prepared for a time that differs by this much from the
/// server's. Every window is longer.
const REFRESH_THRESHOLD: Micros = 100_000;

/// The properties of a server that its connection has found out.
#[derive(Debug, Default)]
pub(crate) struct ServerTraits {
    pub(crate) time: ServerTime,
    /// Whether a script call may have one key only: see [`Flush::by_key`].
    pub(crate) has_one_key_per_script: AtomicBool,
}

/// Decides a flush. Stale calls are sent again with the server's time, and calls on keys of several
/// slots that the server does not take together are sent again by key.
pub(crate) struct FlushHandler<C, H> {
    flush: Flush,
    clock: C,
    server: Arc<ServerTraits>,
    /// The estimated server time for which the script calls were prepared.
    prepared_for: Micros,
    answers: Vec<ScriptResult>,
    on_answers: Option<H>,
}

impl<C: Fn() -> Micros, H> FlushHandler<C, H> {
    /// The handler of a flush, and the script calls to send.
    pub(crate) fn new(
        flush: Flush,
        clock: C,
        server: Arc<ServerTraits>,
        on_answers: H,
    ) -> (Self, Vec<ScriptCall>) {
        let prepared_for = server.time.at(clock());
        let has_one_key = server.has_one_key_per_script.load(Ordering::Relaxed);
        let mut flush = if has_one_key { flush.by_key() } else { flush.deduplicate() };
        flush.set_time(prepared_for);
        let calls = flush.script_calls();
        let (answers, on_answers) = (Vec::new(), Some(on_answers));
        (Self { flush, clock, server, prepared_for, answers, on_answers }, calls)
    }
}

impl<C, H> RequestHandler for FlushHandler<C, H>
where
    C: Fn() -> Micros + Send,
    H: FnOnce(&Flush, &[ScriptResult]) + Send,
{
    /// Without a refresh, calls that were prepared before the server's time was known would be
    /// stale, and calls that were prepared right after that would overtake them.
    fn refresh(&mut self) -> Option<Vec<ScriptCall>> {
        if !self.flush.is_timed() {
            return None;
        }
        let server_now = self.server.time.at((self.clock)());
        (server_now.abs_diff(self.prepared_for) >= REFRESH_THRESHOLD).then(|| {
            self.prepared_for = server_now;
            self.flush.set_time(server_now);
            self.flush.script_calls()
        })
    }

    fn on_answers(&mut self, answers: Vec<ScriptResult>) -> Vec<ScriptCall> {
        self.answers.extend(answers);
        if self.flush.retry_cross_slot(&self.answers) {
            self.server.has_one_key_per_script.store(true, Ordering::Relaxed);
            let calls = self.flush.script_calls();
            if !calls.is_empty() {
                return calls;
            }
        }
        if let Some(now) = self.flush.retry_stale(&self.answers) {
            self.server.time.learn(now, (self.clock)());
            return self.flush.script_calls();
        }
        if let Some(on_answers) = self.on_answers.take() {
            on_answers(&self.flush, &self.answers);
        }
        Vec::new()
    }
}
