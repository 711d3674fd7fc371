//! A Redis Cluster as a store.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::node::Connector;
use super::router::Router;
use super::topology::Topology;
use crate::redis::batch::flush::Round;
use crate::redis::cluster::slot_request::{Piece, Settled, Whole};
use crate::redis::connection::{Access, Address, Health, Patience, Warning};
use crate::time::Micros;

/// Links to the nodes of a cluster that are kept up until it is dropped.
///
/// It sends, settles and resends as a [`Connection`](crate::redis::Connection) does, by node: what
/// is sent to one does not wait for another. Calls on keys of one slot are decided in their order,
/// wherever the slot moves.
#[derive(Debug)]
pub struct Cluster {
    rounds: mpsc::UnboundedSender<Piece>,
    router: JoinHandle<()>,
    health: watch::Receiver<Health>,
}

impl Cluster {
    /// Starts to connect, on the given runtime, to the nodes that these seeds know of. `warn` hears, on the
    /// runtime's thread, what should not remain as it is at one of them.
    #[must_use]
    pub fn open(
        seeds: Vec<Address>,
        access: Access,
        patience: Patience,
        runtime: &Handle,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> Self {
        let (rounds, incoming) = mpsc::unbounded_channel();
        let (shown, health) = watch::channel(Health::Connecting);
        let connector = Connector::new(access, patience, warn);
        let router = runtime.spawn(async move {
            Router::new(Topology::new(seeds, connector), shown).run(incoming).await;
        });
        Self { rounds, router, health }
    }

    /// Whether calls on some keys can be decided, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.health.borrow(), Health::Up(_))
    }

    /// Watches how the cluster is: it is up while any of its masters is, and down when none is, or when they say
    /// that they decide nothing.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Decides a round: calls on keys of one slot in order, after those of earlier rounds. By the deadline
    /// `hear` has been called, on the runtime's thread, for all calls, perhaps for some at a time.
    ///
    /// What is [stale](crate::redis::CallError::Stale) is asked again with what is so at the node's
    /// time, of which `clock` is told apart for each node.
    pub fn decide(
        &self,
        round: Round,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        hear: impl Fn(&[Settled<'_>]) + Send + Sync + 'static,
    ) {
        let whole = Whole { clock: Box::new(clock), hear: Box::new(hear), deadline };
        // If nobody hears rounds any more, this one is dropped, and so settled.
        let _unheard = self.rounds.send(Piece::of_round(round, Arc::new(whole)));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.router.abort();
    }
}
