//! JavaScript's description of a Redis deployment and its connections.

use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{Result, Uint8Array};
use napi::{Error, Status};
use napi_derive::napi;
use tokio::runtime::Handle;

use crate::node::whole;
use crate::redis::{
    Address, Cluster, ClusterAddresses, Connection, Connector, Credentials, CredentialsProvider,
    CredentialsSource, Endpoint, HealthOptions, Identity, Inspector, NatMap, RedisDeployment,
    SentinelClient, StoreWarning, Tls,
};

/// The addresses and connection options of a Redis deployment. TypeScript has validated them.
#[napi(object)]
pub struct RedisTarget {
    /// The address of the server, or those of the sentinels, or of nodes of the cluster.
    pub addresses: Vec<RedisAddress>,
    /// Whether the addresses are nodes of a cluster.
    pub cluster: bool,
    /// The number of hash tags shared by keys without their own tag.
    pub tags: Option<u16>,
    /// The servers to connect to in the place of those that nodes and sentinels report.
    pub nat_map: Vec<RedisNat>,
    /// Whether a script call may have one key only.
    pub one_key_per_script: bool,
    /// The name of the master, if the addresses are sentinels.
    pub master: Option<String>,
    /// The connection options of servers.
    pub access: RedisAccess,
    /// The connection options of sentinels, if they differ.
    pub sentinel_access: Option<RedisAccess>,
    /// The timeout of one attempt to connect.
    pub connect_timeout_ms: f64,
    /// The timeout of a call.
    pub command_timeout_ms: f64,
    /// The interval of health checks while there are no calls.
    pub idle_check_ms: f64,
}

/// The address of a server: a host and a port, or the path of a Unix socket.
#[napi(object)]
pub struct RedisAddress {
    pub host: String,
    pub port: f64,
    pub path: Option<String>,
}

/// The address of a server from here, and as nodes and sentinels report it.
#[napi(object)]
pub struct RedisNat {
    pub reported: RedisAddress,
    pub reachable: RedisAddress,
}

/// The login, database and TLS options of a connection.
#[napi(object)]
pub struct RedisAccess {
    pub username: Option<String>,
    pub password: Option<String>,
    /// Whether each connection requests the login from JavaScript.
    pub has_provider: bool,
    pub database: f64,
    pub tls: Option<RedisTls>,
}

/// Certificates in PEM.
#[napi(object)]
pub struct RedisTls {
    pub ca: Option<Uint8Array>,
    pub cert: Option<Uint8Array>,
    pub key: Option<Uint8Array>,
    pub server_name: Option<String>,
}

impl RedisTarget {
    /// Starts connecting. Throws if the certificates are invalid.
    pub(crate) fn open(
        self,
        logins: impl CredentialsProvider + 'static,
        runtime: &Handle,
        warn: impl Fn(StoreWarning) + Send + Sync + 'static,
    ) -> Result<RedisDeployment> {
        let health = self.health_options();
        if !self.cluster {
            let has_one_key = self.one_key_per_script;
            let connection = Connection::open(self.route(logins)?, health, runtime, warn);
            if has_one_key {
                connection.send_one_key_per_script();
            }
            return Ok(RedisDeployment::Server(connection));
        }
        let (addresses, access) = self.nodes(logins)?;
        Ok(RedisDeployment::Cluster(Cluster::open(addresses, access, health, runtime, warn)))
    }

    /// An inspector, which connects on its first request. Throws if the certificates are invalid.
    pub(crate) fn inspector(self, logins: impl CredentialsProvider + 'static) -> Result<Inspector> {
        if !self.cluster {
            return self.route(logins).map(Inspector::by_route);
        }
        let (addresses, access) = self.nodes(logins)?;
        Ok(Inspector::of_cluster(addresses, access))
    }

    fn nodes(
        self,
        logins: impl CredentialsProvider + 'static,
    ) -> Result<(ClusterAddresses, Connector)> {
        let timeout = Duration::from_millis(whole(self.connect_timeout_ms));
        let access = self.access.access(timeout, Arc::new(logins))?;
        let seeds = self.addresses.into_iter().map(RedisAddress::address).collect();
        Ok((ClusterAddresses { seeds, nat_map: nat_map(self.nat_map) }, access))
    }

    fn route(self, logins: impl CredentialsProvider + 'static) -> Result<Endpoint> {
        let timeout = Duration::from_millis(whole(self.connect_timeout_ms));
        let logins = Arc::new(logins);
        let access = self.access.access(timeout, logins.clone())?;
        let mut addresses = self.addresses.into_iter().map(RedisAddress::address);
        if let Some(master) = self.master {
            let of_sentinels = match self.sentinel_access {
                Some(own) => own.access(timeout, logins)?,
                None => access.clone(),
            };
            let sentinels = SentinelClient::new(addresses.collect(), master, of_sentinels);
            let sentinels = sentinels.with_nat_map(nat_map(self.nat_map));
            return Ok(Endpoint::master(sentinels, access));
        }
        let address =
            addresses.next().ok_or_else(|| Error::new(Status::InvalidArg, "has no address"))?;
        Ok(Endpoint::direct(address, access))
    }

    /// A server may be unhealthy for the timeout of a call: a call that began with the outage has
    /// then timed out.
    fn health_options(&self) -> HealthOptions {
        HealthOptions {
            down_after: Duration::from_millis(whole(self.command_timeout_ms)),
            idle_interval: Duration::from_millis(whole(self.idle_check_ms)),
        }
    }
}

fn nat_map(pairs: Vec<RedisNat>) -> NatMap {
    pairs.into_iter().map(|pair| (pair.reported.address(), pair.reachable.address())).collect()
}

impl RedisAddress {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a port")]
    fn address(self) -> Address {
        match self.path {
            Some(path) => Address::Unix(path.into()),
            None => Address::Tcp(self.host, self.port as u16),
        }
    }
}

impl RedisAccess {
    #[allow(clippy::cast_possible_truncation, reason = "a small whole number")]
    fn access(self, timeout: Duration, logins: Arc<dyn CredentialsProvider>) -> Result<Connector> {
        let credentials = if self.has_provider {
            CredentialsSource::Provider(logins)
        } else {
            CredentialsSource::Fixed(Credentials {
                username: self.username,
                password: self.password,
            })
        };
        let tls = self.tls.map(RedisTls::tls).transpose()?;
        Ok(Connector { credentials, tls, database: self.database as i64, timeout })
    }
}

impl RedisTls {
    fn tls(self) -> Result<Tls> {
        let Self { ca, cert, key, server_name } = self;
        let client = cert.as_deref().zip(key.as_deref());
        let client = client.map(|(chain, key)| Identity { chain, key });
        Tls::new(ca.as_deref(), client.as_ref(), server_name.as_deref())
            .map_err(|why| Error::new(Status::InvalidArg, format!("tls: {why}")))
    }
}
