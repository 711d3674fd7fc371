//! The Redis deployment of a store: one server, or a cluster.

use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::connection::{AnsweredCalls, Connection, Health, SocketHandle};
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
    /// Decides a flush, as [`Connection::decide`] and [`Cluster::decide`] do. By the deadline it
    /// has called `on_complete` for all calls: once for a server, perhaps several times for a
    /// cluster.
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

    /// The socket of the connection to one server, if the event loop can poll it: see
    /// [`Connection::socket_handle`].
    #[must_use]
    pub fn socket_handle(&self) -> Option<SocketHandle> {
        match self {
            Self::Server(server) => server.socket_handle(),
            Self::Cluster(_) => None,
        }
    }

    /// Reads replies from the socket and completes their flushes, on this thread.
    pub fn read_inline(&self, socket: &SocketHandle) {
        match self {
            Self::Server(server) => server.read_inline(socket),
            Self::Cluster(_) => {}
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
