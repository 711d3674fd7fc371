//! Whether a server is well, as far as is known.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// Whether a store can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It has not been reached yet.
    Connecting,
    /// It answers.
    Up(Arc<About>),
    /// It has been away, or has not answered, for so long that asking it would be in vain; and why.
    Down(Arc<str>),
}

/// What a server tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Where it is.
    pub address: String,
    /// Its version.
    pub version: String,
}

/// Something that works, and should not remain so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The server may drop keys before their time: the policy by which it does.
    Evicting(String),
}

/// What a server answers to whoever looks after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// It is well; and its version, if it tells.
    Well(Option<String>),
    /// It answers, but can decide nothing just now.
    Unwell(Arc<str>),
    /// It is no master (any more).
    Demoted,
    /// The link broke.
    Broken(Arc<str>),
}

/// Asks a server how it is.
pub(crate) async fn pulse(connection: &mut MultiplexedConnection) -> Pulse {
    let mut asked = redis::pipe();
    // HELLO tells its role, also to those who may not ask for INFO; but not whether it is busy.
    asked.cmd("PING").cmd("HELLO");
    match connection.send_packed_commands(&asked, 0, 2).await {
        Err(error) if error.is_io_error() || error.is_connection_dropped() => {
            Pulse::Broken(error.to_string().into())
        }
        Err(error) => Pulse::Unwell(error.to_string().into()),
        Ok(replies) => read(replies),
    }
}

fn read(replies: Vec<Value>) -> Pulse {
    let mut replies = replies.into_iter();
    if let Some(Value::ServerError(error)) = replies.next() {
        let error = RedisError::from(error);
        if cannot_decide(&error) {
            return Pulse::Unwell(error.to_string().into());
        }
    }
    let Some(Value::Array(told)) = replies.next() else { return Pulse::Well(None) };
    let of = |name: &str| {
        let pairs = told.as_chunks().0.iter();
        pairs
            .filter_map(|[key, value]| Some((text(key)?, text(value)?)))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    match of("role") {
        Some("replica" | "slave") => Pulse::Demoted,
        _ => Pulse::Well(of("version").map(str::to_owned)),
    }
}

/// Whether a server that answers a PING so can decide nothing. Who may not ask (NOPERM) is answered all the same, and
/// one that writes nothing just now (MISCONF) says so to each call.
fn cannot_decide(error: &RedisError) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown))
        || matches!(error.code(), Some("BUSY" | "NOAUTH"))
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// What is to be said of a server that has just been connected to. One that does not tell is taken to be well.
pub(crate) async fn warning(connection: &mut MultiplexedConnection) -> Option<Warning> {
    let mut asked = redis::cmd("INFO");
    asked.arg("memory");
    let reply = connection.send_packed_command(&asked).await.ok()?;
    let told = match &reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::VerbatimString { text, .. } => text.as_str().into(),
        _ => return None,
    };
    let policy = told.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?.trim();
    (policy != "noeviction").then(|| Warning::Evicting(policy.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(role: &str) -> Value {
        let words = ["server", "redis", "version", "7.0.15", "role", role];
        Value::Array(words.map(|word| Value::BulkString(word.into())).to_vec())
    }

    #[test]
    fn a_master_that_answers_is_well() {
        let well = Pulse::Well(Some("7.0.15".into()));
        assert_eq!(read(vec![Value::SimpleString("PONG".into()), hello("master")]), well);
        assert_eq!(read(vec![Value::Okay]), Pulse::Well(None));
    }

    #[test]
    fn a_replica_is_no_master() {
        assert_eq!(read(vec![Value::Okay, hello("replica")]), Pulse::Demoted);
    }
}
