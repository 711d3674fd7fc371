//! Converts the client library's replies to script calls.

use redis::{RedisError, Value as Reply};

use crate::redis::codec::reply::ReplyValue;

/// The values of a script's reply, or the server's error.
pub(crate) fn script_reply(reply: Reply) -> Result<Vec<ReplyValue>, RedisError> {
    match reply {
        Reply::ServerError(error) => Err(error.into()),
        Reply::Array(values) => Ok(values.into_iter().map(value).collect()),
        other => Ok(vec![value(other)]),
    }
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
