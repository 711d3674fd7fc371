//! What a store goes to: one server, or a cluster.

use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::{AnsweredCalls, Cluster};
use super::connection::{Connection, Health, SocketHandle};
use crate::redis::batch::flush::Round;
use crate::time::Micros;

/// A server or a cluster, as those see it who ask it for decisions.
#[derive(Debug)]
pub enum Remote {
    /// One server.
    Server(Connection),
    /// The nodes of a cluster.
    Cluster(Cluster),
}

impl Remote {
    /// Decides a round, as [`Connection::decide`] and [`Cluster::decide`] do: by the deadline `hear` has been
    /// called for all calls; for all of them at once, or, by a cluster, perhaps for some at a time.
    pub fn decide(
        &self,
        round: Round,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        hear: impl Fn(&[AnsweredCalls<'_>]) + Send + Sync + 'static,
    ) {
        match self {
            Self::Server(server) => server.decide(round, clock, deadline, move |round, answers| {
                hear(&[AnsweredCalls { flush: round, answers, calls: None }]);
            }),
            Self::Cluster(cluster) => cluster.decide(round, clock, deadline, hear),
        }
    }

    /// Whether it can be asked, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        match self {
            Self::Server(server) => server.is_up(),
            Self::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// The socket of the link to one server, if there is one that can be watched: see [`Connection::socket_handle`].
    #[must_use]
    pub fn socket_handle(&self) -> Option<SocketHandle> {
        match self {
            Self::Server(server) => server.socket_handle(),
            Self::Cluster(_) => None,
        }
    }

    /// Reads what has come over it, and settles what it answers, on this thread.
    pub fn read_inline(&self, socket: &SocketHandle) {
        match self {
            Self::Server(server) => server.read_inline(socket),
            Self::Cluster(_) => {}
        }
    }

    /// Watches how it is.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        match self {
            Self::Server(server) => server.health(),
            Self::Cluster(cluster) => cluster.health(),
        }
    }
}
