//! What goes to a node and comes back.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, ServerErrorKind, Value as Reply};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::redis::batch::script_call::Answer;
use crate::redis::cluster::slot_map::told;
use crate::redis::cluster::slot_request::Piece;
use crate::redis::connection::{Address, ServerTime, Verdict, command, refused, verdict};

/// Pieces that go to a node together.
pub(crate) struct Request {
    pub(crate) node: Address,
    pub(crate) deadline: Instant,
    pub(crate) pieces: Vec<Piece>,
}

/// A request that has been sent, and what came of it.
pub(crate) struct Sent {
    pub(crate) request: Request,
    pub(crate) link: u64,
    /// One for each piece.
    pub(crate) replies: Result<Vec<Reply>, Lost>,
}

/// Why there are no replies.
pub(crate) enum Lost {
    InTime,
    Broken(Arc<str>),
    /// Nobody waits for the node any more, which did not answer: another has its slots.
    Left,
}

/// What a node says of a piece.
#[derive(Debug)]
pub(crate) enum Said {
    /// It has run, or never will.
    Answer(Answer),
    /// It has not run: the node does not know the script.
    Unknown,
    /// It has not run: another node owns the slot.
    Moved(Address),
    /// It has not run: another node has the keys, this once.
    Ask(Address),
    /// It has not run: the keys are at two nodes.
    Torn(Arc<str>),
    /// It has not run: the node cannot run anything just now.
    NotNow(Arc<str>),
    /// It has not run: another that went with it could not be.
    Held,
}

impl Request {
    /// Writes the request; what it gives back sends it, and waits for replies until `left` ends.
    pub(crate) fn send(
        mut self,
        mut connection: MultiplexedConnection,
        link: u64,
        mut left: watch::Receiver<()>,
        server_time: &ServerTime,
    ) -> impl Future<Output = Sent> + Send + use<> {
        let mut pipeline = redis::pipe();
        // The source is large: it is sent once, and those behind it find the script.
        let mut is_sent = false;
        for group in self.pieces.chunk_by_mut(is_together) {
            let is_transaction = group.len() > 1;
            if is_transaction {
                pipeline.add_command(redis::cmd("MULTI"));
            }
            for piece in group {
                if piece.ask.is_some() {
                    pipeline.add_command(redis::cmd("ASKING"));
                }
                let with_source = piece.with_source && !std::mem::replace(&mut is_sent, true);
                let job = piece.job(server_time);
                let with_source = with_source || job.script.is_rare();
                pipeline.add_command(match with_source {
                    true => command("EVAL", job.script.source(), job),
                    false => command("EVALSHA", job.script.sha1(), job),
                });
            }
            if is_transaction {
                pipeline.add_command(redis::cmd("EXEC"));
            }
        }
        async move {
            let sending = connection.send_packed_commands(&pipeline, 0, pipeline.len());
            let replies = tokio::select! {
                biased;
                sent = timeout_at(self.deadline, sending) => match sent {
                    Ok(Ok(replies)) => Ok(self.replies(replies)),
                    Ok(Err(error)) => Err(Lost::Broken(error.to_string().into())),
                    Err(_) => Err(Lost::InTime),
                },
                Err(_) = left.changed() => Err(Lost::Left),
            };
            Sent { request: self, link, replies }
        }
    }

    /// Those to the pieces alone.
    fn replies(&self, replies: Vec<Reply>) -> Vec<Reply> {
        let mut replies = replies.into_iter();
        let mut own = Vec::with_capacity(self.pieces.len());
        for group in self.pieces.chunk_by(is_together) {
            if group.len() == 1 && group[0].ask.is_some() {
                let _asking = replies.next();
            }
            if group.len() == 1 {
                own.push(replies.next().unwrap_or(Reply::Nil));
                continue;
            }
            let _multi = replies.next();
            let queued: Vec<_> = replies.by_ref().take(group.len()).collect();
            own.extend(of_transaction(queued, replies.next().unwrap_or(Reply::Nil)));
        }
        own
    }
}

