//! What a server says of a script that it was sent: whether it has run, and if not, whether it may.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value as Reply};

use super::super::slot::CROSS_SLOT;
use crate::redis::batch::script_call::{Answer, Failure};
use crate::redis::codec::reply::Value;

/// What became of a script.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It has run, or never will.
    Answer(Answer),
    /// It has not run: the server does not know it.
    Unknown,
    /// It has not run: the server cannot run anything just now.
    NotNow(Arc<str>),
    /// It has not run: its keys are at two nodes of a cluster just now.
    Torn(Arc<str>),
    /// It has not run, for a reason that a cluster's nodes have: another node, or a transaction that is off.
    Elsewhere(RedisError),
}

/// Reads a reply to a script.
pub(crate) fn verdict(reply: Reply) -> Verdict {
    let error: RedisError = match reply {
        Reply::ServerError(error) => error.into(),
        Reply::Array(values) => {
            return Verdict::Answer(Ok(values.into_iter().map(value).collect()));
        }
        other => return Verdict::Answer(Ok(vec![value(other)])),
    };
    let why = || Arc::from(error.to_string());
    let ErrorKind::Server(kind) = error.kind() else {
        return match error.code() {
            Some("BUSY") => Verdict::NotNow(why()),
            _ => Verdict::Answer(refused(&error)),
        };
    };
    match kind {
        ServerErrorKind::NoScript => Verdict::Unknown,
        ServerErrorKind::BusyLoading
        | ServerErrorKind::MasterDown
        | ServerErrorKind::ReadOnly
        | ServerErrorKind::ClusterDown => Verdict::NotNow(why()),
        ServerErrorKind::TryAgain => Verdict::Torn(why()),
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::ExecAbort => {
            Verdict::Elsewhere(error)
        }
        ServerErrorKind::CrossSlot => Verdict::Answer(Err(Failure::Refused(CROSS_SLOT.into()))),
        _ => Verdict::Answer(refused(&error)),
    }
}

/// The answer of a script that will not be run, for this reason.
pub(crate) fn refused(error: &RedisError) -> Answer {
    Err(Failure::Refused(error.to_string().into()))
}

/// A script answers with numbers and strings; anything else is no answer, and is seen so when it is
/// read.
fn value(reply: Reply) -> Value {
    match reply {
        Reply::Int(number) => Value::Number(number),
        Reply::BulkString(bytes) => Value::Bytes(bytes),
        other => Value::Bytes(format!("{other:?}").into_bytes()),
    }
}
