//! The server of a connection: a fixed address, a node of a cluster, or the master that Redis
//! Sentinel reports.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::timeout;

use super::health::{HealthCheck, ServerInfo, StoreWarning, check_configuration, check_health};
use super::sentinel::SentinelClient;
use super::tls::Tls;
use super::traffic::Traffic;
use crate::redis::connection::connector::{
    Address, Connector, Handshake, NO_ANSWER, OpenError, Session, Target,
};

/// The server of a connection, and the options for connecting to it.
pub struct Endpoint {
    pub(crate) connector: Connector,
    discovery: Discovery,
    /// The handshake that the server accepts, as far as is known.
    handshake: Handshake,
}

enum Discovery {
    /// The server has this address, which the user has given. It must be a master.
    Fixed(Address),
    /// The node of a cluster has this address. It may be a replica: it answers with the owner of the
    /// slot. The second value connects to it if the first connector fails.
    Node(Address, Option<Box<Connector>>),
    /// Sentinels report the master's address. The second value is the last session's master.
    Sentinel(Box<SentinelClient>, Option<Address>),
}

pub(crate) struct CheckedSession {
    pub(crate) session: Session,
    pub(crate) handshake: Handshake,
    pub(crate) info: Arc<ServerInfo>,
    pub(crate) warnings: Vec<StoreWarning>,
}

impl Endpoint {
    /// The server at this address.
    #[must_use]
    pub fn direct(address: Address, connector: Connector) -> Self {
        Self::new(Discovery::Fixed(address), connector)
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
        Self::new(Discovery::Node(address, alternative), connector)
    }

    /// The master that the sentinels report.
    #[must_use]
    pub fn master(sentinels: SentinelClient, connector: Connector) -> Self {
        Self::new(Discovery::Sentinel(Box::new(sentinels), None), connector)
    }

    fn new(discovery: Discovery, connector: Connector) -> Self {
        Self { connector, discovery, handshake: Handshake::Full }
    }

    /// The fixed address, or the master of the last session.
    pub(crate) fn last_address(&self) -> Option<&Address> {
        match &self.discovery {
            Discovery::Fixed(address) | Discovery::Node(address, _) => Some(address),
            Discovery::Sentinel(_, last) => last.as_ref(),
        }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        !matches!(self.discovery, Discovery::Sentinel(..))
    }

    pub(crate) fn needs_master(&self) -> bool {
        !matches!(self.discovery, Discovery::Node(..))
    }

    /// The number of servers that are checked. Two sentinels count as one: the check of a server is
    /// two commands, and that of a sentinel is one.
    pub(crate) fn servers(&self) -> usize {
        match &self.discovery {
            Discovery::Fixed(_) | Discovery::Node(..) => 1,
            Discovery::Sentinel(sentinels, _) => 1 + sentinels.len().div_ceil(2),
        }
    }

