//! Health of a server: health checks, and their result.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

/// The health of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The store has not been reached yet.
    Connecting,
    /// The store answers.
    Up(Arc<ServerInfo>),
    /// The store was unreachable or unresponsive for longer than its
    /// [`HealthTimeouts`](super::HealthTimeouts) allow, for this reason. Calls fail immediately.
    Down(Arc<str>),
}

/// A server's address and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The address that the session is connected to.
    pub address: String,
    /// The version; empty if the server does not report it.
    pub version: String,
}

/// A problem with a server's configuration. The store works, but an operator should fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreWarning {
    /// The server may evict keys before they expire. Contains its `maxmemory-policy`.
    Evicting(String),
    /// The server has the keys of some slots of a cluster, but was not given as a node of one.
    ClusterNode,
}

/// The result of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealthCheck {
    /// The server can run scripts. Contains its version, if the server reports it.
    Healthy(Option<String>),
    /// The server answers, but cannot run scripts now.
    Unhealthy(Arc<str>),
    /// The server is a replica.
    Replica,
    /// The session broke.
    Broken(Arc<str>),
}

/// Checks the health of a server.
pub(crate) async fn check_health(connection: &mut MultiplexedConnection) -> HealthCheck {
    let mut commands = redis::pipe();
    // HELLO reports the role, even to users without permission for INFO. It does not report BUSY;
    // PING does.
    commands.cmd("PING").cmd("HELLO");
    match connection.send_packed_commands(&commands, 0, 2).await {
        Err(error) if error.is_io_error() || error.is_connection_dropped() => {
            HealthCheck::Broken(error.to_string().into())
        }
        Err(error) => HealthCheck::Unhealthy(error.to_string().into()),
        Ok(replies) => health_of(replies),
    }
}

/// Decodes the replies to PING and HELLO.
pub(crate) fn health_of(replies: Vec<Value>) -> HealthCheck {
    let mut replies = replies.into_iter();
    if let Some(Value::ServerError(error)) = replies.next() {
        let error = RedisError::from(error);
        if cannot_run_scripts(&error) {
            return HealthCheck::Unhealthy(error.to_string().into());
        }
    }
    let Some(Value::Array(fields)) = replies.next() else { return HealthCheck::Healthy(None) };
    let field = |name: &str| {
        let pairs = fields.as_chunks().0.iter();
        pairs
            .filter_map(|[key, value]| Some((text(key)?, text(value)?)))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    match field("role") {
        Some("replica" | "slave") => HealthCheck::Replica,
        _ => HealthCheck::Healthy(field("version").map(str::to_owned)),
    }
}

/// Whether this answer to PING means that the server cannot run scripts. NOPERM does not: the user
/// may lack the permission for PING alone. Neither does MISCONF: each call gets that error itself.
fn cannot_run_scripts(error: &RedisError) -> bool {
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

/// Checks the configuration of a server that has just been connected to. If the server does not
/// report it, there is no warning.
pub(crate) async fn check_configuration(
    connection: &mut MultiplexedConnection,
) -> Option<StoreWarning> {
    let mut command = redis::cmd("INFO");
    command.arg("memory");
    warning_of(&connection.send_packed_command(&command).await.ok()?)
}

/// Decodes the reply to INFO memory.
pub(crate) fn warning_of(reply: &Value) -> Option<StoreWarning> {
    let info = match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::VerbatimString { text, .. } => text.as_str().into(),
        _ => return None,
    };
    let policy = info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:"))?.trim();
    (policy != "noeviction").then(|| StoreWarning::Evicting(policy.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(role: &str) -> Value {
        let words = ["server", "redis", "version", "7.0.15", "role", role];
        Value::Array(words.map(|word| Value::BulkString(word.into())).to_vec())
    }

    #[test]
    fn a_master_that_answers_is_healthy() {
        let healthy = HealthCheck::Healthy(Some("7.0.15".into()));
        assert_eq!(health_of(vec![Value::SimpleString("PONG".into()), hello("master")]), healthy);
        assert_eq!(health_of(vec![Value::Okay]), HealthCheck::Healthy(None));
    }

    #[test]
    fn a_replica_is_no_master() {
        assert_eq!(health_of(vec![Value::Okay, hello("replica")]), HealthCheck::Replica);
    }

    fn refused(reply: &str) -> HealthCheck {
        let reply = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        health_of(vec![reply, hello("master")])
    }

    #[test]
    fn a_refusal_that_each_call_gets_itself_is_healthy() {
        for reply in [
            "MISCONF Errors writing to the disk",
            "NOPERM User has no permissions to run 'ping'",
            "OOM command not allowed when used memory > 'maxmemory'",
            "NOREPLICAS Not enough good replicas to write",
        ] {
            assert!(matches!(refused(reply), HealthCheck::Healthy(Some(_))), "{reply}");
        }
    }

    #[test]
    fn a_server_that_cannot_run_scripts_is_unhealthy() {
        for reply in [
            "BUSY Redis is busy running a script",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
            "NOAUTH Authentication required",
        ] {
            assert!(matches!(refused(reply), HealthCheck::Unhealthy(_)), "{reply}");
        }
    }
}
