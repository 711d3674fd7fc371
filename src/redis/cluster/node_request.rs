//! A request to one node of a cluster, and its replies.

use std::sync::Arc;

use redis::Value as Reply;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::redis::batch::pending_calls::ErrorMeaning;
use crate::redis::batch::script_call::{ScriptFailure, ScriptResult};
use crate::redis::cluster::node_batch;
use crate::redis::cluster::slot_map::parse_address;
use crate::redis::cluster::slot_request::SlotRequest;
use crate::redis::connection::{Address, ServerTime, SessionHandle, command, script_reply};

/// Slot requests that are sent to a node as one pipeline.
pub(crate) struct NodeRequest {
    pub(crate) node: Address,
    pub(crate) deadline: Instant,
    pub(crate) slot_requests: Vec<SlotRequest>,
    /// How many slot requests share commands; they come first.
    pub(crate) sharing: usize,
}

/// A request that was sent, the id of its session, and the replies.
pub(crate) struct NodeRequestOutcome {
    pub(crate) request: NodeRequest,
    pub(crate) session_id: u64,
    /// One reply for each slot request. [`ScriptFailure::Closed`] if the node did not answer and was
    /// removed, because another node owns its slots now.
    pub(crate) replies: Result<Vec<Reply>, ScriptFailure>,
}

#[derive(Debug)]
pub(crate) enum NodeReply {
    /// The script has run, or never will.
    Answer(ScriptResult),
    /// The script has not run, and this error says how to send it again.
    NotRun(ErrorMeaning, Arc<str>),
    /// The script has not run: another node owns the slot.
    Moved(Address),
    /// The script has not run: another node has the keys, for this request only.
    Ask(Address),
    /// The script has changed nothing: the node does not let it use keys that it does not declare.
    MustDeclareKeys,
}

impl NodeRequest {
    /// Encodes the request. The future sends it, and waits for replies until `removed` closes.
    pub(crate) fn send(
        mut self,
        session: SessionHandle,
        session_id: u64,
        mut removed: watch::Receiver<()>,
        server_time: &ServerTime,
        may_share: bool,
    ) -> impl Future<Output = NodeRequestOutcome> + Send + use<> {
        let mut pipeline = redis::pipe();
        if may_share {
            self.find_sharing(server_time);
        }
        let (sharing, others) = self.slot_requests.split_at_mut(self.sharing);
        for requests in sharing.chunks_mut(node_batch::MAX_CALLS) {
            let calls = requests.iter_mut().map(|request| request.script_call(server_time));
            pipeline.add_command(node_batch::command(calls));
        }
        // The source is large: it is sent once, and the later script calls find the script.
        let mut is_source_sent = false;
        for group in others.chunk_by_mut(is_same_transaction) {
            let is_transaction = group.len() > 1;
            if is_transaction {
                pipeline.add_command(redis::cmd("MULTI"));
            }
            for request in group {
                if request.ask.is_some() {
                    pipeline.add_command(redis::cmd("ASKING"));
                }
                let with_source =
                    request.with_source && !std::mem::replace(&mut is_source_sent, true);
                let call = request.script_call(server_time);
                pipeline.add_command(command(call, with_source || call.script.is_rare()));
            }
            if is_transaction {
                pipeline.add_command(redis::cmd("EXEC"));
            }
        }
        async move {
            let mut connection = session.connection.clone();
            let sending = connection.send_packed_commands(&pipeline, 0, pipeline.len());
            tokio::pin!(sending);
            let replies = loop {
                let expires_at = self.next_deadline();
                tokio::select! {
                    biased;
                    sent = timeout_at(expires_at, &mut sending) => match sent {
                        Ok(Ok(replies)) => break Ok(self.script_replies(replies)),
                        Ok(Err(error)) => break Err(ScriptFailure::Broken(session.reason(&error))),
                        Err(_) if expires_at < self.deadline => self.report_expired(expires_at),
                        Err(_) => break Err(ScriptFailure::TimedOut),
                    },
                    Err(_) = removed.changed() => break Err(ScriptFailure::Closed),
                }
            };
            NodeRequestOutcome { request: self, session_id, replies }
        }
    }

