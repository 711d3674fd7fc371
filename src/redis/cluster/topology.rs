//! How the cluster stands: its nodes, and who owns which slot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value as Reply;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, timeout};

use super::node::{Connector, Node, Reach};
use crate::redis::cluster::slot_map::SlotMap;
use crate::redis::connection::{About, Address, Health};

/// How long a node that is asked how the cluster stands may take before another is asked.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often it is asked while all is well.
const SELDOM: Duration = Duration::from_secs(30);

/// How often it is asked at most.
const OFTEN: Duration = Duration::from_millis(50);

/// How often it is asked while a node is away.
const WHILE_AWAY: Duration = Duration::from_millis(250);

/// A node that owns no slot is kept for so long after it was last used.
const UNUSED: Duration = Duration::from_secs(30);

/// So many nodes are asked, one after the other, before what is known of nodes is looked at again.
const MOST_ASKED: usize = 4;

/// What is known of the cluster.
pub(crate) struct Topology {
    connector: Connector,
    seeds: Vec<Address>,
    pub(crate) nodes: HashMap<Address, Node>,
    map: Option<SlotMap>,
    /// Since when no node says that the cluster is whole, and why.
    unwell: Option<(Instant, Arc<str>)>,
    /// When it was last asked for, and whether that is under way.
    asked_at: Option<Instant>,
    is_asking: bool,
    /// Whether what is known is surely out of date.
    is_stale: bool,
    /// Counts the questions, so that different nodes are asked.
    turn: usize,
}

/// What a node tells of the cluster.
pub(crate) struct Told {
    map: SlotMap,
    /// Whether the cluster decides nothing just now.
    is_failing: bool,
}

impl Topology {
    pub(crate) fn new(seeds: Vec<Address>, connector: Connector) -> Self {
        let why = "no node of the cluster has told yet how it stands".into();
        let mut topology = Self {
            connector,
            seeds,
            nodes: HashMap::new(),
            map: None,
            unwell: Some((Instant::now(), why)),
            asked_at: None,
            is_asking: false,
            is_stale: true,
            turn: 0,
        };
        topology.open_all();
        topology
    }

    /// The node that owns a slot, if it is known.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.map.as_ref()?.owner(slot)
    }

    /// A node by its address, which is opened if it is new.
    pub(crate) fn node(&mut self, address: &Address) -> &mut Node {
        let opened = || Node::open(address, &self.connector);
        self.nodes.entry(address.clone()).or_insert_with(opened)
    }

    /// Whether and why nothing can be decided, or be hoped for by waiting.
    pub(crate) fn reach(&self) -> Reach {
        match &self.unwell {
            Some((since, why)) if *since + self.connector.patience.silent <= Instant::now() => {
                Reach::Down(Arc::clone(why))
            }
            Some((_, why)) if self.map.is_none() => Reach::Away(Arc::clone(why)),
            _ => Reach::Up,
        }
    }

    /// A node has said that another owns a slot.
    pub(crate) fn moved(&mut self, slot: u16, address: Address) {
        if let Some(map) = &mut self.map {
            map.moved(slot, address);
        }
        self.is_stale = true;
    }

    /// Something has been seen that it does not explain.
    pub(crate) fn doubt(&mut self) {
        self.is_stale = true;
    }

    /// How the cluster is as a whole. It is up as long as any of its masters is.
    pub(crate) fn health(&self) -> Health {
        if let Reach::Down(why) = self.reach() {
            return Health::Down(why);
        }
        let Some(map) = &self.map else { return Health::Connecting };
        let masters = || map.masters().iter().filter_map(|master| self.nodes.get(master));
        if let Some(about) = masters().find_map(|node| -> Option<Arc<About>> { node.about() }) {
            return Health::Up(about);
        }
        let down = |node: &Node| match node.reach() {
            Reach::Down(why) => Some(why),
            _ => None,
        };
        // All of them are, or it is not known yet of some.
        let all: Option<Vec<_>> = masters().map(down).collect();
        all.and_then(|whys| whys.into_iter().next()).map_or(Health::Connecting, Health::Down)
    }

    /// Whether all that own slots can be asked, and answer.
    pub(crate) fn is_well(&self) -> bool {
        let now = Instant::now();
        let is_well = |master| self.nodes.get(master).is_some_and(|node: &Node| node.is_well(now));
        let map = self.map.as_ref().filter(|_| self.unwell.is_none());
        map.is_some_and(|map| map.masters().iter().all(is_well))
    }

    /// Asks how the cluster stands, if it is time to.
    pub(crate) fn ask(&mut self) -> Option<impl Future<Output = Option<Told>> + Send + use<>> {
        let now = Instant::now();
        let pause = match (self.is_stale, self.is_well()) {
            (true, _) => OFTEN,
            (false, true) => SELDOM,
            (false, false) => WHILE_AWAY,
        };
        if self.is_asking || self.asked_at.is_some_and(|asked| now < asked + pause) {
            return None;
        }
        let well = self.nodes.iter().filter(|(_, node)| node.is_well(now));
        let askable = well.filter_map(|(address, node)| Some((address.clone(), node.link()?.0)));
        let mut askable: Vec<_> = askable.collect();
        if askable.is_empty() {
            self.open_all();
            return None;
        }
        self.turn += 1;
        let first = self.turn % askable.len();
        askable.rotate_left(first);
        askable.truncate(MOST_ASKED);
        (self.is_asking, self.is_stale, self.asked_at) = (true, false, Some(now));
        Some(async move {
            for (address, connection) in askable {
                if let Ok(Some(told)) = timeout(PATIENCE, question(&address, connection)).await {
                    return Some(told);
                }
            }
            None
        })
    }

    /// Takes what was told.
    pub(crate) fn told(&mut self, told: Option<Told>) {
        self.is_asking = false;
        let Some(Told { map, is_failing }) = told else { return };
        let now = Instant::now();
        if !is_failing {
            self.unwell = None;
        } else if self.unwell.is_none() || self.map.is_none() {
            self.unwell = Some((now, "CLUSTERDOWN: the cluster is not whole".into()));
        }
        let masters = self.map.as_ref().map_or(&[][..], SlotMap::masters);
        self.nodes.retain(|address, node| {
            // One that does not answer, and is not to answer any more, is not waited for.
            let is_succeeded = masters.contains(address) && !node.is_well(now);
            map.masters().contains(address)
                || !is_succeeded && (node.under_way > 0 || now < node.used_at + UNUSED)
        });
        for master in map.masters() {
            self.node(master);
        }
        self.map = Some(map);
    }

    /// Opens everybody who may know how the cluster stands.
    fn open_all(&mut self) {
        let known = self.map.iter().flat_map(SlotMap::nodes);
        let all: Vec<_> = self.seeds.iter().chain(known).cloned().collect();
        for address in all {
            self.node(&address).used_at = Instant::now();
        }
    }
}

/// Asks a node who owns which slot, and whether that is enough.
async fn question(address: &Address, mut connection: MultiplexedConnection) -> Option<Told> {
    let mut asked = redis::pipe();
    asked.cmd("CLUSTER").arg("SLOTS").cmd("CLUSTER").arg("INFO");
    let replies = connection.send_packed_commands(&asked, 0, 2).await.ok()?;
    let [slots, info] = &replies[..] else { return None };
    // Whoever may not ask for it takes the cluster to be well.
    let is_failing = match info {
        Reply::BulkString(info) => info.starts_with(b"cluster_state:fail"),
        Reply::VerbatimString { text, .. } => text.starts_with("cluster_state:fail"),
        _ => false,
    };
    Some(Told { map: SlotMap::read(slots, address)?, is_failing })
}
