//! A Redis Cluster as a store.

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::node::{ClusterAddresses, NodeConfig};
use super::router::Router;
use super::topology::Topology;
use crate::redis::batch::flush::Flush;
use crate::redis::connection::{
    AnsweredCalls, Connector, FlushRequest, Health, HealthOptions, StoreWarning,
};
use crate::time::Micros;

/// Connections to the nodes of a cluster. They reconnect until this is dropped.
///
/// Each node has the guarantees of a [`Connection`](crate::redis::Connection): requests to one node
/// do not wait for another node. Calls on keys of one slot are decided in their order, even while
/// the slot moves.
pub struct Cluster {
    requests: mpsc::UnboundedSender<FlushRequest>,
    router: JoinHandle<()>,
    health: watch::Receiver<Health>,
}

impl Cluster {
    /// Starts to connect on the given runtime: to the seeds, and to the nodes that they report.
    /// `warn` is called on the runtime's thread if the configuration of a node has a problem.
    #[must_use]
    pub fn open(
        addresses: impl Into<ClusterAddresses>,
        connector: Connector,
        options: HealthOptions,
        runtime: &Handle,
        warn: impl Fn(StoreWarning) + Send + Sync + 'static,
    ) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (published, health) = watch::channel(Health::Connecting);
        let config = NodeConfig::new(addresses.into(), connector, options, warn);
        let router = runtime.spawn(async move {
            Router::new(Topology::new(config), published).run(incoming).await;
        });
        Self { requests, router, health }
    }

    /// Whether at least one master is up, according to the last published health.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.health.borrow(), Health::Up(_))
    }

    /// Subscribes to the health of the cluster. The cluster is up while any of its masters is up.
    /// It is down while no master is up, or while the nodes report that the cluster is down.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Decides a flush: calls on keys of one slot in order, after those of earlier flushes. By the
    /// deadline, `on_results` is called on the runtime's thread with the results of all calls, at
    /// once or some at a time.
    ///
    /// [Stale](crate::redis::CallError::Stale) calls are sent again with the node's time. The
    /// difference between that time and `clock` is known for each node.
    pub fn decide(
        &self,
        flush: Flush,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        on_results: impl Fn(&[AnsweredCalls<'_>]) + Send + Sync + 'static,
    ) {
        // If the router has ended, the request is dropped, which completes it as closed.
        let _sent = self.requests.send(FlushRequest::new(flush, clock, deadline, on_results));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.router.abort();
    }
}
