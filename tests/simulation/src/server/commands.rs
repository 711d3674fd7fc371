//! What the servers answer to commands.

use tokio::time::Instant;
use tollgate::redis::{SLOTS, Script, slot_of};
use tollgate_simulated_redis::lua::{self, KeyPermission, ScriptContext};
use tollgate_simulated_redis::resp::Reply;

use super::{FIRST_NODE, Shard, World, first_shard};

/// The error of a replica to a script that writes.
const READONLY: &str = "READONLY You can't write against a read only replica.";

/// What a client has set on its connection.
#[derive(Default)]
pub(super) struct Session {
    is_asking: bool,
    /// The commands of a transaction, and whether one of them was refused.
    transaction: Option<(Vec<Vec<Vec<u8>>>, bool)>,
}

impl World {
    pub(super) fn execute(
        &mut self,
        node: usize,
        session: &mut Session,
        words: Vec<Vec<u8>>,
    ) -> Reply {
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
            "EVAL" if words[1].starts_with(b"return redis.pcall('SETRANGE'") => {
                match self.refusal(node, is_asking, &words) {
                    Some(error) => error,
                    None if self.nodes[node].is_replica => Reply::error(READONLY),
                    None => Reply::Number(0),
                }
            }
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
        let slot = slot_of(keys.first().filter(|_| self.is_cluster || self.is_sharded)?);
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Some("CROSSSLOT Keys in request don't hash to the same slot".into());
        }
        if self.is_sharded {
            return None;
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
        if !self.knows_script(node, words) {
            self.record_refusal(words);
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        }
        let declared = declared_keys(words).to_vec();
        let arguments = &words[3 + declared.len()..];
        let own = &mut self.nodes[node];
        let refuses_writes = if own.is_replica {
            Some(READONLY)
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
        let digest = Script::limiter().sha1().as_bytes();
        let (reply, context) = lua::run(digest, &declared, arguments, context);
        self.nodes[node].keys = context.keys;
        // The optimistic path of fixed windows increments first, and undoes it if the window has ended.
        for (key, before) in context.written {
            if self.nodes[node].keys.entry(&key) != before.as_ref() {
                self.record(&key);
                *self.runs.entry(key).or_default() += 1;
            }
        }
        if Instant::now() < self.nodes[node].proxy_errors_until {
            return Reply::error("ERR Connection timed out");
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

    /// Whether the node can run the script of an `EVAL` or `EVALSHA`. An `EVAL` makes it known.
    fn knows_script(&mut self, node: usize, words: &[Vec<u8>]) -> bool {
        let script = Script::limiter();
        let own = &mut self.nodes[node];
        if words[0] == b"EVAL" {
            assert!(words[1] == script.source().as_bytes(), "an unknown script");
            // The interpreter hashes the name at each run. With the source as the name, that took a
            // quarter of the simulation's time.
            lua::load(script.sha1().as_bytes(), script.source().as_bytes());
            own.scripts.insert(script.sha1().to_owned());
            return true;
        }
        own.scripts.contains(&*String::from_utf8_lossy(&words[1]))
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

fn declared_keys(words: &[Vec<u8>]) -> &[Vec<u8>] {
    let count = std::str::from_utf8(&words[2]).ok().and_then(|count| count.parse().ok());
    &words[3..3 + count.unwrap_or(0)]
}
