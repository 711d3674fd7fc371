//! Script calls on keys of many slots as one command to the node that owns the slots.
//!
//! A script may declare keys of one slot only. But it may use all keys that its node owns
//! (`allow-cross-slot-keys`, which a script without flags has). So the command declares no keys, and
//! the script reports the calls whose keys the node does not let it use: they are sent again by
//! themselves. `lua/limiter.lua` describes the arguments and the reply.

use std::borrow::Cow;
use std::time::Duration;

use redis::{Cmd, Value as Reply};
use tokio::time::Instant;

use crate::protocol::{ScriptAlgorithm, form};
use crate::redis::batch::script_call::ScriptCall;
use crate::redis::codec::request::first_form;
use crate::redis::script::Script;

/// The most script calls in a command: about 0.5 ms of a node. A byte holds a request's number.
pub(crate) const MAX_CALLS: usize = 255;

/// Each call gets its own command after so many refusals: undeclared keys may be forbidden.
const MAX_REFUSALS: u32 = 8;

/// Calls then share commands again: slots that move may cause as many refusals, but not for long.
const REFUSAL_PAUSE: Duration = Duration::from_secs(60);

/// The algorithms whose fast paths read all keys before they write. If a key cannot be read, such a
/// call has charged nothing.
const ALGORITHMS: [u8; 4] = [
    ScriptAlgorithm::Rate as u8,
    ScriptAlgorithm::FixedWindow as u8,
    ScriptAlgorithm::SlidingCounter as u8,
    ScriptAlgorithm::TokenBucketInterval as u8,
];

#[derive(Debug, Default)]
pub(crate) struct SharingPermission {
    /// The requests in a row in which the node let no call use undeclared keys.
    refusals: u32,
    paused_until: Option<Instant>,
}

impl SharingPermission {
    pub(crate) fn is_granted(&self, now: Instant) -> bool {
        self.paused_until.is_none_or(|until| until <= now)
    }

    /// Records the replies to the calls of a request that shared commands.
    pub(crate) fn on_replies(&mut self, replies: &[Reply], now: Instant) {
        if replies.is_empty() {
            return;
        }
        let is_refused = replies.iter().all(|reply| *reply == Reply::Nil);
        self.refusals = if is_refused { self.refusals + 1 } else { 0 };
        if self.refusals == MAX_REFUSALS {
            *self = Self { refusals: 0, paused_until: Some(now + REFUSAL_PAUSE) };
        }
    }
}

/// The form of a request that may share a command: takes under one policy of one limiter.
fn shared_form(call: &ScriptCall) -> Option<u8> {
    let [request] = &call.arguments[..] else { return None };
    let &[form, high, low, ..] = request.get(first_form(request)..)? else { return None };
    let keys = usize::from(u16::from_be_bytes([high, low]));
    if call.script.is_rare() || keys != call.keys.len() || !(1..=MAX_CALLS).contains(&keys) {
        return None;
    }
    // The optimistic path writes before it reads.
    let read_first = match form {
        form::WINDOW_OPTIMISTIC => form::SINGLE_POLICY + ScriptAlgorithm::FixedWindow as u8,
        form => form,
    };
    let algorithm = (read_first & !form::WITH_COSTS).checked_sub(form::SINGLE_POLICY)?;
    ALGORITHMS.contains(&algorithm).then_some(read_first)
}

pub(crate) fn may_share(call: &ScriptCall) -> bool {
    shared_form(call).is_some()
}

