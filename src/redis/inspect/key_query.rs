//! What a key is asked, and what it answers.

use redis::{ErrorKind, Pipeline, ServerErrorKind, Value};

use crate::redis::inspect::{Raw, Shape, StoredName, shape_of};

/// What became of reading a key.
pub(crate) enum Told {
    /// There is no such key.
    Nothing,
    /// It is what no limiter writes.
    Other,
    /// Another node has it.
    Moved,
    /// It may not be read.
    Denied(String),
    Is(Raw),
}

/// What is read of a key: its name, as read and as written, and how its state lies.
pub(crate) struct Wanted {
    pub(crate) name: StoredName,
    pub(crate) written: Vec<u8>,
    pub(crate) shape: Shape,
}

impl Wanted {
    pub(crate) fn of(prefix: &str, written: Vec<u8>) -> Option<Self> {
        let name = StoredName::read(prefix, &written)?;
        let shape = shape_of(&name.tag)?;
        Some(Self { name, written, shape })
    }

    /// How many replies it takes.
    pub(crate) fn replies(&self) -> usize {
        if self.shape == Shape::Log { 3 } else { 1 }
    }

    pub(crate) fn ask(&self, pipeline: &mut Pipeline) {
        let name = &self.written[..];
        match self.shape {
            Shape::Rate | Shape::Window | Shape::Interval | Shape::Counter => {
                pipeline.cmd("GET").arg(name);
            }
            Shape::List => {
                pipeline.cmd("LRANGE").arg(name).arg(0).arg(-1);
            }
            Shape::Hash => {
                pipeline.cmd("HGETALL").arg(name);
            }
            Shape::Log => {
                pipeline.cmd("ZRANGE").arg(name).arg(0).arg(0).arg("WITHSCORES");
                pipeline.cmd("ZRANGE").arg(name).arg(-1).arg(-1).arg("WITHSCORES");
                pipeline.cmd("ZCARD").arg(name);
            }
        }
    }

    pub(crate) fn raw(&self, replies: Vec<Value>) -> Told {
        let mut items = Vec::new();
        for reply in replies {
            match reply {
                Value::Nil => return Told::Nothing,
                Value::BulkString(text) => return Told::Is(Raw::Text(text)),
                Value::Int(number) => items.push(number.to_string().into_bytes()),
                Value::Array(values) if values.is_empty() => return Told::Nothing,
                Value::Array(values) => {
                    items.extend(values.iter().filter_map(bytes).map(Vec::from));
                }
                Value::ServerError(error) => {
                    let error = redis::RedisError::from(error);
                    return match error.kind() {
                        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                            Told::Moved
                        }
                        _ if error.code() == Some("WRONGTYPE") => Told::Other,
                        _ => Told::Denied(error.to_string()),
                    };
                }
                _ => return Told::Other,
            }
        }
        Told::Is(Raw::Items(items))
    }
}

pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}
