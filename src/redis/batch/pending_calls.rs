//! The script calls of a request, until each has an answer.
//!
//! **At most once.** A script call is sent again only if it surely has not run. All transports share
//! this logic: the connection to a server, the connections to a cluster's nodes, and a client in
//! JavaScript.

use std::sync::Arc;

use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
use crate::redis::slot::CROSS_SLOT;

/// How a script call may be sent again after a server's error. The script has not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryMethod {
    /// The server refuses the script call: never.
    NoRetry,
    /// The server does not know the script: send its source.
    SendSource,
    /// The server cannot run any script now: wait, then send again.
    WaitAndRetry,
    /// The keys are on two nodes of a cluster while their slot migrates: wait, then send again.
    SlotMigrating,
    /// A node of a cluster names another, or has discarded a transaction.
    Redirect,
}

impl RetryMethod {
    /// The retry method for the code of a server's error, its first word. `None` for unknown codes.
    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "NOSCRIPT" => Self::SendSource,
            "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => Self::WaitAndRetry,
            "TRYAGAIN" => Self::SlotMigrating,
            "ASK" | "EXECABORT" | "MOVED" => Self::Redirect,
            "CROSSSLOT" | "DENIED" | "ERR" | "MISCONF" | "NOAUTH" | "NOPERM" | "NOREPLICAS"
            | "OOM" | "WRONGPASS" | "WRONGTYPE" => Self::NoRetry,
            _ => return None,
        })
    }
}

/// The failure of a script call that the server refused with this error.
pub(crate) fn refusal(code: &str, text: &str) -> ScriptFailure {
    ScriptFailure::Refused(match code {
        "CROSSSLOT" => CROSS_SLOT.into(),
        _ if lacks_scripts(text) => format!("{NO_SCRIPTS} ({text})").into(),
        _ => text.into(),
    })
}

const NO_SCRIPTS: &str = "the server runs no Lua scripts, which limiters need: enable EVAL and \
                          EVALSHA, and load the Lua module if it is a Valkey without it";

/// Whether an error says that the server has no Lua, or no command for scripts.
fn lacks_scripts(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("find scripting engine")
        || text.contains("unknown command") && text.contains("eval")
}

/// Script calls of one request, in order.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    calls: Vec<PendingCall>,
}

#[derive(Debug)]
struct PendingCall {
    call: ScriptCall,
    sends_source: bool,
    /// Why the server could not run scripts. The call must wait before it is sent again.
    paused: Option<Arc<str>>,
    answer: Option<ScriptResult>,
}

impl PendingCalls {
    pub(crate) fn new(calls: Vec<ScriptCall>) -> Self {
        let pending = |call: ScriptCall| {
            let sends_source = call.script.is_rare();
            PendingCall { call, sends_source, paused: None, answer: None }
        };
        Self { calls: calls.into_iter().map(pending).collect() }
    }

    /// Replaces the script calls before they are sent for the first time.
    #[cfg(feature = "redis")]
    pub(crate) fn refresh(&mut self, calls: Vec<ScriptCall>) {
        debug_assert_eq!(calls.len(), self.calls.len());
        *self = Self::new(calls);
    }

    pub(crate) fn call(&self, index: usize) -> &ScriptCall {
        &self.calls[index].call
    }

    /// Whether the call is to be sent as the script's source, not as its digest.
    pub(crate) fn sends_source(&self, index: usize) -> bool {
        self.calls[index].sends_source
    }

    /// Sends the limiter script's source at most once: it is large, and the server then finds the
    /// script by its digest.
    #[cfg(feature = "redis")]
    pub(crate) fn send_source_once(&mut self, is_sent: &mut bool) {
        for pending in &mut self.calls {
            if pending.answer.is_none() && pending.sends_source && !pending.call.script.is_rare() {
                pending.sends_source = !std::mem::replace(is_sent, true);
            }
        }
    }

    /// The indexes of the calls without an answer.
    pub(crate) fn unanswered(&self) -> Vec<usize> {
        (0..self.calls.len()).filter(|&index| self.calls[index].answer.is_none()).collect()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.calls.iter().all(|pending| pending.answer.is_some())
    }

    /// Whether some calls must wait before they are sent again.
    pub(crate) fn is_paused(&self) -> bool {
        self.calls.iter().any(|pending| pending.answer.is_none() && pending.paused.is_some())
    }

    pub(crate) fn on_answer(&mut self, index: usize, answer: ScriptResult) {
        self.calls[index].answer = Some(answer);
    }

