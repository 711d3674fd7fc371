//! Faults of servers and networks, and their end.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::redis::slot_of;
use tollgate_simulated_redis::keyspace::Keyspace;

use super::{Sentinel, Shard, World};

impl World {
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

    /// Lets a node run no scripts for a time, and then all that have come.
    pub(crate) fn pause_writes(&mut self, node: usize, lasting: Duration) {
        self.record_stall(lasting);
        let own = &mut self.nodes[node].writes_paused_until;
        *own = (Instant::now() + lasting).max(*own);
    }

    /// Loses all bytes of the links to a node, or of all links, from now on. No end is notified.
    pub(crate) fn silence_links(&mut self, node: Option<usize>) {
        for (_, link) in self.links.iter().filter(|(to, _)| node.is_none_or(|node| *to == node)) {
            link.silence();
        }
    }

    /// Makes the replica the master, and lets the address lead to it. The old master is a replica
    /// from now on, or its links are silent.
    pub(crate) fn move_address(&mut self, is_silent: bool) {
        let old = self.shards[0].master;
        self.promote(0);
        self.address_target = Some(self.shards[0].master);
        match is_silent {
            true => self.silence_links(Some(old)),
            false => self.demote(0),
        }
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
                &mut node.proxy_errors_until,
                &mut node.writes_paused_until,
            ] {
                *until = now.min(*until);
            }
        }
        for shard in 0..self.shards.len() {
            let master = self.shards[shard].master;
            self.nodes[master].is_replica = false;
        }
        let master = self.shards[0].master;
        for sentinel in &mut self.sentinels {
            *sentinel = Sentinel { master, is_alive: true };
        }
    }
}
