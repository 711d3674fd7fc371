//! The topology of the cluster: its nodes, and the owners of the slots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::Value as Reply;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, timeout};

use super::node::{ClusterNode, NodeConfig, Unavailability};
use crate::redis::cluster::slot_map::SlotMap;
use crate::redis::connection::{Address, Health, STILL_CONNECTING, error_text};

/// The time limit of a topology query to one node. After it, another node is queried.
const QUERY_TIMEOUT: Duration = Duration::from_millis(250);

/// The interval of topology queries while all masters are healthy.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(30);

/// Without requests for this time, a query waits for [`IDLE_CHECKS`] intervals of health checks.
const IDLE_AFTER: Duration = Duration::from_secs(30);
const IDLE_CHECKS: u32 = 4;

/// The minimum interval of topology queries, used while the topology is stale.
const STALE_INTERVAL: Duration = Duration::from_millis(50);

/// The interval of topology queries while a master is unhealthy.
const UNHEALTHY_INTERVAL: Duration = Duration::from_millis(250);

/// A node without slots is kept for this time after its last use.
const UNUSED_NODE_LIFETIME: Duration = Duration::from_secs(30);

/// The maximum number of nodes that one query tries, one after the other.
const MAX_QUERIED_NODES: usize = 4;

pub(crate) struct Topology {
    config: NodeConfig,
    pub(crate) nodes: BTreeMap<Address, ClusterNode>,
    map: Option<SlotMap>,
    /// Since when no node has reported that the cluster is complete, and the reason.
    failing_since: Option<(Instant, Arc<str>)>,
    queried_at: Option<Instant>,
    is_query_running: bool,
    pub(crate) is_stale: bool,
    /// The number of queries. It selects the first node of the next one: the nodes take turns.
    query_count: usize,
}

/// The report of the topology by a node. Without a report: the reason that a node named, if any.
pub(crate) type TopologyResult = Result<TopologyReport, Option<Arc<str>>>;

#[derive(Debug)]
pub(crate) struct TopologyReport {
    map: SlotMap,
    /// Whether the cluster's state is `fail`: it runs no scripts.
    is_failing: bool,
}

impl Topology {
    pub(crate) fn new(config: NodeConfig) -> Self {
        let why = "no node of the cluster has reported the topology yet".into();
        let mut topology = Self {
            config,
            nodes: BTreeMap::new(),
            map: None,
            failing_since: Some((Instant::now(), why)),
            queried_at: None,
            is_query_running: false,
            is_stale: true,
            query_count: 0,
        };
        topology.open_known_nodes();
        topology
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.map.as_ref()?.owner(slot)
    }

    /// The node at an address. A new node is opened.
    pub(crate) fn node(&mut self, address: &Address) -> &mut ClusterNode {
        let opened = || ClusterNode::open(address, &self.config);
        self.nodes.entry(address.clone()).or_insert_with(opened)
    }

    /// Fails if no requests can be sent to the cluster, according to its reports and the slot map.
    pub(crate) fn availability(&self) -> Result<(), Unavailability> {
        let Some((since, why)) = &self.failing_since else { return Ok(()) };
        let is_down = *since + self.config.health.down_after <= Instant::now();
        if !is_down && self.map.is_some() {
            return Ok(());
        }
        let unreachable = if self.map.is_none() { self.unreachable() } else { None };
        Err(Unavailability { why: unreachable.unwrap_or_else(|| Arc::clone(why)), is_down })
    }

    /// Why none of the nodes can be reached; `None` if one can.
    fn unreachable(&self) -> Option<Arc<str>> {
        let whys = self.nodes.values().map(|node| node.availability().err().map(|own| own.why));
        let whys: Vec<_> = whys.collect::<Option<_>>()?;
        let why = whys.iter().find(|why| ***why != *STILL_CONNECTING)?;
        Some(format!("no node of the cluster answers: {why}").into())
    }

    pub(crate) fn set_owner(&mut self, slot: u16, address: Address) {
        if let Some(map) = &mut self.map {
            map.set_owner(slot, address);
        }
        self.is_stale = true;
    }

    /// The health of the cluster. It is up while any of its masters is up.
    pub(crate) fn health(&self) -> Health {
        if let Err(Unavailability { why, is_down: true }) = self.availability() {
            return Health::Down(why);
        }
        let Some(map) = &self.map else { return Health::Connecting };
        let masters = || map.masters.iter().filter_map(|master| self.nodes.get(master));
        if let Some(info) = masters().find_map(ClusterNode::info) {
            return Health::Up(info);
        }
        let down = |node: &ClusterNode| match node.availability() {
            Err(Unavailability { why, is_down: true }) => Some(why),
            _ => None,
        };
        // `None` if some masters are not known to be down.
        let all: Option<Vec<_>> = masters().map(down).collect();
        all.and_then(|whys| whys.into_iter().next()).map_or(Health::Connecting, Health::Down)
    }

