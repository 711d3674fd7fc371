//! The script calls of a request, until each has an answer.
//!
//! **At most once.** A script call is sent again only if it surely has not run. All transports share
//! this logic: the connection to a server, the connections to a cluster's nodes, and a client in
//! JavaScript.

use std::sync::Arc;

use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};

/// The meaning of a server's error for a script call. The call has not run, unless it
/// [may have](Self::MayHaveRun).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorMeaning {
    /// The server refuses the script call: never send it again.
    Refused,
    CrossSlot,
    /// The server does not know the script: send its source.
    UnknownScript,
    /// The server cannot run any script now: wait, then send again.
    Unavailable,
    /// The keys are on two nodes of a cluster while their slot migrates: wait, then send again.
    SlotMigrating,
    Redirect,
    TransactionAborted,
    /// Nothing is known: a proxy may report an error after the script has run.
    MayHaveRun,
}

/// The reasons of a discarded transaction: the error of EXEC itself follows.
const ABORT_REASON: &str = "EXECABORT Transaction discarded because of: ";

/// The beginnings of errors without a code of their own that a server sends before it runs a script.
const BEFORE_RUN: [&str; 8] = [
    "ERR Could not find scripting engine",
    "ERR EXEC without MULTI",
    "ERR Error compiling script",
    "ERR max daily request limit exceeded",
    "ERR max number of clients reached",
    "ERR max requests limit exceeded",
    "ERR unknown command",
    "ERR wrong number of arguments",
];

/// A part of the error of a script that was ended. Redis ends no script that has written.
const KILLED: &str = "Script killed by user with SCRIPT KILL";

impl ErrorMeaning {
    /// The meaning of an error, whose first word is its code.
    pub(crate) fn of(text: &str) -> Self {
        if let Some(reason) = text.strip_prefix(ABORT_REASON) {
            return Self::of(reason);
        }
        match text.split(' ').next().unwrap_or_default() {
            "NOSCRIPT" => Self::UnknownScript,
            "BUSY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOAUTH" | "READONLY" => {
                Self::Unavailable
            }
            "TRYAGAIN" => Self::SlotMigrating,
            "ASK" | "MOVED" => Self::Redirect,
            "EXECABORT" => Self::TransactionAborted,
            "CROSSSLOT" => Self::CrossSlot,
            // A script without the right to a command may have decided calls of another limiter.
            "NOPERM" if text.contains("@user_script") => Self::MayHaveRun,
            "DENIED" | "MISCONF" | "NOPERM" | "NOREPLICAS" | "OOM" | "WRONGPASS" => Self::Refused,
            _ if BEFORE_RUN.iter().any(|known| text.starts_with(known))
                || text.contains(KILLED) =>
            {
                Self::Refused
            }
            _ => Self::MayHaveRun,
        }
    }

    /// The failure of a script call that is not sent again after this error.
    pub(crate) fn failure(self, text: &str) -> ScriptFailure {
        match self {
            Self::CrossSlot => ScriptFailure::CrossSlot,
            Self::MayHaveRun => ScriptFailure::Failed(text.into()),
            _ if lacks_scripts(text) => {
                ScriptFailure::Refused(format!("{NO_SCRIPTS} ({text})").into())
            }
            Self::Redirect => ScriptFailure::Refused(format!("{CLUSTER_NODE} ({text})").into()),
            _ => ScriptFailure::Refused(text.into()),
        }
    }
}

const NO_SCRIPTS: &str = "the server runs no Lua scripts, which limiters need: enable EVAL and \
                          EVALSHA, and load the Lua module if it is a Valkey without it";

/// Whether an error says that the server has no Lua, or no command for scripts.
fn lacks_scripts(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("find scripting engine")
        || text.contains("unknown command") && text.contains("eval")
}

