//! The commands that read a key, and their replies.

use redis::{ErrorKind, Pipeline, ServerErrorKind, Value};

use crate::redis::codec::{RawValue, ScriptAlgorithm, layout_of};
use crate::redis::inspect::StoredName;

#[cfg_attr(feature = "fuzzing", derive(Debug))]
pub(crate) enum KeyReport {
    Absent,
    /// The key has a value that no limiter writes.
    Foreign,
    /// Another node has the key.
    Moved,
    /// The server refused to read the key, with this error.
    Denied(String),
    Stored(RawValue),
}

pub(crate) struct KeyQuery {
    pub(crate) name: StoredName,
    /// The name as it is in Redis.
    pub(crate) encoded: Vec<u8>,
    pub(crate) layout: ScriptAlgorithm,
}

impl KeyQuery {
    pub(crate) fn new(prefix: &str, encoded: Vec<u8>) -> Option<Self> {
        let name = StoredName::read(prefix, &encoded)?;
        let layout = layout_of(&name.tag)?;
        Some(Self { name, encoded, layout })
    }

    /// The number of commands, and so of replies.
    pub(crate) fn reply_count(&self) -> usize {
        if self.layout == ScriptAlgorithm::SlidingLog { 3 } else { 1 }
    }

    pub(crate) fn push_commands(&self, pipeline: &mut Pipeline) {
        let name = &self.encoded[..];
        match self.layout {
            ScriptAlgorithm::SlidingWindowList => {
                pipeline.cmd("LRANGE").arg(name).arg(0).arg(-1);
            }
            ScriptAlgorithm::SlidingWindowHash => {
                pipeline.cmd("HGETALL").arg(name);
            }
            ScriptAlgorithm::SlidingLog => {
                pipeline.cmd("ZRANGE").arg(name).arg(0).arg(0).arg("WITHSCORES");
                pipeline.cmd("ZRANGE").arg(name).arg(-1).arg(-1).arg("WITHSCORES");
                pipeline.cmd("ZCARD").arg(name);
            }
            _ => {
                pipeline.cmd("GET").arg(name);
            }
        }
    }

    pub(crate) fn report(&self, replies: Vec<Value>) -> KeyReport {
        let mut items = Vec::new();
        for reply in replies {
            match reply {
                Value::Nil => return KeyReport::Absent,
                Value::BulkString(text) => return KeyReport::Stored(RawValue::Text(text)),
                Value::Int(number) => items.push(number.to_string().into_bytes()),
                Value::Array(values) if values.is_empty() => return KeyReport::Absent,
                Value::Array(values) => {
                    items.extend(values.iter().filter_map(bytes).map(Vec::from));
                }
                Value::ServerError(error) => {
                    let error = redis::RedisError::from(error);
                    return match error.kind() {
                        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                            KeyReport::Moved
                        }
                        _ if error.code() == Some("WRONGTYPE") => KeyReport::Foreign,
                        _ => KeyReport::Denied(error.to_string()),
                    };
                }
                _ => return KeyReport::Foreign,
            }
        }
        KeyReport::Stored(RawValue::Items(items))
    }
}

pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}
