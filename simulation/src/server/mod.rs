//! The simulated servers: standalone, with replicas under Sentinel, or a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate::redis::{Address, SLOTS, Script, slot_of};
use tollgate_simulated_redis::keyspace::Keyspace;
use tollgate_simulated_redis::lua::{self, KeyPermission, ScriptContext};
use tollgate_simulated_redis::resp::{Reply, next_command};

use crate::locked;
use crate::network::{self, Delays, LinkControl, Socket};

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
}

/// A sentinel reports the master, which it learns a while after a failover.
pub(crate) struct Sentinel {
    pub(crate) master: usize,
    pub(crate) is_alive: bool,
}

/// What a client has set on its connection.
#[derive(Default)]
struct Session {
    is_asking: bool,
    /// The commands of a transaction, and whether one of them was refused.
    transaction: Option<(Vec<Vec<Vec<u8>>>, bool)>,
}

pub(crate) type SharedWorld = Arc<Mutex<World>>;

impl World {
    pub(crate) fn new(delays: Delays, random: fastrand::Rng) -> Self {
        Self {
            nodes: Vec::new(),
            sentinels: Vec::new(),
            shards: Vec::new(),
            is_cluster: false,
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

    // Faults.

    /// Cuts the links to a node: all of them, or some.
    pub(crate) fn cut(&mut self, node: usize, all: bool) {
        for (to, link) in &self.links {
            if *to == node && (all || self.random.bool()) {
                link.cut();
            }
        }
        self.links.retain(|(_, link)| link.is_open());
    }

    /// Delays all bytes from and to a node, and refuses new connections in silence.
    pub(crate) fn partition(&mut self, node: usize, lasting: Duration) {
        self.record_stall(lasting);
        let until = Instant::now() + lasting;
        let own = &mut self.nodes[node].unreachable_until;
        *own = until.max(*own);
        for (_, link) in self.links.iter().filter(|(to, _)| *to == node) {
            link.stall(until);
        }
    }

    /// Lets a node execute nothing for a time, and then all that has come.
    pub(crate) fn freeze(&mut self, node: usize, lasting: Duration) {
        self.record_stall(lasting);
        let own = &mut self.nodes[node].frozen_until;
        *own = (Instant::now() + lasting).max(*own);
    }

    fn record_stall(&mut self, lasting: Duration) {
        let now = self.now();
        self.stalls.push((now, now + lasting.as_micros() as u64));
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node].is_alive = false;
        self.nodes[node].generation += 1;
        self.cut(node, true);
    }

    /// Starts a killed server, with its keys or without them, after loading for a time.
    pub(crate) fn start(&mut self, node: usize, keeps_keys: bool, loading: Duration) {
        let own = &mut self.nodes[node];
        own.is_alive = true;
        own.scripts.clear();
        own.loading_until = Instant::now() + loading;
        if !keeps_keys {
            own.keys = Keyspace::default();
            self.has_lost_keys = true;
        }
    }

    /// Forgets all scripts.
    pub(crate) fn flush_scripts(&mut self, node: usize) {
        self.nodes[node].scripts.clear();
    }

    /// Copies the keys of the masters to their replicas.
    pub(crate) fn replicate(&mut self) {
        for shard in 0..self.shards.len() {
            let Shard { master, replica: Some(replica) } = self.shards[shard] else { continue };
            self.nodes[replica].keys = self.nodes[master].keys.clone();
        }
    }

    /// Makes the replica of a shard its master. The old master does not know it yet.
    pub(crate) fn promote(&mut self, shard: usize) {
        let Shard { master, replica: Some(replica) } = self.shards[shard] else { return };
        self.nodes[replica].is_replica = false;
        self.shards[shard] = Shard { master: replica, replica: Some(master) };
        self.has_lost_keys = true;
    }

    /// Tells the old master of a shard that it is a replica now.
    pub(crate) fn demote(&mut self, shard: usize) {
        let Shard { master, replica: Some(replica) } = self.shards[shard] else { return };
        self.nodes[replica].is_replica = true;
        self.nodes[replica].keys = self.nodes[master].keys.clone();
    }

    /// Begins to move a slot to another shard, unless it moves already. Returns whether it does.
    pub(crate) fn begin_migration(&mut self, slot: u16, to: usize) -> bool {
        let from = self.shard_of(slot);
        let begins = from != to && !self.migrating.contains_key(&slot);
        if begins {
            self.migrating.insert(slot, (from, to));
        }
        begins
    }

    /// Moves some keys of a slot that moves.
    pub(crate) fn move_some_keys(&mut self, slot: u16) {
        let Some(&(from, to)) = self.migrating.get(&slot) else { return };
        let (from, to) = (self.shards[from].master, self.shards[to].master);
        let mut target = std::mem::take(&mut self.nodes[to].keys);
        let salt = self.random.u8(..);
        let moves = |key: &[u8]| {
            slot_of(key) == slot && key.iter().fold(salt, |sum, byte| sum ^ byte) % 2 == 0
        };
        let now = self.now() / 1_000;
        self.nodes[from].keys.move_keys(&mut target, now, moves);
        self.nodes[to].keys = target;
    }

    /// Moves the rest of a slot's keys, and the slot.
    pub(crate) fn end_migration(&mut self, slot: u16) {
        let Some((from, to)) = self.migrating.remove(&slot) else { return };
        let (from, target) = (self.shards[from].master, self.shards[to].master);
        let mut keys = std::mem::take(&mut self.nodes[target].keys);
        let now = self.now() / 1_000;
        self.nodes[from].keys.move_keys(&mut keys, now, |key| slot_of(key) == slot);
        self.nodes[target].keys = keys;
        self.moved.insert(slot, to);
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        let now = Instant::now();
        for slot in self.migrating.keys().copied().collect::<Vec<_>>() {
            self.end_migration(slot);
        }
        for shard in 0..self.shards.len() {
            self.demote(shard);
        }
        for index in 0..self.nodes.len() {
            if !self.nodes[index].is_alive {
                self.start(index, true, Duration::ZERO);
            }
            let node = &mut self.nodes[index];
            for until in [
                &mut node.unreachable_until,
                &mut node.loading_until,
                &mut node.busy_until,
                &mut node.full_until,
            ] {
                *until = now.min(*until);
            }
        }
        let master = self.shards[0].master;
        for sentinel in &mut self.sentinels {
            *sentinel = Sentinel { master, is_alive: true };
        }
    }

    // Commands.

    fn execute(&mut self, node: usize, session: &mut Session, words: Vec<Vec<u8>>) -> Reply {
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        let is_script = matches!(&name[..], "EVAL" | "EVALSHA");
        if let Some((commands, is_refused)) = &mut session.transaction
            && name != "EXEC"
        {
            let mut commands = std::mem::take(commands);
            let mut refused = *is_refused;
            let answer = match self.refusal(node, session.is_asking, &words).filter(|_| is_script) {
                Some(error) => {
                    refused = true;
                    error
                }
                None => {
                    commands.push(words);
                    Reply::Status("QUEUED")
                }
            };
            // ASKING is for the next command only.
            session.is_asking = name == "ASKING";
            session.transaction = Some((commands, refused));
            return answer;
        }
        let is_asking = std::mem::replace(&mut session.is_asking, name == "ASKING");
        match &name[..] {
            "MULTI" => {
                session.transaction = Some(Default::default());
                Reply::Status("OK")
            }
            "EXEC" => match session.transaction.take() {
                None => Reply::error("ERR EXEC without MULTI"),
                Some((_, true)) => {
                    Reply::error("EXECABORT Transaction discarded because of previous errors.")
                }
                Some((commands, false)) => {
                    let mut is_asking = is_asking;
                    let mut answers = Vec::new();
                    for words in commands {
                        let is_ask = words[0] == b"ASKING";
                        answers.push(match is_ask {
                            true => Reply::Status("OK"),
                            false => self.script(node, is_asking, &words),
                        });
                        is_asking = is_ask;
                    }
                    Reply::Array(answers)
                }
            },
            "EVAL" | "EVALSHA" => self.script(node, is_asking, &words),
            "PING" => match self.unavailable(node) {
                Some(error) => Reply::error(error),
                None => Reply::Status("PONG"),
            },
            "HELLO" => {
                let role = if self.nodes[node].is_replica { "replica" } else { "master" };
                let texts = ["server", "redis", "version", "7.0.15", "role", role];
                Reply::Array(texts.map(Reply::text).into())
            }
            "INFO" => Reply::text("# Memory\r\nmaxmemory_policy:noeviction\r\n"),
            "CLUSTER" if words[1] == b"SLOTS" => self.slots(),
            "CLUSTER" => Reply::text("cluster_state:ok\r\n"),
            "CLIENT" | "AUTH" | "SELECT" | "ASKING" => Reply::Status("OK"),
            _ => Reply::error(format!("ERR the simulated server has no command {name}")),
        }
    }

    fn unavailable(&self, node: usize) -> Option<&'static str> {
        let (now, node) = (Instant::now(), &self.nodes[node]);
        if now < node.loading_until {
            return Some("LOADING Redis is loading the dataset in memory");
        }
        (now < node.busy_until).then_some(
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        )
    }

