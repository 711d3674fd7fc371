//! Health of a server: health checks, and their result.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use crate::redis::connection::connector::{Handshake, is_closed};

/// The health of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The store has not been reached yet.
    Connecting,
    /// The store answers.
    Up(Arc<ServerInfo>),
    /// The store was unhealthy for longer than its [`HealthOptions`](super::HealthOptions) allow, for
    /// this reason. Calls fail immediately.
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

/// How health is checked, and when a server is down.
#[derive(Debug, Clone, Copy)]
pub struct HealthOptions {
    /// How long there may be no healthy session. After that the server is down, so that calls fail
    /// immediately.
    pub down_after: Duration,
    /// The interval of health checks while there are no calls: of all servers of the store together.
    pub idle_interval: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HealthCheck {
    /// The server can run scripts. Contains its version, if the server reports it.
    Healthy(Option<String>),
    /// The server answers, but cannot run scripts now.
    Unhealthy(Arc<str>),
    Replica,
    Broken(Arc<str>),
}

impl HealthCheck {
    /// Why no script can be sent; `None` if healthy. A replica is, if scripts need no master.
    pub(crate) fn objection(self, needs_master: bool) -> Option<Arc<str>> {
        match self {
            Self::Healthy(_) => None,
            Self::Replica => needs_master.then(|| "Redis is a read-only replica".into()),
            Self::Unhealthy(why) | Self::Broken(why) => Some(why),
        }
    }
}

/// A script that counts as a write: a server that holds writes back does not answer it.
const WRITE_PROBE: &str = "return 1";

/// Checks the health of a server. With a key, the server must also answer a script that counts as a
/// write. The script declares the key, so that a proxy can route it, and does not use it.
pub(crate) async fn check_health(
    mut connection: MultiplexedConnection,
    handshake: Handshake,
    key: Option<&[u8]>,
) -> HealthCheck {
    let mut commands = redis::pipe();
    // HELLO reports the role, even to users without permission for INFO. PING reports BUSY.
    commands.cmd("PING");
    if handshake == Handshake::Full {
        commands.cmd("HELLO");
    }
    if let Some(key) = key {
        commands.cmd("EVAL").arg(WRITE_PROBE).arg(1).arg(key);
    }
    match connection.send_packed_commands(&commands, 0, commands.len()).await {
        Err(error) if is_closed(&error) => HealthCheck::Broken(error.to_string().into()),
        Err(error) => HealthCheck::Unhealthy(error.to_string().into()),
        Ok(replies) => health_of(replies),
    }
}

pub(crate) fn health_of(replies: Vec<Value>) -> HealthCheck {
    let mut version = None;
    for reply in replies {
        match reply {
            Value::ServerError(error) => {
                let error = RedisError::from(error);
                if cannot_run_scripts(&error) {
                    return HealthCheck::Unhealthy(error.to_string().into());
                }
            }
            Value::Array(fields) => {
                let field = |name: &str| {
                    let pairs = fields.as_chunks().0.iter();
                    pairs
                        .filter_map(|[key, value]| Some((text(key)?, text(value)?)))
                        .find_map(|(key, value)| (key == name).then_some(value))
                };
                if matches!(field("role"), Some("replica" | "slave")) {
                    return HealthCheck::Replica;
                }
                version = field("version").map(str::to_owned);
            }
            _ => {}
        }
    }
    HealthCheck::Healthy(version)
}

/// Whether this answer to a health check means that the server cannot run scripts. NOPERM does not:
/// the user may lack the permission for that command alone. Neither does MISCONF: each call gets
/// that error itself.
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
/// report it, there is no warning. Fails if the server ends the session.
pub(crate) async fn check_configuration(
    mut connection: MultiplexedConnection,
) -> Result<Option<StoreWarning>, RedisError> {
    let mut command = redis::cmd("INFO");
    command.arg("memory");
    match connection.send_packed_command(&command).await {
        Ok(reply) => Ok(warning_of(&reply)),
        Err(error) if is_closed(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

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