/// Whether pieces go as one transaction: those of one slot run all, or none if the node sends one of them elsewhere.
/// Otherwise one that shares some keys with an earlier one could be run before it.
fn is_together(one: &Piece, other: &Piece) -> bool {
    one.slot == other.slot
}

/// What became of the commands of a transaction, by what was said when they were queued and then of all.
fn of_transaction(queued: Vec<Reply>, all: Reply) -> Vec<Reply> {
    match all {
        Reply::Array(results) if results.len() == queued.len() => results,
        all => {
            let is_queued =
                |reply: &Reply| matches!(reply, Reply::SimpleString(text) if text == "QUEUED");
            // Who may open no transaction has had each run by itself.
            let of = |reply| if is_queued(&reply) { all.clone() } else { reply };
            queued.into_iter().map(of).collect()
        }
    }
}

/// Reads what a node says of a piece.
pub(crate) fn said(reply: Reply, node: &Address) -> Said {
    let error = match verdict(reply) {
        Verdict::Answer(answer) => return Said::Answer(answer),
        Verdict::Unknown => return Said::Unknown,
        Verdict::NotNow(why) => return Said::NotNow(why),
        Verdict::Torn(why) => return Said::Torn(why),
        Verdict::Elsewhere(error) => error,
    };
    let elsewhere = error.redirect_node().and_then(|(text, _)| told(text, node));
    match (error.kind(), elsewhere) {
        (ErrorKind::Server(ServerErrorKind::ExecAbort), _) => Said::Held,
        (ErrorKind::Server(ServerErrorKind::Moved), Some(address)) => Said::Moved(address),
        (ErrorKind::Server(ServerErrorKind::Ask), Some(address)) => Said::Ask(address),
        _ => Said::Answer(refused(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> Reply {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    fn queued() -> Reply {
        Reply::SimpleString("QUEUED".into())
    }

    /// What is said of each of a transaction's commands, shortly.
    fn of(queued: Vec<Reply>, all: Reply) -> Vec<String> {
        let node = Address::Tcp("a".into(), 1);
        let replies = of_transaction(queued, all).into_iter();
        let short = |said| match said {
            Said::Answer(Ok(values)) => format!("{values:?}"),
            Said::Answer(Err(failure)) => format!("{failure}"),
            Said::Moved(to) => format!("moved to {to}"),
            Said::Torn(_) => "torn".into(),
            Said::Held => "held".into(),
            Said::Unknown => "unknown".into(),
            other => format!("{other:?}"),
        };
        replies.map(|reply| short(said(reply, &node))).collect()
    }

    #[test]
    fn all_of_a_transaction_run_or_none() {
        let ran = Reply::Array(vec![Reply::Array(vec![Reply::Int(1)]), Reply::Array(vec![])]);
        assert_eq!(of(vec![queued(), queued()], ran), ["[Number(1)]", "[]"]);
        let aborted = || error("EXECABORT Transaction discarded because of previous errors.");
        let one_moved = vec![queued(), error("MOVED 5 b:2")];
        assert_eq!(of(one_moved, aborted()), ["held", "moved to b:2"]);
        let torn = error("TRYAGAIN Multiple keys request during rehashing of slot");
        assert_eq!(of(vec![queued(), queued()], torn), ["torn", "torn"]);
        let forgotten = Reply::Array(vec![error("NOSCRIPT No matching script."); 2]);
        assert_eq!(of(vec![queued(), queued()], forgotten), ["unknown", "unknown"]);
    }

    #[test]
    fn without_a_transaction_each_has_an_answer_of_its_own() {
        let answers = vec![Reply::Array(vec![Reply::Int(1)]), error("MOVED 5 b:2")];
        assert_eq!(of(answers, error("ERR EXEC without MULTI")), ["[Number(1)]", "moved to b:2"]);
    }
}