    /// The earliest deadline of the slot requests that are not reported yet. Requests of one slot
    /// are sent together although they were made at different times.
    fn next_deadline(&self) -> Instant {
        let pending = self.slot_requests.iter().filter(|request| !request.part.is_reported);
        pending.map(|own| own.part.deadline).min().unwrap_or(self.deadline)
    }

    /// Reports the slot requests whose deadline has come. They stay under way, because later calls
    /// on their slots must not overtake them.
    fn report_expired(&mut self, now: Instant) {
        for SlotRequest { part, .. } in &mut self.slot_requests {
            if part.deadline <= now && !part.is_reported {
                part.fail(&ScriptFailure::TimedOut);
                part.report();
            }
        }
    }

    fn find_sharing(&mut self, server_time: &ServerTime) {
        let mut can_share = Vec::with_capacity(self.slot_requests.len());
        for group in self.slot_requests.chunk_by_mut(is_same_transaction) {
            let may_share = match &mut *group {
                [request] => {
                    !request.with_source
                        && !request.declares_keys
                        && request.ask.is_none()
                        && node_batch::may_share(request.script_call(server_time))
                }
                _ => false,
            };
            can_share.resize(can_share.len() + group.len(), may_share);
        }
        let sharing = can_share.iter().filter(|can| **can).count();
        // A lone request declares its keys, so that its reply can name the node that owns them.
        if sharing > 1 {
            let mut can_share = can_share.into_iter();
            let (mut requests, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.slot_requests)
                .into_iter()
                .partition(|_| can_share.next().unwrap_or(false));
            requests.extend(others);
            (self.slot_requests, self.sharing) = (requests, sharing);
        }
    }

    /// The replies to the script calls, without those to MULTI, EXEC and ASKING.
    fn script_replies(&self, replies: Vec<Reply>) -> Vec<Reply> {
        let mut replies = replies.into_iter();
        let mut own = Vec::with_capacity(self.slot_requests.len());
        // There is a reply to each command. Without one, the call fails as malformed.
        let none = || Reply::Array(Vec::new());
        let (sharing, others) = self.slot_requests.split_at(self.sharing);
        for requests in sharing.chunks(node_batch::MAX_CALLS) {
            let reply = replies.next().unwrap_or_else(none);
            own.extend(node_batch::replies(reply, requests.len()));
        }
        for group in others.chunk_by(is_same_transaction) {
            if let [request] = group {
                let asking = if request.ask.is_some() { replies.next() } else { None };
                own.push(asked_reply(asking, replies.next().unwrap_or_else(none)));
                continue;
            }
            let _multi = replies.next();
            let queued: Vec<_> = replies.by_ref().take(group.len()).collect();
            own.extend(transaction_replies(queued, replies.next().unwrap_or_else(none)));
        }
        own
    }
}

/// Whether two slot requests belong to one transaction. Requests of one slot run all or none, even
/// if the node redirects one of them. Otherwise a later request could run before an earlier one
/// that shares keys with it.
fn is_same_transaction(one: &SlotRequest, other: &SlotRequest) -> bool {
    one.slot == other.slot
}

/// The reply to a command after ASKING. A user without the right to ASKING is redirected again.
fn asked_reply(asking: Option<Reply>, reply: Reply) -> Reply {
    match (asking, reply) {
        (Some(refused @ Reply::ServerError(_)), Reply::ServerError(_)) => refused,
        (_, reply) => reply,
    }
}

/// The replies to a transaction's commands, from those when they were queued and that to EXEC.
fn transaction_replies(queued: Vec<Reply>, exec: Reply) -> Vec<Reply> {
    match exec {
        Reply::Array(results) if results.len() == queued.len() => results,
        exec => {
            let is_queued =
                |reply: &Reply| matches!(reply, Reply::SimpleString(text) if text == "QUEUED");
            // If the user may not open a transaction, each command has run by itself.
            let own_or_exec = |reply| if is_queued(&reply) { exec.clone() } else { reply };
            queued.into_iter().map(own_or_exec).collect()
        }
    }
}

