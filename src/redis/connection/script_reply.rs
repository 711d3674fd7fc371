//! Converts the client library's replies to script calls.

use redis::{ServerError, Value as Reply};

use crate::redis::codec::reply::ReplyValue;

/// The values of a script's reply, or the server's error as the server sent it.
pub(crate) fn script_reply(reply: Reply) -> Result<Vec<ReplyValue>, String> {
    match reply {
        Reply::ServerError(error) => Err(error_text(&error)),
        Reply::Array(values) => Ok(values.into_iter().map(value).collect()),
        other => Ok(vec![value(other)]),
    }
}

pub(crate) fn error_text(error: &ServerError) -> String {
    error.details().map_or_else(|| error.code().into(), |why| format!("{} {why}", error.code()))
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