    /// The error of a script that this node does not run.
    fn refusal(&self, node: usize, is_asking: bool, words: &[Vec<u8>]) -> Option<Reply> {
        if let Some(error) = self.redirect(node, is_asking, words) {
            return Some(Reply::Error(error));
        }
        self.unavailable(node).map(Reply::error)
    }

    /// The redirect to another node of the cluster, if this one does not serve the keys.
    fn redirect(&self, node: usize, is_asking: bool, words: &[Vec<u8>]) -> Option<String> {
        let keys = declared_keys(words);
        let slot = slot_of(keys.first().filter(|_| self.is_cluster)?);
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Some("CROSSSLOT Keys in request don't hash to the same slot".into());
        }
        let now = self.now() / 1_000;
        let present = keys.iter().filter(|key| self.nodes[node].keys.has(key, now)).count();
        let shard = self.shard_of(slot);
        let port = |shard: usize| FIRST_NODE as usize + self.shards[shard].master;
        match self.migrating.get(&slot) {
            Some(&(from, to)) if self.serves(node, from) => match present {
                all if all == keys.len() => None,
                0 => Some(format!("ASK {slot} node:{}", port(to))),
                _ => Some("TRYAGAIN Multiple keys request during rehashing of slot".into()),
            },
            Some(&(_, to)) if is_asking && self.serves(node, to) => {
                let is_split = keys.len() > 1 && present < keys.len();
                is_split.then(|| "TRYAGAIN Multiple keys request during rehashing of slot".into())
            }
            _ if self.serves(node, shard) => None,
            _ => Some(format!("MOVED {slot} node:{}", port(shard))),
        }
    }

    /// Whether a node takes itself for the master of a shard. So does a master that does not know
    /// yet that it has been replaced.
    fn serves(&self, node: usize, shard: usize) -> bool {
        let Shard { master, replica } = self.shards[shard];
        node == master || (replica == Some(node) && !self.nodes[node].is_replica)
    }

    fn script(&mut self, node: usize, is_asking: bool, words: &[Vec<u8>]) -> Reply {
        if let Some(error) = self.refusal(node, is_asking, words) {
            self.record_refusal(words);
            return error;
        }
        let Some(source) = self.source(node, words) else {
            self.record_refusal(words);
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        };
        let declared = declared_keys(words).to_vec();
        let arguments = &words[3 + declared.len()..];
        let own = &mut self.nodes[node];
        let refuses_writes = if own.is_replica {
            Some("READONLY You can't write against a read only replica.")
        } else if Instant::now() < own.full_until {
            Some("OOM command not allowed when used memory > 'maxmemory'.")
        } else {
            None
        };
        let keys = std::mem::take(&mut own.keys);
        let now = self.now();
        let context = ScriptContext {
            keys,
            now,
            written: Vec::new(),
            may_use: self.usable_keys(node, &declared),
            refuses_writes,
        };
        let (reply, context) = lua::run(source.as_bytes(), &declared, arguments, context);
        self.nodes[node].keys = context.keys;
        // The optimistic path of fixed windows increments first, and undoes it if the window has ended.
        for (key, before) in context.written {
            if self.nodes[node].keys.entry(&key) != before.as_ref() {
                self.record(&key);
                *self.runs.entry(key).or_default() += 1;
            }
        }
        reply
    }

    fn record_refusal(&mut self, words: &[Vec<u8>]) {
        let now = self.now();
        self.refused.extend(declared_keys(words).iter().map(|key| (key.clone(), now)));
    }

    /// The keys that a script may use: those it declares, and in a cluster all keys of the node.
    fn usable_keys(&self, node: usize, declared: &[Vec<u8>]) -> KeyPermission {
        if !self.is_cluster {
            return Box::new(|_, _| true);
        }
        let now = self.now() / 1_000;
        let declared_slot = declared.first().map(|key| slot_of(key));
        let serves: Vec<bool> =
            (0..self.shards.len()).map(|shard| self.serves(node, shard)).collect();
        let (moved, migrating) = (self.moved.clone(), self.migrating.clone());
        Box::new(move |keys, key| {
            let slot = slot_of(key);
            let shard = moved.get(&slot).copied().unwrap_or(first_shard(slot, serves.len()));
            let is_stable = !migrating.contains_key(&slot) || keys.has(key, now);
            declared_slot == Some(slot) || (serves[shard] && is_stable)
        })
    }

    /// The source of a script, if the node knows it.
    fn source(&mut self, node: usize, words: &[Vec<u8>]) -> Option<&'static str> {
        let script = Script::limiter();
        let own = &mut self.nodes[node];
        let is_known = if words[0] == b"EVAL" {
            assert!(words[1] == script.source().as_bytes(), "an unknown script");
            own.scripts.insert(script.sha1().to_owned());
            true
        } else {
            own.scripts.contains(&*String::from_utf8_lossy(&words[1]))
        };
        is_known.then(|| script.source())
    }

    fn slots(&self) -> Reply {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for slot in 0..SLOTS {
            let shard = self.shard_of(slot);
            match ranges.last_mut() {
                Some((_, last, other)) if *other == shard => *last = slot,
                _ => ranges.push((slot, slot, shard)),
            }
        }
        let node = |index: usize| {
            let port = Reply::Number(i64::from(FIRST_NODE) + index as i64);
            Reply::Array(vec![Reply::text("node"), port, Reply::text(format!("id{index}"))])
        };
        let range = |(first, last, shard): (u16, u16, usize)| {
            let Shard { master, replica } = self.shards[shard];
            let bounds = [first, last].map(|slot| Reply::Number(i64::from(slot)));
            let nodes = std::iter::once(master).chain(replica).map(node);
            Reply::Array(bounds.into_iter().chain(nodes).collect())
        };
        Reply::Array(ranges.into_iter().map(range).collect())
    }
}

