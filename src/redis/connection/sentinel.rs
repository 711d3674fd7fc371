//! Redis Sentinel: finds the address of the master.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::Value;
use tokio::time::{sleep, timeout};

use super::nat_map::NatMap;
use crate::redis::connection::connector::{Address, Connector, Session};

/// The interval between queries for the current master.
const QUERY_INTERVAL: Duration = Duration::from_millis(500);

/// The time limit for the other sentinels' answers after the first one has answered.
const QUORUM_WAIT: Duration = Duration::from_millis(50);

/// A client of the sentinels that monitor one master.
#[derive(Debug)]
pub struct SentinelClient {
    nodes: Vec<Address>,
    master: String,
    connector: Connector,
    nat_map: NatMap,
    sessions: HashMap<Address, SentinelSession>,
}

/// Wraps a session to give it a debug output.
struct SentinelSession(Session);

impl std::fmt::Debug for SentinelSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SentinelSession")
    }
}

impl SentinelClient {
    /// A client of the sentinels at these addresses, for the master with this name.
    #[must_use]
    pub fn new(nodes: Vec<Address>, master: String, connector: Connector) -> Self {
        Self { nodes, master, connector, nat_map: NatMap::default(), sessions: HashMap::new() }
    }

    /// Connects to masters at other addresses than the sentinels report.
    #[must_use]
    pub fn with_nat_map(self, nat_map: NatMap) -> Self {
        Self { nat_map, ..self }
    }

    /// The addresses that the sentinels report for the master, the most frequent one first.
    pub(crate) async fn masters(&mut self) -> Result<Vec<Address>, Arc<str>> {
        let (mut answers, mut failures) = (Vec::<(Address, usize)>::new(), Vec::new());
        let queries = self.nodes.iter().map(|node| {
            let session = self.sessions.remove(node).map(|SentinelSession(session)| session);
            query(&self.connector, node, session, &self.master)
        });
        let mut queries: FuturesUnordered<_> = queries.collect();
        loop {
            let next = if answers.is_empty() {
                queries.next().await
            } else {
                timeout(QUORUM_WAIT, queries.next()).await.unwrap_or(None)
            };
            let Some((node, result)) = next else { break };
            match result {
                Ok((session, reported)) => {
                    let address = self.nat_map.reachable(&reported).clone();
                    self.sessions.insert(node.clone(), SentinelSession(session));
                    match answers.iter_mut().find(|(other, _)| *other == address) {
                        Some((_, votes)) => *votes += 1,
                        None => answers.push((address, 1)),
                    }
                }
                Err(why) => failures.push(why),
            }
        }
        if answers.is_empty() {
            let why = failures.pop().unwrap_or_else(|| "there are no sentinels".into());
            return Err(format!("no sentinel knows the master: {why}").into());
        }
        answers.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        Ok(answers.into_iter().map(|(address, _)| address).collect())
    }

    /// Waits until the sentinels report another master than `from`.
    pub(crate) async fn wait_for_failover(&mut self, from: &Address) {
        loop {
            sleep(QUERY_INTERVAL).await;
            if let Ok(masters) = self.masters().await
                && masters.first() != Some(from)
            {
                return;
            }
        }
    }
}

/// Queries one sentinel on its existing session, or on a new one if that fails.
async fn query<'n>(
    connector: &Connector,
    node: &'n Address,
    session: Option<Session>,
    master: &str,
) -> (&'n Address, Result<(Session, Address), Arc<str>>) {
    if let Some(session) = session
        && let Ok(result) = timeout(connector.timeout, query_session(session, master)).await
        && let Ok(found) = result
    {
        return (node, Ok(found));
    }
    let result = async {
        let session = connector.connect(node).await?;
        let late = |_| Arc::from(format!("{node} did not answer in time"));
        timeout(connector.timeout, query_session(session, master)).await.map_err(late)?
    };
    (node, result.await)
}

/// Queries the address of the master on this session.
async fn query_session(mut session: Session, master: &str) -> Result<(Session, Address), Arc<str>> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(master);
    let reply = session
        .handle
        .connection
        .send_packed_command(&command)
        .await
        .map_err(|error| error.to_string())?;
    Ok((session, master_of(reply, master)?))
}

/// Decodes the reply to SENTINEL get-master-addr-by-name.
pub(crate) fn master_of(reply: Value, master: &str) -> Result<Address, Arc<str>> {
    match reply {
        Value::Array(words) => match &words[..] {
            [Value::BulkString(host), Value::BulkString(port)] => {
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
                let port = port.ok_or("a sentinel reported no valid port")?;
                let host = String::from_utf8_lossy(host).into_owned();
                Ok(Address::Tcp(host, port))
            }
            _ => Err("a sentinel sent an unexpected reply".into()),
        },
        Value::Nil => Err(format!("the sentinels watch no master {master:?}").into()),
        Value::ServerError(error) => Err(redis::RedisError::from(error).to_string().into()),
        _ => Err("a sentinel sent an unexpected reply".into()),
    }
}