    pub(crate) fn is_healthy(&self) -> bool {
        let now = Instant::now();
        let is_healthy =
            |master| self.nodes.get(master).is_some_and(|node: &ClusterNode| node.is_healthy(now));
        let map = self.map.as_ref().filter(|_| self.failing_since.is_none());
        map.is_some_and(|map| map.masters.iter().all(is_healthy))
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.nodes.values().all(|node| now >= node.used_at + IDLE_AFTER)
    }

    pub(crate) fn query(&mut self) -> Option<impl Future<Output = TopologyResult> + Send + use<>> {
        let now = Instant::now();
        let interval = match (self.is_stale, self.is_healthy()) {
            (true, _) => STALE_INTERVAL,
            (false, true) if self.is_idle(now) => {
                HEALTHY_INTERVAL.max(self.config.health.idle_interval.saturating_mul(IDLE_CHECKS))
            }
            (false, true) => HEALTHY_INTERVAL,
            (false, false) => UNHEALTHY_INTERVAL,
        };
        if self.is_query_running || self.queried_at.is_some_and(|last| now < last + interval) {
            return None;
        }
        let healthy = self.nodes.iter().filter(|(_, node)| node.is_healthy(now));
        let targets = healthy.filter_map(|(address, node)| {
            Some((address.clone(), node.session().ok()?.0.connection))
        });
        let mut targets: Vec<_> = targets.collect();
        if targets.is_empty() {
            self.open_known_nodes();
            return None;
        }
        self.query_count += 1;
        let first = self.query_count % targets.len();
        targets.rotate_left(first);
        targets.truncate(MAX_QUERIED_NODES);
        (self.is_query_running, self.is_stale, self.queried_at) = (true, false, Some(now));
        Some(async move {
            let mut failed = None;
            for (address, connection) in targets {
                match timeout(QUERY_TIMEOUT, query_node(&address, connection)).await {
                    Ok(Ok(report)) => return Ok(report),
                    Ok(Err(why)) => failed = why.or(failed),
                    Err(_) => {}
                }
            }
            Err(failed)
        })
    }

    pub(crate) fn apply(&mut self, result: TopologyResult) {
        self.is_query_running = false;
        let TopologyReport { map, is_failing } = match result {
            Ok(report) => report,
            Err(why) => {
                if let (Some((_, reason)), Some(why), None) =
                    (&mut self.failing_since, why, &self.map)
                {
                    *reason = why;
                }
                return;
            }
        };
        let now = Instant::now();
        if !is_failing {
            self.failing_since = None;
        } else if self.failing_since.is_none() || self.map.is_none() {
            self.failing_since = Some((now, "CLUSTERDOWN: the cluster is not complete".into()));
        }
        let masters = self.map.as_ref().map_or(&[][..], |map| &map.masters);
        self.nodes.retain(|address, node| {
            // A replaced unhealthy node is removed at once: its requests must not wait for it.
            let is_replaced = masters.contains(address) && !node.is_healthy(now);
            map.masters.contains(address)
                || !is_replaced && (node.in_flight > 0 || now < node.used_at + UNUSED_NODE_LIFETIME)
        });
        for master in &map.masters {
            self.node(master);
        }
        // The queries of the topology count as one.
        self.config.servers.store(self.nodes.len() + 1, Ordering::Relaxed);
        self.map = Some(map);
    }

    /// Opens all nodes that may know the topology: the seeds, and the nodes of the slot map.
    fn open_known_nodes(&mut self) {
        let known = self.map.iter().flat_map(SlotMap::nodes);
        let all: Vec<_> = self.config.addresses.seeds.iter().chain(known).cloned().collect();
        for address in all {
            self.node(&address).used_at = Instant::now();
        }
    }
}

/// Queries the owners of the slots and the cluster's state from one node.
async fn query_node(address: &Address, mut connection: MultiplexedConnection) -> TopologyResult {
    let mut commands = redis::pipe();
    commands.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    let replies = connection.send_packed_commands(&commands, 0, 2).await.map_err(|_| None)?;
    if let Some(Reply::ServerError(error)) = replies.first() {
        return Err(Some(format!("{address} reports no slots: {}", error_text(error)).into()));
    }
    TopologyReport::read(&replies, address).ok_or(None)
}

impl TopologyReport {
    pub(crate) fn read(replies: &[Reply], address: &Address) -> Option<Self> {
        let [slots, info] = replies else { return None };
        // Without permission for CLUSTER INFO, the state counts as ok.
        let is_failing = match info {
            Reply::BulkString(info) => info.starts_with(b"cluster_state:fail"),
            Reply::VerbatimString { text, .. } => text.starts_with("cluster_state:fail"),
            _ => false,
        };
        Some(Self { map: SlotMap::read(slots, address)?, is_failing })
    }
}