/// The shard of a slot before any slot has moved.
fn first_shard(slot: u16, shards: usize) -> usize {
    usize::from(slot) * shards / usize::from(SLOTS)
}

fn declared_keys(words: &[Vec<u8>]) -> &[Vec<u8>] {
    let count = std::str::from_utf8(&words[2]).ok().and_then(|count| count.parse().ok());
    &words[3..3 + count.unwrap_or(0)]
}

/// Connects a client to the server at a port.
pub(crate) async fn connect(world: SharedWorld, port: u16) -> io::Result<Socket> {
    let (delays, mut random) = {
        let mut world = locked(&world);
        (world.delays, world.random.fork())
    };
    sleep(delays.min + delays.jitter.mul_f64(random.f64())).await;
    if port >= FIRST_SENTINEL {
        let index = usize::from(port - FIRST_SENTINEL);
        if !locked(&world).sentinels[index].is_alive {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (socket, server, _) = network::link(delays, random);
        tokio::spawn(serve_sentinel(world, index, server));
        return Ok(socket);
    }
    let node = usize::from(port - FIRST_NODE);
    loop {
        let until = locked(&world).nodes[node].unreachable_until;
        if until <= Instant::now() {
            break;
        }
        sleep_until(until).await;
    }
    let mut shared = locked(&world);
    if !shared.nodes[node].is_alive {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (socket, server, control) = network::link(delays, random);
    shared.links.retain(|(_, link)| link.is_open());
    shared.links.push((node, control));
    let generation = shared.nodes[node].generation;
    drop(shared);
    tokio::spawn(serve(world, node, generation, server));
    Ok(socket)
}

/// Serves one connection until it ends.
async fn serve(world: SharedWorld, node: usize, generation: u32, mut socket: Socket) {
    let (mut buffer, mut session) = (Vec::new(), Session::default());
    loop {
        while let Some(command) = next_command(&mut buffer) {
            loop {
                let until = locked(&world).nodes[node].frozen_until;
                if until <= Instant::now() {
                    break;
                }
                sleep_until(until).await;
            }
            let mut out = Vec::new();
            {
                let mut world = locked(&world);
                if world.nodes[node].generation != generation {
                    return;
                }
                world.execute(node, &mut session, command).write(&mut out);
            }
            if socket.write_all(&out).await.is_err() {
                return;
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

async fn serve_sentinel(world: SharedWorld, index: usize, mut socket: Socket) {
    let mut buffer = Vec::new();
    loop {
        while let Some(words) = next_command(&mut buffer) {
            let reply = {
                let world = locked(&world);
                let sentinel = &world.sentinels[index];
                if !sentinel.is_alive {
                    return;
                }
                match &words[0][..] {
                    b"SENTINEL" => {
                        let port = usize::from(FIRST_NODE) + sentinel.master;
                        Reply::Array(vec![Reply::text("node"), Reply::text(port.to_string())])
                    }
                    _ => Reply::Status("OK"),
                }
            };
            let mut out = Vec::new();
            reply.write(&mut out);
            if socket.write_all(&out).await.is_err() {
                return;
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