/// The reason of a redirect by a server that the user has not named as a node.
const CLUSTER_NODE: &str =
    "this is a node of a Redis Cluster: use the RedisStore of 'tollgate' with cluster: { nodes }";

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

    #[cfg(feature = "redis")]
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        self.calls.iter().find_map(|pending| pending.call.keys.iter().next())
    }

    pub(crate) fn call(&self, index: usize) -> &ScriptCall {
        &self.calls[index].call
    }

    /// Whether the call is to be sent as the script's source, not as its digest.
    pub(crate) fn sends_source(&self, index: usize) -> bool {
        self.calls[index].sends_source
    }

    /// Sends the limiter script's large source at most once: its digest then suffices.
    #[cfg(feature = "redis")]
    pub(crate) fn send_source_once(&mut self, is_sent: &mut bool) {
        for pending in &mut self.calls {
            if pending.answer.is_none() && pending.sends_source && !pending.call.script.is_rare() {
                pending.sends_source = !std::mem::replace(is_sent, true);
            }
        }
    }

    pub(crate) fn unanswered(&self) -> Vec<usize> {
        (0..self.calls.len()).filter(|&index| self.calls[index].answer.is_none()).collect()
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.calls.iter().all(|pending| pending.answer.is_some())
    }

    /// Why some calls must wait before they are sent again.
    pub(crate) fn pause_reason(&self) -> Option<&Arc<str>> {
        let unanswered = self.calls.iter().filter(|pending| pending.answer.is_none());
        unanswered.filter_map(|pending| pending.paused.as_ref()).next()
    }

    pub(crate) fn on_answer(&mut self, index: usize, answer: ScriptResult) {
        self.calls[index].answer = Some(answer);
    }

    pub(crate) fn on_error(&mut self, index: usize, text: &str) {
        let pending = &mut self.calls[index];
        pending.paused = None;
        let meaning = ErrorMeaning::of(text);
        match meaning {
            ErrorMeaning::UnknownScript if !pending.sends_source => pending.sends_source = true,
            ErrorMeaning::Unavailable | ErrorMeaning::SlotMigrating => {
                pending.sends_source = pending.call.script.is_rare();
                pending.paused = Some(text.into());
            }
            _ => pending.answer = Some(Err(meaning.failure(text))),
        }
    }

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
        calls.on_error(1, "NOSCRIPT No matching script.");
        calls.on_error(2, "LOADING Redis is loading");
        calls.on_error(3, "OOM no memory");
        assert_eq!((calls.unanswered(), calls.pause_reason().is_some()), (vec![1, 2], true));
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
            calls.on_error(index, "NOSCRIPT");
        }
        calls.send_source_once(&mut is_sent);
        assert_eq!([0, 1, 2].map(|index| calls.sends_source(index)), [true, false, false]);
        // The server has run its source, so it never answers that it does not know it.
        calls.on_error(0, "NOSCRIPT");
        calls.on_error(1, "NOSCRIPT");
        assert_eq!((calls.unanswered(), calls.sends_source(1)), (vec![1, 2], true));
    }

    #[test]
    fn a_server_without_scripts_is_named() {
        for text in [
            "ERR Could not find scripting engine 'lua'",
            "ERR unknown command 'EVALSHA', with args beginning with: ",
        ] {
            let mut calls = pending(1);
            calls.on_error(0, text);
            let answer = calls.into_answers().remove(0);
            let Err(ScriptFailure::Refused(why)) = answer else { panic!("{answer:?}") };
            assert!(why.starts_with(NO_SCRIPTS) && why.contains(text), "{why}");
        }
    }

    #[test]
    fn a_single_server_that_redirects_is_named_as_a_node_of_a_cluster() {
        let mut calls = pending(2);
        calls.on_error(0, "MOVED 1 a:1");
        calls.on_error(1, "CROSSSLOT Keys in request");
        let answers = calls.into_answers();
        let why = format!("{CLUSTER_NODE} (MOVED 1 a:1)");
        assert_eq!(answers[0], Err(ScriptFailure::Refused(why.into())));
        assert_eq!(answers[1], Err(ScriptFailure::CrossSlot));
    }

    #[test]
    fn only_an_error_from_before_the_run_says_that_nothing_was_charged() {
        for (text, meaning) in [
            ("NOPERM this user has no permissions", ErrorMeaning::Refused),
            ("ERR unknown command 'EVALSHA', with args beginning with:", ErrorMeaning::Refused),
            ("ERR wrong number of arguments for 'evalsha' command", ErrorMeaning::Refused),
            ("NOAUTH Authentication required.", ErrorMeaning::Unavailable),
            ("ERR max number of clients reached", ErrorMeaning::Refused),
            (
                "ERR Error running script: @user_script: 1: Script killed by user with SCRIPT KILL...",
                ErrorMeaning::Refused,
            ),
            (
                "EXECABORT Transaction discarded because of previous errors.",
                ErrorMeaning::TransactionAborted,
            ),
            ("EXECABORT Transaction discarded because of: NOPERM 'exec'", ErrorMeaning::Refused),
            ("EXECABORT Transaction discarded because of: LOADING", ErrorMeaning::Unavailable),
            // twemproxy.
            ("ERR Connection timed out", ErrorMeaning::MayHaveRun),
            ("ERR Broken pipe", ErrorMeaning::MayHaveRun),
            // Envoy.
            ("upstream failure", ErrorMeaning::MayHaveRun),
            ("Timeout", ErrorMeaning::MayHaveRun),
            ("WRONGTYPE Operation against a key", ErrorMeaning::MayHaveRun),
            (
                "NOPERM User default has no permissions to run the 'mget' command script: 0, on \
                 @user_script:40.",
                ErrorMeaning::MayHaveRun,
            ),
            ("ERR The user executing the script can't run this command", ErrorMeaning::MayHaveRun),
            (
                "ERR user_script:1: Script attempted to access a non local key",
                ErrorMeaning::MayHaveRun,
            ),
            ("", ErrorMeaning::MayHaveRun),
        ] {
            assert_eq!(ErrorMeaning::of(text), meaning, "{text}");
        }
        let failed = ErrorMeaning::MayHaveRun.failure("ERR Connection timed out");
        assert_eq!(failed, ScriptFailure::Failed("ERR Connection timed out".into()));
    }
}