    /// Opens a session that passes [`check_health`], with this key if there is one.
    pub(crate) async fn connect(&mut self, key: Option<&[u8]>) -> Result<CheckedSession, Arc<str>> {
        let (needs_master, is_single) =
            (self.needs_master(), matches!(self.discovery, Discovery::Fixed(_)));
        let Self { connector, discovery, handshake } = self;
        let mut attempt = Attempt { connector, handshake, needs_master, is_single, key };
        match discovery {
            Discovery::Fixed(address) => attempt.open(address).await,
            Discovery::Node(address, alternative) => {
                match (attempt.open(address).await, alternative) {
                    (Err(why), Some(alternative)) => {
                        attempt.connector = alternative;
                        attempt.open(address).await.map_err(|_| why)
                    }
                    (opened, _) => opened,
                }
            }
            Discovery::Sentinel(sentinels, last) => {
                let mut why = "no sentinel knows the master".into();
                for address in sentinels.masters(last.as_ref()).await? {
                    let opened = tokio::select! {
                        opened = attempt.open(&address) => opened,
                        // A master that does not answer may be replaced during the attempt.
                        () = sentinels.wait_for_failover(&address, None) => {
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

    /// Waits until the sentinels report another master. Never completes for a fixed address.
    pub(crate) async fn wait_for_failover(&mut self, traffic: &Traffic) {
        match &mut self.discovery {
            Discovery::Sentinel(sentinels, Some(last)) => {
                sentinels.wait_for_failover(last, Some(traffic)).await;
            }
            _ => std::future::pending().await,
        }
    }
}

struct Attempt<'a> {
    connector: &'a Connector,
    handshake: &'a mut Handshake,
    needs_master: bool,
    is_single: bool,
    key: Option<&'a [u8]>,
}

impl Attempt<'_> {
    /// Opens a session with the first target that passes the checks.
    async fn open(&mut self, address: &Address) -> Result<CheckedSession, Arc<str>> {
        let opened = self.connector.first_of(address, |target| self.open_target(target)).await;
        let opened = opened.map_err(|why| why.at(address))?;
        *self.handshake = opened.handshake;
        Ok(opened)
    }

    /// Opens a session. If the server ends it during the full handshake, but accepts the minimal
    /// one, the full one is tried once more: the server may just have started.
    async fn open_target(&self, target: Target<'_>) -> Result<CheckedSession, OpenError> {
        match self.open_checked(target, *self.handshake).await {
            Err(OpenError::Closed(why)) if *self.handshake == Handshake::Full => {
                match self.open_checked(target, Handshake::Minimal).await {
                    Err(OpenError::Closed(_)) => Err(OpenError::Closed(why)),
                    Err(said) => Err(said),
                    Ok(minimal) => match self.open_checked(target, Handshake::Full).await {
                        Err(OpenError::Closed(_)) => Ok(minimal),
                        full => full,
                    },
                }
            }
            opened => opened,
        }
    }

    async fn open_checked(
        &self,
        target: Target<'_>,
        handshake: Handshake,
    ) -> Result<CheckedSession, OpenError> {
        let session = self.connector.open(target, handshake).await?;
        let connection = &session.handle.connection;
        let checks = async {
            let version = match check_health(connection.clone(), handshake, self.key).await {
                HealthCheck::Healthy(version) => version.unwrap_or_default(),
                HealthCheck::Broken(why) => return Err(session.handle.open_error(&why)),
                unhealthy => match unhealthy.objection(self.needs_master) {
                    Some(why) => return Err(OpenError::Other(why.to_string())),
                    None => String::new(),
                },
            };
            let warnings = match handshake {
                Handshake::Full => check_configuration(connection.clone(), self.is_single)
                    .await
                    .map_err(|why| session.handle.open_error(&why.to_string()))?,
                Handshake::Minimal => Vec::new(),
            };
            Ok((version, warnings))
        };
        let late = |_| OpenError::from(NO_ANSWER);
        let (version, warnings) = timeout(self.connector.timeout, checks).await.map_err(late)??;
        let info = Arc::new(ServerInfo { address: target.address.to_string(), version });
        Ok(CheckedSession { session, handshake, info, warnings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use crate::redis::connection::connector::{Credentials, CredentialsSource};
    use crate::redis::connection::dial::first_success;

    /// A server that answers commands by their names, and ends a session without an answer.
    async fn server(answer: impl AsyncFn(&str) -> Option<&'static str> + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::task::spawn_local(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (reader, mut writer) = socket.split();
                let (mut lines, mut line_of_command) = (BufReader::new(reader).lines(), 0);
                while let Ok(Some(line)) = lines.next_line().await {
                    line_of_command = if line.starts_with('*') { 0 } else { line_of_command + 1 };
                    if line_of_command == 2 {
                        let Some(reply) = answer(&line).await else { break };
                        writer.write_all(format!("{reply}\r\n").as_bytes()).await.unwrap();
                    }
                }
            }
        });
        address
    }

    /// The role is that of a reply to HELLO.
    async fn redis(role: &'static str) -> SocketAddr {
        server(async move |command| Some(if command == "HELLO" { role } else { "+OK" })).await
    }

    #[test]
    fn a_server_that_cannot_serve_does_not_keep_the_store_from_the_next_address() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, async {
            let timeout = Duration::from_secs(30);
            let healthy = redis("*2\r\n+role\r\n+master").await;
            let unfit = [
                ("silent", server(async |_| std::future::pending().await).await),
                ("closes", server(async |_| None).await),
                ("replica", redis("*2\r\n+role\r\n+replica").await),
                ("loading", server(async |_| Some("-LOADING Redis is loading")).await),
            ];
            let address = Address::Tcp("redis.test".into(), 6379);
            let credentials = CredentialsSource::Fixed(Credentials::default());
            let connector = Connector { credentials, tls: None, database: 0, timeout };
            for (kind, first) in unfit {
                let (handshake, needs_master) = (&mut Handshake::Full, true);
                let attempt = Attempt {
                    connector: &connector,
                    handshake,
                    needs_master,
                    is_single: true,
                    key: None,
                };
                let opening = first_success(vec![first, healthy], |socket| {
                    attempt.open_target(Target { address: &address, socket: Some(socket) })
                });
                // Half of the timeout of an attempt.
                let opened = tokio::time::timeout(timeout / 2, opening).await;
                assert!(opened.is_ok_and(|opened| opened.is_ok()), "{kind}");
            }
        });
    }
}