    /// Handles a server's error with this code and text.
    pub(crate) fn on_error(&mut self, index: usize, code: &str, text: &str) {
        let pending = &mut self.calls[index];
        pending.paused = None;
        match RetryMethod::of_code(code).unwrap_or(RetryMethod::NoRetry) {
            RetryMethod::SendSource if !pending.sends_source => pending.sends_source = true,
            RetryMethod::WaitAndRetry | RetryMethod::SlotMigrating => {
                pending.sends_source = pending.call.script.is_rare();
                pending.paused = Some(text.into());
            }
            RetryMethod::SendSource | RetryMethod::NoRetry | RetryMethod::Redirect => {
                pending.answer = Some(Err(refusal(code, text)));
            }
        }
    }

    /// Fails the calls without an answer.
    pub(crate) fn fail(&mut self, failure: &ScriptFailure) {
        for pending in &mut self.calls {
            pending.answer.get_or_insert_with(|| Err(failure.clone()));
        }
    }

    /// Fails the calls that wait: no time is left for another attempt.
    pub(crate) fn fail_paused(&mut self) {
        for PendingCall { paused, answer, .. } in &mut self.calls {
            if let Some(why) = paused.take() {
                answer.get_or_insert(Err(ScriptFailure::Unavailable(why)));
            }
        }
    }

    /// The answers, in order, once all calls have one.
    pub(crate) fn into_answers(self) -> Vec<ScriptResult> {
        self.calls.into_iter().filter_map(|pending| pending.answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::codec::reply::ReplyValue;

    fn pending(calls: usize) -> PendingCalls {
        PendingCalls::new((0..calls).map(|_| ScriptCall::deciding()).collect())
    }

    #[test]
    fn only_calls_that_have_not_run_are_sent_again() {
        let mut calls = pending(4);
        calls.on_answer(0, Ok(vec![ReplyValue::Number(1)]));
        calls.on_error(1, "NOSCRIPT", "NOSCRIPT No matching script.");
        calls.on_error(2, "LOADING", "LOADING Redis is loading");
        calls.on_error(3, "OOM", "OOM no memory");
        assert_eq!((calls.unanswered(), calls.is_paused()), (vec![1, 2], true));
        assert_eq!((calls.sends_source(1), calls.sends_source(2)), (true, false));
        calls.on_answer(1, Ok(vec![]));
        calls.fail_paused();
        assert!(calls.is_answered());
        let answers = calls.into_answers();
        assert_eq!(answers[2], Err(ScriptFailure::Unavailable("LOADING Redis is loading".into())));
        assert_eq!(answers[3], Err(ScriptFailure::Refused("OOM no memory".into())));
    }

    #[test]
    fn the_source_is_sent_once() {
        let (mut calls, mut is_sent) = (pending(3), false);
        for index in 0..3 {
            calls.on_error(index, "NOSCRIPT", "");
        }
        calls.send_source_once(&mut is_sent);
        assert_eq!([0, 1, 2].map(|index| calls.sends_source(index)), [true, false, false]);
        // The server has run its source, so it never answers that it does not know it.
        calls.on_error(0, "NOSCRIPT", "NOSCRIPT");
        calls.on_error(1, "NOSCRIPT", "NOSCRIPT");
        assert_eq!((calls.unanswered(), calls.sends_source(1)), (vec![1, 2], true));
    }

    #[test]
    fn a_server_without_scripts_is_named() {
        for text in [
            "ERR Could not find scripting engine 'lua'",
            "ERR unknown command 'EVALSHA', with args beginning with: ",
        ] {
            let mut calls = pending(1);
            calls.on_error(0, "ERR", text);
            let answer = calls.into_answers().remove(0);
            let Err(ScriptFailure::Refused(why)) = answer else { panic!("{answer:?}") };
            assert!(why.starts_with(NO_SCRIPTS) && why.contains(text), "{why}");
        }
    }

    #[test]
    fn a_single_server_that_redirects_refuses() {
        let mut calls = pending(2);
        calls.on_error(0, "MOVED", "MOVED 1 a:1");
        calls.on_error(1, "CROSSSLOT", "CROSSSLOT Keys in request");
        let answers = calls.into_answers();
        assert_eq!(answers[0], Err(ScriptFailure::Refused("MOVED 1 a:1".into())));
        assert_eq!(answers[1], Err(ScriptFailure::Refused(CROSS_SLOT.into())));
    }
}
