//! Classifies the reply to a script call: whether the script has run, and if not, how to send it
//! again.

use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value as Reply};

use super::super::slot::CROSS_SLOT;
use crate::redis::batch::script_call::{ScriptFailure, ScriptResult};
use crate::redis::codec::reply::ReplyValue;

/// How to proceed after a reply. Except with `NoRetry`, the script has not run.
#[derive(Debug)]
pub(crate) enum RetryMethod {
    /// The script has run, or never will.
    NoRetry(ScriptResult),
    /// The server does not know the script: send its source.
    SendSource,
    /// The server cannot run any script now: wait, then send again.
    WaitAndRetry(Arc<str>),
    /// The keys are on two nodes of a cluster while their slot migrates.
    SlotMigrating(Arc<str>),
    /// A reply that only a node of a cluster sends: MOVED, ASK, or an aborted transaction.
    Redirect(RedisError),
}

/// The retry method for a reply to a script call.
pub(crate) fn retry_method(reply: Reply) -> RetryMethod {
    let error: RedisError = match reply {
        Reply::ServerError(error) => error.into(),
        Reply::Array(values) => {
            return RetryMethod::NoRetry(Ok(values.into_iter().map(value).collect()));
        }
        other => return RetryMethod::NoRetry(Ok(vec![value(other)])),
    };
    let why = || Arc::from(error.to_string());
    let ErrorKind::Server(kind) = error.kind() else {
        return match error.code() {
            Some("BUSY") => RetryMethod::WaitAndRetry(why()),
            _ => RetryMethod::NoRetry(refusal(&error)),
        };
    };
    match kind {
        ServerErrorKind::NoScript => RetryMethod::SendSource,
        ServerErrorKind::BusyLoading
        | ServerErrorKind::MasterDown
        | ServerErrorKind::ReadOnly
        | ServerErrorKind::ClusterDown => RetryMethod::WaitAndRetry(why()),
        ServerErrorKind::TryAgain => RetryMethod::SlotMigrating(why()),
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::ExecAbort => {
            RetryMethod::Redirect(error)
        }
        ServerErrorKind::CrossSlot => {
            RetryMethod::NoRetry(Err(ScriptFailure::Refused(CROSS_SLOT.into())))
        }
        _ => RetryMethod::NoRetry(refusal(&error)),
    }
}

/// The answer of a script call that the server refused with this error.
pub(crate) fn refusal(error: &RedisError) -> ScriptResult {
    Err(ScriptFailure::Refused(error.to_string().into()))
}

/// Converts a value of a script's reply. The scripts return numbers and strings; another type
/// becomes text, which the reply decoder rejects.
fn value(reply: Reply) -> ReplyValue {
    match reply {
        Reply::Int(number) => ReplyValue::Number(number),
        Reply::BulkString(bytes) => ReplyValue::Bytes(bytes),
        other => ReplyValue::Bytes(format!("{other:?}").into_bytes()),
    }
}
