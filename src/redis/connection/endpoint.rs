//! The server of a connection: a fixed address, or the master that Redis Sentinel reports.

use std::sync::Arc;

use tokio::time::timeout;

use super::health::{HealthCheck, ServerInfo, StoreWarning, check_configuration, check_health};
use super::sentinel::SentinelClient;
use crate::redis::connection::connector::{Address, Connector, Session};

/// The server of a connection, and the options for connecting to it.
#[derive(Debug)]
pub struct Endpoint {
    connector: Connector,
    discovery: Discovery,
}

#[derive(Debug)]
enum Discovery {
    /// The server has this address.
    Fixed(Address),
    /// Sentinels report the address of the master. The second value is the master of the last
    /// session.
    Sentinel(Box<SentinelClient>, Option<Address>),
}

/// A new session whose server has passed a health check.
pub(crate) struct CheckedSession {
    pub(crate) session: Session,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) warning: Option<StoreWarning>,
}

impl Endpoint {
    /// The server at this address.
    #[must_use]
    pub fn direct(address: Address, connector: Connector) -> Self {
        Self { connector, discovery: Discovery::Fixed(address) }
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
            Discovery::Fixed(address) => Some(address),
            Discovery::Sentinel(_, last) => last.as_ref(),
        }
    }

    /// Whether the address is fixed.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.discovery, Discovery::Fixed(_))
    }

    /// Opens a session to a server that answers and can run scripts.
    pub(crate) async fn connect(&mut self) -> Result<CheckedSession, Arc<str>> {
        let Self { connector, discovery } = self;
        match discovery {
            Discovery::Fixed(address) => open_checked(connector, address, false).await,
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
    Ok(CheckedSession { session, info, warning })
}
