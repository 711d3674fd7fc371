//! Health of a server: health checks, and their result.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use crate::redis::connection::connector::{Handshake, is_closed};
use crate::redis::connection::script_reply::error_text;

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
    Replica {
        of_cluster: bool,
    },
    Broken(Arc<str>),
}

impl HealthCheck {
    /// Why no script can be sent; `None` if healthy. A replica is, if scripts need no master.
    pub(crate) fn objection(self, needs_master: bool) -> Option<Arc<str>> {
        match self {
            Self::Healthy(_) => None,
            Self::Replica { of_cluster } => needs_master.then(|| match of_cluster {
                true => REPLICA_OF_CLUSTER.into(),
                false => "Redis is a read-only replica".into(),
            }),
            Self::Unhealthy(why) | Self::Broken(why) => Some(why),
        }
    }
}

const REPLICA_OF_CLUSTER: &str = "Redis is a read-only replica in a Redis Cluster: list the nodes of \
                                  the cluster in the option cluster: { nodes }";

/// A script that writes, but changes nothing: the text that it writes is empty. A server that holds
/// writes back does not answer it, and a replica refuses it.
const WRITE_PROBE: &str = "return redis.pcall('SETRANGE', KEYS[1], 0, '')";

/// Checks the health of a server. With a key, the server must also run a script that writes. The
/// script declares the key, so that a proxy can route it.
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
                let error = error_text(&error);
                if cannot_run_scripts(&error) {
                    return HealthCheck::Unhealthy(error.into());
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
                    return HealthCheck::Replica { of_cluster: field("mode") == Some("cluster") };
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
fn cannot_run_scripts(error: &str) -> bool {
    let code = error.split(' ').next();
    matches!(code, Some("BUSY" | "DENIED" | "LOADING" | "MASTERDOWN" | "NOAUTH"))
        || error.starts_with("ERR max number of clients reached")
        // Redis 6.2 precedes the code of a script's error with other words.
        || error.contains("READONLY ")
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// Checks the configuration of a server that has just been connected to. If the server does not
/// report it, there is no warning. Fails if the server ends the session. `is_single`: the user has
/// not given the server as one of several.
pub(crate) async fn check_configuration(
    mut connection: MultiplexedConnection,
    is_single: bool,
) -> Result<Vec<StoreWarning>, RedisError> {
    let mut commands = redis::pipe();
    commands.cmd("INFO").arg("memory");
    if is_single {
        commands.cmd("CLUSTER").arg("INFO");
    }
    match connection.send_packed_commands(&commands, 0, commands.len()).await {
        Ok(replies) => Ok(replies.iter().filter_map(warning_of).collect()),
        Err(error) if is_closed(&error) => Err(error),
        Err(_) => Ok(Vec::new()),
    }
}

/// The warning that follows from a reply to INFO or CLUSTER INFO.
pub(crate) fn warning_of(reply: &Value) -> Option<StoreWarning> {
    let info = match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes),
        Value::VerbatimString { text, .. } => text.as_str().into(),
        _ => return None,
    };
    let field = |name: &str| Some(info.lines().find_map(|line| line.strip_prefix(name))?.trim());
    if let Some(policy) = field("maxmemory_policy:") {
        return (policy != "noeviction").then(|| StoreWarning::Evicting(policy.to_owned()));
    }
    let masters = field("cluster_size:")?.parse::<u32>().ok()?;
    (masters > 1).then_some(StoreWarning::ClusterNode)
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
        let replica = HealthCheck::Replica { of_cluster: false };
        assert_eq!(health_of(vec![Value::Okay, hello("replica")]), replica);
    }

    #[test]
    fn a_replica_in_a_cluster_names_the_option() {
        let words = ["mode", "cluster", "role", "replica"];
        let hello = Value::Array(words.map(|word| Value::BulkString(word.into())).to_vec());
        let why = health_of(vec![hello]).objection(true).expect("a replica is no master");
        assert!(why.contains("cluster: { nodes }"), "{why}");
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
            "DENIED Redis is running in protected mode",
            "ERR max number of clients reached",
            "READONLY You can't write against a read only replica.",
            "@user_script: 1: -READONLY You can't write against a read only replica.",
        ] {
            assert_eq!(refused(reply), HealthCheck::Unhealthy(reply.into()));
        }
    }
}