/// The command of script calls that may share one, at most [`MAX_CALLS`].
pub(crate) fn command<'a>(calls: impl Iterator<Item = &'a ScriptCall>) -> Cmd {
    let mut requests: Vec<Cow<'a, [u8]>> = Vec::new();
    let (mut head, mut keys) = (vec![0], Vec::new());
    for call in calls {
        let mut request = Cow::Borrowed(&call.arguments[0][..]);
        let at = first_form(&request);
        if let Some(form) = shared_form(call).filter(|form| *form != request[at]) {
            request.to_mut()[at] = form;
        }
        // Most calls are of one limiter, so they have one request.
        let number = requests.iter().position(|known| *known == request).unwrap_or_else(|| {
            requests.push(request);
            requests.len() - 1
        });
        head.extend([byte(number + 1), byte(call.keys.len())]);
        keys.extend(call.keys.iter());
    }
    head[0] = byte(requests.len());
    let mut command = redis::cmd("EVALSHA");
    command.arg(Script::limiter().sha1()).arg(0).arg(head).arg("node");
    for argument in requests.iter().map(AsRef::as_ref).chain(keys) {
        command.arg(argument);
    }
    command
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The reply to each call of a command. A call with `Nil` has changed nothing and must go alone.
pub(crate) fn replies(reply: Reply, calls: usize) -> Vec<Reply> {
    match reply {
        Reply::Array(values) => split(values, calls)
            // Not understood: each call fails, and whether it was charged is unknown.
            .unwrap_or_else(|| vec![Reply::Array(Vec::new()); calls]),
        error => vec![error; calls],
    }
}

fn split(values: Vec<Reply>, calls: usize) -> Option<Vec<Reply>> {
    let mut values = values.into_iter();
    let (Some(now), Some(Reply::BulkString(sizes)), Some(Reply::BulkString(states))) =
        (values.next(), values.next(), values.next())
    else {
        return None;
    };
    let mut states = &states[..];
    let own = sizes.into_iter().map(|size| {
        if size == 0 {
            return values.next();
        }
        let (state, rest) = states.split_at_checked(usize::from(size))?;
        states = rest;
        let empty = || Reply::BulkString(Vec::new());
        Some(Reply::Array(vec![now.clone(), Reply::BulkString(state.to_vec()), empty(), empty()]))
    });
    let own: Vec<_> = own.collect::<Option<_>>()?;
    (own.len() == calls).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(request: &[u8], keys: &[&str]) -> ScriptCall {
        let mut call = ScriptCall::deciding();
        call.arguments[0] = request.to_vec();
        for key in keys {
            call.keys.push(|names| names.extend_from_slice(key.as_bytes()));
        }
        call
    }

    fn words(command: &Cmd) -> Vec<Vec<u8>> {
        let word = |word: redis::Arg<&[u8]>| match word {
            redis::Arg::Simple(word) => word.to_vec(),
            _ => panic!("no command here has a cursor"),
        };
        command.args_iter().map(word).collect()
    }

    const RATE: u8 = form::SINGLE_POLICY + ScriptAlgorithm::Rate as u8;
    const WINDOW: u8 = form::SINGLE_POLICY + ScriptAlgorithm::FixedWindow as u8;

    #[test]
    fn only_requests_that_read_all_keys_first_share_a_command() {
        let list = form::SINGLE_POLICY + ScriptAlgorithm::SlidingWindowList as u8;
        for (form, may) in [
            (RATE, true),
            (RATE + form::WITH_COSTS, true),
            (form::WINDOW_OPTIMISTIC, true),
            (list, false),
            (form::GENERAL, false),
            (form::PERMITS, false),
            (form::MULTI_POLICY, false),
        ] {
            assert_eq!(may_share(&call(&[form, 0, 1, 9], &["a"])), may, "{form}");
        }
        assert!(!may_share(&call(&[RATE, 0, 1, RATE, 0, 1], &["a", "b"])), "two groups");
        assert!(!may_share(&ScriptCall::deciding()), "no calls");
        let mut peek = call(&[RATE, 0, 1], &["a"]);
        peek.arguments.push(b"peek".to_vec());
        assert!(!may_share(&peek));
    }

    #[test]
    fn equal_requests_are_sent_once() {
        let calls = [
            call(&[RATE, 0, 1, 7], &["a"]),
            call(&[form::WINDOW_OPTIMISTIC, 0, 1, 8], &["b"]),
            call(&[RATE, 0, 1, 7], &["c"]),
            call(&[RATE, 0, 2, 7], &["d", "e"]),
            call(&[WINDOW, 0, 1, 8], &["f"]),
        ];
        let words = words(&command(calls.iter()));
        assert_eq!(words[2..5], [&b"0"[..], &[3, 1, 1, 2, 1, 1, 1, 3, 2, 2, 1], b"node"]);
        assert_eq!(words[5..8], [[RATE, 0, 1, 7], [WINDOW, 0, 1, 8], [RATE, 0, 2, 7]]);
        assert_eq!(words[8..], [b"a", b"b", b"c", b"d", b"e", b"f"]);
    }

    fn bytes(text: &str) -> Reply {
        Reply::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn each_call_gets_its_own_reply() {
        let general = Reply::Array(vec![Reply::Int(5), bytes("x")]);
        let reply = Reply::Array(vec![
            Reply::Int(5),
            bytes("\u{2}\0\u{3}\0"),
            bytes("abcde"),
            Reply::Nil,
            general.clone(),
        ]);
        let lone = |state| Reply::Array(vec![Reply::Int(5), bytes(state), bytes(""), bytes("")]);
        assert_eq!(replies(reply, 4), [lone("ab"), Reply::Nil, lone("cde"), general]);
    }

    #[test]
    fn calls_share_no_command_for_a_while_after_eight_refusals_in_a_row() {
        let (mut permission, now) = (SharingPermission::default(), Instant::now());
        let refuse = |permission: &mut SharingPermission, times| {
            for _ in 0..times {
                permission.on_replies(&[Reply::Nil, Reply::Nil], now);
            }
        };
        refuse(&mut permission, 7);
        permission.on_replies(&[Reply::Nil, bytes("a")], now);
        refuse(&mut permission, 7);
        assert!(permission.is_granted(now));
        refuse(&mut permission, 1);
        assert!(!permission.is_granted(now));
        assert!(permission.is_granted(now + REFUSAL_PAUSE));
    }

    #[test]
    fn an_error_is_the_reply_to_all_calls_and_no_call_of_a_malformed_reply_is_sent_again() {
        let error = redis::parse_redis_value(b"-NOSCRIPT No matching script.\r\n").unwrap();
        assert_eq!(replies(error.clone(), 2), [error.clone(), error]);
        let short = Reply::Array(vec![Reply::Int(5), bytes("\u{2}\0"), bytes("ab")]);
        let odd = Reply::Array(vec![Reply::Int(5)]);
        for malformed in [short, odd] {
            assert_eq!(replies(malformed, 2), vec![Reply::Array(vec![]); 2]);
        }
    }
}
