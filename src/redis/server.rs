//! The Redis deployment of a store: one server, or a cluster.

use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::connection::{AnsweredCalls, Connection, Health};
use crate::redis::batch::flush::Flush;
use crate::time::Micros;

/// A Redis server, or a cluster.
pub enum RedisDeployment {
    /// One server.
    Server(Connection),
    /// The nodes of a cluster.
    Cluster(Cluster),
}

impl RedisDeployment {
    /// Decides a flush, as [`Connection::decide`] and [`Cluster::decide`] do. A cluster may call
    /// `on_complete` several times.
    pub fn decide(
        &self,
        flush: Flush,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        on_complete: impl Fn(&[AnsweredCalls<'_>]) + Send + Sync + 'static,
    ) {
        match self {
            Self::Server(server) => server.decide(flush, clock, deadline, on_complete),
            Self::Cluster(cluster) => cluster.decide(flush, clock, deadline, on_complete),
        }
    }

    /// Whether it accepts calls, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        match self {
            Self::Server(server) => server.is_up(),
            Self::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// The connection to one server. A cluster has no inline I/O.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Self::Server(server) => Some(server),
            Self::Cluster(_) => None,
        }
    }

    /// Watches its health.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        match self {
            Self::Server(server) => server.health(),
            Self::Cluster(cluster) => cluster.health(),
        }
    }
}