pub(crate) fn node_reply(reply: Reply, node: &Address) -> NodeReply {
    if reply == Reply::Nil {
        return NodeReply::MustDeclareKeys;
    }
    let text = match script_reply(reply) {
        Ok(values) => return NodeReply::Answer(Ok(values)),
        Err(text) => text,
    };
    let meaning = ErrorMeaning::of(&text);
    match meaning {
        ErrorMeaning::Redirect => {
            // "MOVED 3999 127.0.0.1:6381"
            let target = text.split(' ').nth(2).and_then(|target| parse_address(target, node));
            match target {
                Some(address) if text.starts_with("ASK") => NodeReply::Ask(address),
                Some(address) => NodeReply::Moved(address),
                None => NodeReply::Answer(Err(ScriptFailure::Refused(text.into()))),
            }
        }
        ErrorMeaning::Refused | ErrorMeaning::CrossSlot | ErrorMeaning::MayHaveRun => {
            NodeReply::Answer(Err(meaning.failure(&text)))
        }
        _ => NodeReply::NotRun(meaning, text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Reply {
        redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap()
    }

    fn queued() -> Reply {
        Reply::SimpleString("QUEUED".into())
    }

    /// Short texts for the replies to the commands of a transaction.
    fn texts(queued: Vec<Reply>, exec: Reply) -> Vec<String> {
        let node = Address::Tcp("a".into(), 1);
        let replies = transaction_replies(queued, exec).into_iter();
        let short = |reply| match reply {
            NodeReply::Answer(Ok(values)) => format!("{values:?}"),
            NodeReply::Answer(Err(failure)) => format!("{failure}"),
            NodeReply::Moved(to) => format!("moved to {to}"),
            NodeReply::NotRun(ErrorMeaning::SlotMigrating, _) => "slot migrating".into(),
            NodeReply::NotRun(ErrorMeaning::TransactionAborted, _) => "aborted".into(),
            NodeReply::NotRun(ErrorMeaning::UnknownScript, _) => "unknown script".into(),
            other => format!("{other:?}"),
        };
        replies.map(|reply| short(node_reply(reply, &node))).collect()
    }

    #[test]
    fn all_of_a_transaction_run_or_none() {
        let ran = Reply::Array(vec![Reply::Array(vec![Reply::Int(1)]), Reply::Array(vec![])]);
        assert_eq!(texts(vec![queued(), queued()], ran), ["[Number(1)]", "[]"]);
        let aborted = || error("EXECABORT Transaction discarded because of previous errors.");
        let one_moved = vec![queued(), error("MOVED 5 b:2")];
        assert_eq!(texts(one_moved, aborted()), ["aborted", "moved to b:2"]);
        let migrating = error("TRYAGAIN Multiple keys request during rehashing of slot");
        assert_eq!(
            texts(vec![queued(), queued()], migrating),
            ["slot migrating", "slot migrating"]
        );
        let forgotten = Reply::Array(vec![error("NOSCRIPT No matching script."); 2]);
        assert_eq!(
            texts(vec![queued(), queued()], forgotten),
            ["unknown script", "unknown script"]
        );
    }

    #[test]
    fn without_a_transaction_each_has_an_answer_of_its_own() {
        let answers = vec![Reply::Array(vec![Reply::Int(1)]), error("MOVED 5 b:2")];
        assert_eq!(
            texts(answers, error("ERR EXEC without MULTI")),
            ["[Number(1)]", "moved to b:2"]
        );
    }

    #[test]
    fn a_missing_right_to_exec_or_asking_is_named() {
        let why = "NOPERM this user has no permissions to run the 'exec' command";
        let aborted = error(&format!("EXECABORT Transaction discarded because of: {why}"));
        let texts = texts(vec![queued(), queued()], aborted);
        assert!(texts.iter().all(|text| text.contains(why)), "{texts:?}");
        let why = "NOPERM this user has no permissions to run the 'asking' command";
        let moved = || error("MOVED 5 b:2");
        assert_eq!(asked_reply(Some(error(why)), moved()), error(why));
        assert_eq!(asked_reply(Some(Reply::Okay), moved()), moved());
        assert_eq!(asked_reply(Some(error(why)), Reply::Array(vec![])), Reply::Array(vec![]));
    }
}
