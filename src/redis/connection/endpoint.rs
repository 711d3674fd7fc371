//! The server of a connection: a fixed address, or the master that Redis Sentinel reports.

use std::net::IpAddr;
use std::sync::Arc;

use redis::from_redis_value;
use tokio::time::timeout;

use super::health::{HealthCheck, ServerInfo, StoreWarning, check_configuration, check_health};
use super::sentinel::SentinelClient;
use super::tls::Tls;
use crate::redis::connection::connector::{Address, Connector, Session};

/// The server of a connection, and the options for connecting to it.
#[derive(Debug)]
pub struct Endpoint {
    connector: Connector,
    discovery: Discovery,
}

#[derive(Debug)]
enum Discovery {
    /// The server has this address, which the user has given.
    Fixed(Address),
    /// The node of a cluster has this address. The second value connects to it if the first
    /// connector fails.
    Node(Address, Option<Box<Connector>>),
    /// Sentinels report the address of the master. The second value is the master of the last
    /// session.
    Sentinel(Box<SentinelClient>, Option<Address>),
}

/// A new session whose server has passed a health check.
pub(crate) struct CheckedSession {
    pub(crate) session: Session,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) warnings: Vec<StoreWarning>,
}

impl Endpoint {
    /// The server at this address.
    #[must_use]
    pub fn direct(address: Address, connector: Connector) -> Self {
        Self { connector, discovery: Discovery::Fixed(address) }
    }

    /// The node of a cluster at this address. The user's server name is that of nodes that the user
    /// has named (`is_seed`), and perhaps that of a node that has only an IP address: other nodes
    /// have certificates of their own.
    pub(crate) fn node(address: Address, connector: Connector, is_seed: bool) -> Self {
        let tls = connector.tls.as_ref().and_then(Tls::without_server_name);
        let own_name = tls.map(|tls| Connector { tls: Some(tls), ..connector.clone() });
        let is_ip = matches!(&address, Address::Tcp(host, _) if host.parse::<IpAddr>().is_ok());
        let (connector, alternative) = match own_name {
            Some(own_name) if is_ip => (connector, Some(Box::new(own_name))),
            Some(own_name) if !is_seed => (own_name, None),
            _ => (connector, None),
        };
        Self { connector, discovery: Discovery::Node(address, alternative) }
    }

    /// The master that the sentinels report.
    #[must_use]
    pub fn master(sentinels: SentinelClient, connector: Connector) -> Self {
        Self { connector, discovery: Discovery::Sentinel(Box::new(sentinels), None) }
    }

    /// The options for connecting.
    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// The fixed address, or the master of the last session.
    pub(crate) fn last_address(&self) -> Option<&Address> {
        match &self.discovery {
            Discovery::Fixed(address) | Discovery::Node(address, _) => Some(address),
            Discovery::Sentinel(_, last) => last.as_ref(),
        }
    }

    /// Whether the address is fixed.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.discovery, Discovery::Fixed(_) | Discovery::Node(..))
    }

    /// Opens a session to a server that answers and can run scripts.
    pub(crate) async fn connect(&mut self) -> Result<CheckedSession, Arc<str>> {
        let Self { connector, discovery } = self;
        match discovery {
            Discovery::Node(address, alternative) => {
                match (open_checked(connector, address, false).await, alternative) {
                    (Err(why), Some(alternative)) => {
                        open_checked(alternative, address, false).await.map_err(|_| why)
                    }
                    (opened, _) => opened,
                }
            }
            Discovery::Fixed(address) => {
                let mut opened = open_checked(connector, address, false).await?;
                opened.warnings.extend(warn_of_cluster(connector, &mut opened.session).await);
                Ok(opened)
            }
            Discovery::Sentinel(sentinels, last) => {
                let mut why = "no sentinel knows the master".into();
                for address in sentinels.masters().await? {
                    let opened = tokio::select! {
                        opened = open_checked(connector, &address, true) => opened,
                        // A master that does not answer may be replaced during the attempt.
                        () = sentinels.wait_for_failover(&address) => {
                            Err(format!("{address} is not the master").into())
                        }
                    };
                    match opened {
                        Ok(checked) => {
                            *last = Some(address);
                            return Ok(checked);
                        }
                        Err(failed) => why = failed,
                    }
                }
                Err(why)
            }
        }
    }

    /// Waits until the sentinels report another master than that of the last session. Never
    /// completes for a fixed address.
    pub(crate) async fn wait_for_failover(&mut self) {
        match &mut self.discovery {
            Discovery::Sentinel(sentinels, Some(last)) => sentinels.wait_for_failover(last).await,
            _ => std::future::pending().await,
        }
    }
}

/// Opens a session, and checks that the server can run scripts.
async fn open_checked(
    connector: &Connector,
    address: &Address,
    must_be_master: bool,
) -> Result<CheckedSession, Arc<str>> {
    let mut session = connector.connect(address).await?;
    let checks = async {
        let version = match check_health(&mut session.handle.connection).await {
            HealthCheck::Healthy(version) => version.unwrap_or_default(),
            HealthCheck::Replica if must_be_master => {
                return Err(format!("{address} is a replica"));
            }
            // The replica may become a master. Until then each call fails with READONLY.
            HealthCheck::Replica => String::new(),
            HealthCheck::Unhealthy(why) | HealthCheck::Broken(why) => {
                return Err(format!("{address}: {why}"));
            }
        };
        Ok((version, check_configuration(&mut session.handle.connection).await))
    };
    let late = |_| format!("{address} did not answer in time");
    let (version, warning) = timeout(connector.timeout, checks).await.map_err(late)??;
    let info = Arc::new(ServerInfo { address: address.to_string(), version });
    Ok(CheckedSession { session, info, warnings: warning.into_iter().collect() })
}

/// A warning if the server is one of several masters of a cluster, and says so.
async fn warn_of_cluster(connector: &Connector, session: &mut Session) -> Option<StoreWarning> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("INFO");
    let asking = session.handle.connection.send_packed_command(&command);
    let info: String =
        from_redis_value(timeout(connector.timeout, asking).await.ok()?.ok()?).ok()?;
    let masters = info.lines().find_map(|line| line.strip_prefix("cluster_size:"))?.trim();
    (masters.parse::<u32>().ok()? > 1).then_some(StoreWarning::ClusterNode)
}
