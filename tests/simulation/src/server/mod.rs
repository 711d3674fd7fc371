//! The simulated servers: standalone, with replicas under Sentinel, or a cluster.

mod commands;
mod connections;
mod faults;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tollgate::redis::{Address, SLOTS};
use tollgate_simulated_redis::keyspace::Keyspace;

pub(crate) use self::connections::connect;
use crate::network::{Delays, LinkControl};

/// The time at the start of a run, in microseconds since the epoch.
pub(crate) const EPOCH: u64 = 1_790_000_000_000_000;

/// The port of the first server, and of the first sentinel.
const FIRST_NODE: u16 = 7_000;
const FIRST_SENTINEL: u16 = 27_000;

/// The name of the master that the sentinels know.
pub(crate) const MASTER: &str = "main";

/// The servers, and all that happened on them.
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) sentinels: Vec<Sentinel>,
    pub(crate) shards: Vec<Shard>,
    pub(crate) is_cluster: bool,
    /// Whether one server stands for several that take no script on keys of several slots.
    pub(crate) is_sharded: bool,
    /// The node to which the address of the server leads, if it has moved.
    address_target: Option<usize>,
    /// How many commands have come.
    pub(crate) commands: u64,
    /// The shard of each slot that is not of its first shard.
    moved: BTreeMap<u16, usize>,
    /// The slots that move: the shards that give and take them.
    migrating: BTreeMap<u16, (usize, usize)>,
    delays: Delays,
    random: fastrand::Rng,
    links: Vec<(usize, LinkControl)>,
    started: Instant,
    /// By key: how many script runs changed it.
    pub(crate) runs: HashMap<Vec<u8>, u32>,
    /// By key: when a server last did not run a script that declares it.
    pub(crate) refused: HashMap<Vec<u8>, u64>,
    /// When bytes or commands waited for the end of a fault: from and until, in microseconds.
    pub(crate) stalls: Vec<(u64, u64)>,
    /// Whether a server lost keys.
    pub(crate) has_lost_keys: bool,
    /// A checksum of all that the servers did, with its times.
    pub(crate) checksum: u64,
}

/// A master and its replica, by their indices.
pub(crate) struct Shard {
    pub(crate) master: usize,
    pub(crate) replica: Option<usize>,
}

/// One server.
pub(crate) struct Node {
    pub(crate) keys: Keyspace,
    scripts: BTreeSet<String>,
    pub(crate) is_alive: bool,
    /// Counts the starts. A connection to an earlier start has ended.
    generation: u32,
    pub(crate) is_replica: bool,
    /// Lets no one connect, and stalls the links, until then.
    pub(crate) unreachable_until: Instant,
    /// Executes nothing until then.
    pub(crate) frozen_until: Instant,
    pub(crate) loading_until: Instant,
    pub(crate) busy_until: Instant,
    pub(crate) full_until: Instant,
    /// A proxy in front of it answers scripts with an error until then. They run.
    pub(crate) proxy_errors_until: Instant,
    /// Holds scripts back until then.
    pub(crate) writes_paused_until: Instant,
}

/// A sentinel reports the master, which it learns a while after a failover.
pub(crate) struct Sentinel {
    pub(crate) master: usize,
    pub(crate) is_alive: bool,
}

pub(crate) type SharedWorld = Arc<Mutex<World>>;

impl World {
    pub(crate) fn new(delays: Delays, random: fastrand::Rng) -> Self {
        Self {
            nodes: Vec::new(),
            sentinels: Vec::new(),
            shards: Vec::new(),
            is_cluster: false,
            is_sharded: false,
            address_target: None,
            commands: 0,
            moved: BTreeMap::new(),
            migrating: BTreeMap::new(),
            delays,
            random,
            links: Vec::new(),
            started: Instant::now(),
            runs: HashMap::new(),
            refused: HashMap::new(),
            stalls: Vec::new(),
            has_lost_keys: false,
            checksum: 0,
        }
    }

    /// Adds a master, with a replica if `is_replicated`.
    pub(crate) fn add_shard(&mut self, is_replicated: bool) {
        let master = self.add_node(false);
        let replica = is_replicated.then(|| self.add_node(true));
        self.shards.push(Shard { master, replica });
    }

    fn add_node(&mut self, is_replica: bool) -> usize {
        let now = Instant::now();
        self.nodes.push(Node {
            keys: Keyspace::default(),
            scripts: BTreeSet::new(),
            is_alive: true,
            generation: 0,
            is_replica,
            unreachable_until: now,
            frozen_until: now,
            loading_until: now,
            busy_until: now,
            full_until: now,
            proxy_errors_until: now,
            writes_paused_until: now,
        });
        self.nodes.len() - 1
    }

    pub(crate) fn node_address(index: usize) -> Address {
        Address::Tcp("node".into(), FIRST_NODE + index as u16)
    }

    pub(crate) fn sentinel_address(index: usize) -> Address {
        Address::Tcp("sentinel".into(), FIRST_SENTINEL + index as u16)
    }

    /// The time of the servers, in microseconds since the epoch.
    pub(crate) fn now(&self) -> u64 {
        EPOCH + u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The virtual time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Adds an event to the checksum.
    pub(crate) fn record(&mut self, event: &[u8]) {
        let at = self.started.elapsed().as_micros() as u64;
        for byte in at.to_le_bytes().iter().chain(event) {
            self.checksum = (self.checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The shard that owns a slot.
    fn shard_of(&self, slot: u16) -> usize {
        self.moved.get(&slot).copied().unwrap_or(first_shard(slot, self.shards.len()))
    }
}

/// The shard of a slot before any slot has moved.
fn first_shard(slot: u16, shards: usize) -> usize {
    usize::from(slot) * shards / usize::from(SLOTS)
}
