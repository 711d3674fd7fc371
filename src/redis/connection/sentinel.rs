//! Redis Sentinel: finds the address of the master.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::nat_map::NatMap;
use super::traffic::Traffic;
use crate::redis::connection::connector::{Address, Connector, NO_ANSWER, Session};

/// The interval between queries for the current master while calls flow.
const QUERY_INTERVAL: Duration = Duration::from_millis(500);

/// The time for an answer on an open session, until a new session is opened as well.
const OPEN_SESSION_WAIT: Duration = Duration::from_millis(250);

/// A client of the sentinels that monitor one master.
pub struct SentinelClient {
    sentinels: Vec<Sentinel>,
    master: String,
    connector: Connector,
    nat_map: NatMap,
    /// The queries under way. A query may outlive its search: its session stays open.
    queries: FuturesUnordered<BoxFuture<'static, QueryOutcome>>,
    search: u64,
}

struct Sentinel {
    address: Address,
    session: Option<Session>,
    is_queried: bool,
}

struct QueryOutcome {
    sentinel: usize,
    search: u64,
    found: Result<(Session, Address), Arc<str>>,
}

impl SentinelClient {
    /// A client of the sentinels at these addresses, for the master with this name.
    #[must_use]
    pub fn new(nodes: Vec<Address>, master: String, connector: Connector) -> Self {
        let sentinel = |address| Sentinel { address, session: None, is_queried: false };
        let sentinels = nodes.into_iter().map(sentinel).collect();
        let (nat_map, queries) = (NatMap::default(), FuturesUnordered::new());
        Self { sentinels, master, connector, nat_map, queries, search: 0 }
    }

    /// Connects to masters at other addresses than the sentinels report.
    #[must_use]
    pub fn with_nat_map(self, nat_map: NatMap) -> Self {
        Self { nat_map, ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.sentinels.len()
    }

    /// The address that most sentinels report for the master. Several have equally many votes in a
    /// tie: `last` then comes first. Waits until a majority of the sentinels report the same address,
    /// until all have answered or failed, or for the timeout of a connection attempt.
    pub(crate) async fn masters(
        &mut self,
        last: Option<&Address>,
    ) -> Result<Vec<Address>, Arc<str>> {
        let deadline = Instant::now() + self.connector.timeout;
        self.search += 1;
        (0..self.sentinels.len()).for_each(|sentinel| self.query(sentinel));
        let (mut answers, mut failure) = (Vec::<(Address, usize)>::new(), None);
        let mut expected = self.sentinels.len();
        while expected > 0 {
            let next = timeout_at(deadline, self.queries.next()).await;
            let Ok(Some(QueryOutcome { sentinel, search, found })) = next else { break };
            self.sentinels[sentinel].is_queried = false;
            let found = found.map(|(session, address)| {
                self.sentinels[sentinel].session = Some(session);
                address
            });
            // A late answer may be out of date.
            if search != self.search {
                self.query(sentinel);
                continue;
            }
            expected -= 1;
            let address = match found {
                Ok(reported) => self.nat_map.reachable(&reported).clone(),
                Err(why) => {
                    failure = Some(why);
                    continue;
                }
            };
            let known = answers.iter().position(|(other, _)| *other == address);
            let index = known.unwrap_or_else(|| {
                answers.push((address, 0));
                answers.len() - 1
            });
            answers[index].1 += 1;
            if answers[index].1 > self.sentinels.len() / 2 {
                break;
            }
        }
        if answers.is_empty() {
            let why = failure.unwrap_or_else(|| NO_ANSWER.into());
            return Err(format!("no sentinel knows the master: {why}").into());
        }
        Ok(elected(answers, last))
    }

    /// Starts a query of a sentinel, unless one is under way.
    fn query(&mut self, sentinel: usize) {
        let own = &mut self.sentinels[sentinel];
        if std::mem::replace(&mut own.is_queried, true) {
            return;
        }
        let (connector, address) = (self.connector.clone(), own.address.clone());
        let (session, master, search) = (own.session.take(), self.master.clone(), self.search);
        let outcome = async move {
            let found = query(&connector, &address, &master, session).await;
            QueryOutcome { sentinel, search, found }
        };
        self.queries.push(outcome.boxed());
    }

    /// Waits for another master than `from`. Queries less often while there is no traffic.
    pub(crate) async fn wait_for_failover(&mut self, from: &Address, traffic: Option<&Traffic>) {
        loop {
            match traffic {
                Some(traffic) => traffic.wait_for_check(Instant::now(), QUERY_INTERVAL).await,
                None => sleep(QUERY_INTERVAL).await,
            }
            if let Ok(masters) = self.masters(Some(from)).await
                && masters.first() != Some(from)
            {
                return;
            }
        }
    }
}

/// The addresses with the most votes, `last` first. An outvoted address may be that of an old master
/// that still accepts writes.
fn elected(answers: Vec<(Address, usize)>, last: Option<&Address>) -> Vec<Address> {
    let most = answers.iter().map(|(_, votes)| *votes).max();
    let elected = answers.into_iter().filter(|(_, votes)| Some(*votes) == most);
    let mut masters: Vec<_> = elected.map(|(address, _)| address).collect();
    masters.sort_by_key(|address| Some(address) != last);
    masters
}

/// Queries a sentinel on the open session. Opens a new one if that fails or takes long.
async fn query(
    connector: &Connector,
    address: &Address,
    master: &str,
    session: Option<Session>,
) -> Result<(Session, Address), Arc<str>> {
    let connect = async || {
        let session = connector.connect(address).await?;
        let late = |_| Arc::from(format!("{address}: {NO_ANSWER}"));
        timeout(connector.timeout, query_session(session, master)).await.map_err(late)?
    };
    let Some(session) = session else { return connect().await };
    let query = query_session(session, master);
    tokio::pin!(query);
    match timeout(OPEN_SESSION_WAIT, &mut query).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) => connect().await,
        Err(_) => tokio::select! {
            Ok(found) = query => Ok(found),
            found = connect() => found,
        },
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn elected_ports(votes: &[(u16, usize)], last: u16) -> Vec<u16> {
        let address = |port| Address::Tcp("a".into(), port);
        let answers = votes.iter().map(|(port, votes)| (address(*port), *votes)).collect();
        let ports =
            elected(answers, Some(&address(last))).into_iter().map(|address| match address {
                Address::Tcp(_, port) => port,
                Address::Unix(_) => 0,
            });
        ports.collect()
    }

    #[test]
    fn a_tie_keeps_the_last_master() {
        assert_eq!(elected_ports(&[(1, 1), (2, 1)], 2), [2, 1]);
        assert_eq!(elected_ports(&[(1, 1), (2, 1)], 1), [1, 2]);
        assert_eq!(elected_ports(&[(1, 1), (2, 1)], 3), [1, 2]);
    }

    #[test]
    fn an_outvoted_address_is_no_master() {
        assert_eq!(elected_ports(&[(1, 1), (2, 2)], 1), [2]);
        assert_eq!(elected_ports(&[(1, 1), (2, 2), (3, 2)], 1), [2, 3]);
    }
}
