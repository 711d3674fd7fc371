//! A Redis Cluster for one test: processes on free ports of the loopback interface.

use std::collections::HashMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult};
use tokio::runtime::Runtime;
use tollgate::redis::{
    Address, Cluster, Connector, Credentials, CredentialsSource, HealthOptions, SLOTS, slot_of,
};

use crate::redis::server::{Folder, program};

/// The silence after which the other nodes consider a node dead.
const NODE_TIMEOUT_MS: u64 = 600;

/// One node. Dropping it ends the process.
pub(crate) struct Node {
    pub(crate) port: u16,
    pub(crate) id: String,
    child: Child,
    folder: Folder,
    connection: Connection,
}

/// Three masters, with or without a replica of each.
pub(crate) struct Nodes {
    pub(crate) masters: Vec<Node>,
    pub(crate) replicas: Vec<Node>,
}

impl Node {
    fn start(port: u16, folder: Folder) -> Self {
        let timeout = NODE_TIMEOUT_MS.to_string();
        let child = Command::new(program())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--cluster-enabled", "yes"])
            .args(["--cluster-node-timeout", &timeout])
            .args(["--repl-diskless-sync-delay", "0", "--save", "", "--appendonly", "no"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server must be installed (Debian: apt-get install redis-server)");
        let client = Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let connection = until("a server", || client.get_connection().ok());
        let mut node = Self { port, id: String::new(), child, folder, connection };
        node.id = node.run("CLUSTER MYID");
        node
    }

    /// Runs a command, given as separate words.
    pub(crate) fn run<T: FromRedisValue>(&mut self, words: &str) -> T {
        self.try_run(words).unwrap()
    }

    pub(crate) fn try_run<T: FromRedisValue>(&mut self, words: &str) -> RedisResult<T> {
        let mut command = Cmd::new();
        words.split(' ').for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.connection)
    }

    /// Sends the process a signal, given by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills the process immediately.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }

    /// Starts the process again after it was killed.
    pub(crate) fn restart(mut self) -> Self {
        self.kill();
        let folder = std::mem::replace(&mut self.folder, Folder::new());
        Self::start(self.port, folder)
    }

    pub(crate) fn address(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), self.port)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until the function returns a value.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out while waiting for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A free port with a free port 10,000 above it, which the nodes use among themselves.
fn free_port() -> u16 {
    until("a port", || {
        let free = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let port = 20_000 + free % 20_000;
        [port, port + 10_000]
            .iter()
            .all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .then_some(port)
    })
}

impl Nodes {
    pub(crate) fn start(with_replicas: bool) -> Self {
        let count = if with_replicas { 6 } else { 3 };
        let mut masters: Vec<_> =
            (0..count).map(|_| Node::start(free_port(), Folder::new())).collect();
        for (number, node) in masters.iter_mut().enumerate() {
            let _: () = node.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            if number < 3 {
                let [first, end] = [number, number + 1].map(|third| usize::from(SLOTS) * third / 3);
                let own: Vec<_> = (first..end).map(|slot| slot.to_string()).collect();
                let _: () = node.run(&format!("CLUSTER ADDSLOTS {}", own.join(" ")));
            }
        }
        let ports: Vec<u16> = masters.iter().map(|node| node.port).collect();
        for port in &ports[1..] {
            let _: () = masters[0].run(&format!("CLUSTER MEET 127.0.0.1 {port}"));
        }
        for node in &mut masters {
            until("the others", || {
                let known: String = node.run("CLUSTER INFO");
                known.contains(&format!("cluster_known_nodes:{count}")).then_some(())
            });
        }
        let mut replicas = masters.split_off(3);
        for (replica, master) in replicas.iter_mut().zip(&masters) {
            until("its master", || {
                replica.try_run::<()>(&format!("CLUSTER REPLICATE {}", master.id)).ok()
            });
        }
        let mut nodes = Self { masters, replicas };
        nodes.until_well();
        nodes
    }

    /// Waits until all nodes report a complete cluster, and replicas are in step.
    pub(crate) fn until_well(&mut self) {
        let replicated = usize::from(!self.replicas.is_empty());
        for node in self.masters.iter_mut().chain(&mut self.replicas) {
            until("the cluster", || {
                node.run::<String>("CLUSTER INFO").contains("cluster_state:ok").then_some(())
            });
        }
        for master in &mut self.masters {
            until("replicas", || {
                let told: String = master.run("INFO replication");
                (told.matches("state=online").count() >= replicated).then_some(())
            });
        }
    }

    /// The store, which knows only the first node.
    pub(crate) fn opened(&self, runtime: &Runtime, timeout: Duration) -> Cluster {
        let second = Duration::from_secs(1);
        let credentials = CredentialsSource::Fixed(Credentials::default());
        let access = Connector { credentials, tls: None, database: 0, timeout: second };
        let health = HealthOptions { down_after: timeout, idle_interval: 15 * second };
        Cluster::open(vec![self.masters[0].address()], access, health, runtime.handle(), |_| {})
    }

    /// The index of the master that first owned the slot of a key, by its hash tag.
    pub(crate) fn owner_of(key: &str) -> usize {
        let slot = usize::from(slot_of(format!("{{{key}}}").as_bytes()));
        (0..3).rfind(|third| slot >= usize::from(SLOTS) * third / 3).unwrap_or(0)
    }

    /// A number of keys on each master.
    pub(crate) fn keys_by_owner(count: usize) -> HashMap<usize, Vec<String>> {
        let mut keys: HashMap<usize, Vec<String>> = HashMap::new();
        for number in 0.. {
            let key = format!("key-{number}");
            let own = keys.entry(Self::owner_of(&key)).or_default();
            if own.len() < count {
                own.push(key);
            } else if keys.len() == 3 && keys.values().all(|own| own.len() == count) {
                break;
            }
        }
        keys
    }

    /// Begins to move a slot from one master to another. Both have the slot then.
    pub(crate) fn begin_move(&mut self, slot: u16, from: usize, to: usize) {
        let [source, target] = [from, to].map(|place| self.masters[place].id.clone());
        let _: () = self.masters[to].run(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
        let _: () = self.masters[from].run(&format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
    }

    /// Moves these keys to the new master of their slot.
    pub(crate) fn move_keys(&mut self, from: usize, to: usize, keys: &[String]) {
        for key in keys {
            let port = self.masters[to].port;
            let _: () = self.masters[from].run(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
        }
    }

    /// Ends the move of a slot.
    pub(crate) fn end_move(&mut self, slot: u16, from: usize, to: usize) {
        let target = self.masters[to].id.clone();
        for place in [to, from] {
            let _: () = self.masters[place].run(&format!("CLUSTER SETSLOT {slot} NODE {target}"));
        }
    }

    /// Moves a slot with all its keys.
    pub(crate) fn move_slot(&mut self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        loop {
            let keys: Vec<String> =
                self.masters[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.is_empty() {
                break;
            }
            self.move_keys(from, to, &keys);
        }
        self.end_move(slot, from, to);
    }
}
