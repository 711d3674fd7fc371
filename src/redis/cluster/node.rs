//! A node of the cluster: its connection, and its availability.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::node_batch::SharingPermission;
use super::node_request::NodeRequest;
use crate::redis::connection::{
    Address, ConnectionState, Connector, Endpoint, Health, HealthOptions, NatMap, ServerInfo,
    ServerTime, SessionHandle, StateSubscriber, StoreWarning, reconnector,
};

/// After this time without an answer to any request in flight, a node may be unreachable.
const SILENCE_LIMIT: Duration = Duration::from_millis(250);

/// The addresses of a cluster that are known before it is reached.
#[derive(Debug, Clone, Default)]
pub struct ClusterAddresses {
    /// The nodes from which the others are discovered.
    pub seeds: Vec<Address>,
    /// The addresses of nodes that have other ones than they report.
    pub nat_map: NatMap,
}

impl From<Vec<Address>> for ClusterAddresses {
    fn from(seeds: Vec<Address>) -> Self {
        Self { seeds, nat_map: NatMap::default() }
    }
}

/// The options for connecting to nodes, and the receiver of warnings.
#[derive(Clone)]
pub(crate) struct NodeConfig {
    pub(crate) addresses: Arc<ClusterAddresses>,
    connector: Connector,
    pub(crate) health: HealthOptions,
    /// The number of servers that share the health checks of an idle process.
    pub(crate) servers: Arc<AtomicUsize>,
    warn: Arc<dyn Fn(StoreWarning) + Send + Sync>,
}

impl NodeConfig {
    /// `warn` is called once for equal warnings of several nodes.
    pub(crate) fn new(
        addresses: ClusterAddresses,
        connector: Connector,
        health: HealthOptions,
        warn: impl Fn(StoreWarning) + Send + Sync + 'static,
    ) -> Self {
        let reported = Mutex::new(Vec::new());
        let warn = move |warning: StoreWarning| {
            let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
            if !reported.contains(&warning) {
                reported.push(warning.clone());
                warn(warning);
            }
        };
        Self {
            addresses: Arc::new(addresses),
            connector,
            health,
            servers: Arc::default(),
            warn: Arc::new(warn),
        }
    }

    fn endpoint(&self, address: &Address) -> Endpoint {
        let ClusterAddresses { seeds, nat_map } = &*self.addresses;
        let reachable = nat_map.reachable(address).clone();
        let is_seed = seeds.contains(address) || seeds.contains(&reachable);
        Endpoint::node(reachable, self.connector.clone(), is_seed)
    }
}

/// Why no request can be sent to a node, or to the cluster.
pub(crate) struct Unavailability {
    pub(crate) why: Arc<str>,
    /// Whether requests fail immediately. Otherwise they wait.
    pub(crate) is_down: bool,
}

/// A node with its connection, which reconnects until this is dropped.
pub(crate) struct ClusterNode {
    state: StateSubscriber,
    health: watch::Receiver<Health>,
    reconnector: JoinHandle<()>,
    pub(crate) server_time: ServerTime,
    /// The time since which requests are in flight without any answer.
    waiting_since: Option<Instant>,
    pub(crate) in_flight: usize,
    pub(crate) used_at: Instant,
    pub(crate) sharing: SharingPermission,
    /// Closes when the node is dropped, which ends the wait of its requests.
    pub(crate) removed: watch::Sender<()>,
}

impl ClusterNode {
    pub(crate) fn open(address: &Address, config: &NodeConfig) -> Self {
        let (endpoint, warn) = (config.endpoint(address), Arc::clone(&config.warn));
        let servers = Some(Arc::clone(&config.servers));
        let (reconnector, state, health) =
            reconnector(endpoint, config.health, servers, move |warning| warn(warning));
        Self {
            state,
            health,
            reconnector: tokio::spawn(reconnector.run()),
            server_time: ServerTime::default(),
            waiting_since: None,
            in_flight: 0,
            used_at: Instant::now(),
            sharing: SharingPermission::default(),
            removed: watch::Sender::new(()),
        }
    }

    pub(crate) fn availability(&self) -> Result<(), Unavailability> {
        self.session().map(|_| ())
    }

    pub(crate) fn session(&self) -> Result<(SessionHandle, u64), Unavailability> {
        match self.state.current() {
            ConnectionState::Up(session, id) => Ok((session, id)),
            ConnectionState::Disconnected(why) => Err(Unavailability { why, is_down: false }),
            ConnectionState::Down(why) => Err(Unavailability { why, is_down: true }),
        }
    }

    /// The node's address and version, if it is up.
    pub(crate) fn info(&self) -> Option<Arc<ServerInfo>> {
        match &*self.health.borrow() {
            Health::Up(info) => Some(Arc::clone(info)),
            _ => None,
        }
    }

    /// Whether the node is up, and has answered recently if requests are in flight.
    pub(crate) fn is_healthy(&self, now: Instant) -> bool {
        let is_slow = self.waiting_since.is_some_and(|since| now > since + SILENCE_LIMIT);
        self.availability().is_ok() && !is_slow
    }

    pub(crate) fn on_request_sent(&mut self, now: Instant, request: &mut NodeRequest) {
        let call = request.slot_requests.first_mut().map(|own| own.script_call(&self.server_time));
        self.state.traffic.on_call(call.and_then(|call| call.keys.iter().next()));
        self.in_flight += 1;
        self.used_at = now;
        self.waiting_since.get_or_insert(now);
    }

    /// A request on the session with this id was answered, has reached its deadline, or failed.
    pub(crate) fn on_request_done(&mut self, session_id: u64, is_answered: bool) {
        match (is_answered, self.waiting_since) {
            (true, _) => self.state.traffic.on_answer(),
            (false, Some(since)) => self.state.report_unanswered(session_id, since),
            (false, None) => self.state.request_health_check(),
        }
        // The request may have been sent to an earlier node with the same address.
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.waiting_since = None;
        } else if is_answered {
            self.waiting_since = Some(Instant::now());
        }
    }

    pub(crate) fn request_health_check(&self) {
        self.state.request_health_check();
    }

    pub(crate) fn report_broken(&mut self, session_id: u64) {
        self.state.report_broken(session_id);
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        self.reconnector.abort();
    }
}
