//! Reads what is in Redis and changes nothing: for those who look at limits from outside.
//!
//! It has links of its own, made as a store makes them, and asks one question after the other. Keys are found by
//! `SCAN`, on every master of a cluster; nothing is ever asked for that would hold a server, or write.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redis::{Pipeline, Value};
use tokio::time::timeout;

use crate::redis::cluster::SlotMap;
use crate::redis::connection::{Address, Connector, Endpoint, Session};
use crate::redis::inspect::key_query::{Told, Wanted, bytes};
use crate::redis::inspect::{Facts, StoredName};
use crate::redis::slot::slot_of;
use crate::time::Micros;

/// So often keys are looked for again that have moved to another node.
const MOST_MOVES: usize = 3;

/// Links to a server, or to all masters of a cluster, that only read.
pub struct Reader {
    way: Way,
    access: Connector,
    links: HashMap<Address, Session>,
    map: Option<SlotMap>,
}

enum Way {
    /// This server, which may turn out to be of a cluster.
    Server(Address),
    /// The master that sentinels know.
    Master(Box<Endpoint>),
    /// Whoever of these answers knows the cluster.
    Cluster(Vec<Address>),
}

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// The server's time.
    pub now: Micros,
    /// What is known of keys that are there; without facts it cannot be read.
    pub found: Vec<(StoredName, Option<Facts>)>,
    /// How many keys were looked at that may be others'.
    pub scanned: usize,
    /// The prefixes of those of them that limiters have written.
    pub prefixes: BTreeSet<String>,
    /// Where to go on; 0 at the end.
    pub cursor: u64,
}

/// The holds of a key: how many are open, and when the last of them ends.
pub type Holds = (u64, Micros);

impl Reader {
    /// Reads from where a route leads to; if that is a node of a cluster, from all of its masters.
    #[must_use]
    pub fn by_route(route: Endpoint) -> Self {
        let access = route.connector().clone();
        let way = match route.last_address().filter(|_| route.is_fixed()) {
            Some(address) => Way::Server(address.clone()),
            None => Way::Master(Box::new(route)),
        };
        Self::new(way, access)
    }

    /// Reads from the cluster of which these are nodes.
    #[must_use]
    pub fn of_cluster(seeds: Vec<Address>, access: Connector) -> Self {
        Self::new(Way::Cluster(seeds), access)
    }

    fn new(way: Way, access: Connector) -> Self {
        Self { way, access, links: HashMap::new(), map: None }
    }

    /// Connects, and tells all masters; and whether they are a cluster.
    ///
    /// # Errors
    /// Why none can be reached.
    pub async fn masters(&mut self) -> Result<(Vec<Address>, bool), Arc<str>> {
        if let Way::Server(address) = &self.way {
            let address = address.clone();
            if !self.is_of_cluster(&address).await? {
                return Ok((vec![address], false));
            }
            self.way = Way::Cluster(vec![address]);
        }
        match &mut self.way {
            Way::Master(route) => {
                let connected = route.connect().await?;
                let address =
                    route.last_address().cloned().ok_or("no sentinel knows the master")?;
                self.links.insert(address.clone(), connected.session);
                self.way = Way::Server(address.clone());
                Ok((vec![address], false))
            }
            Way::Server(address) => Ok((vec![address.clone()], false)),
            Way::Cluster(seeds) => {
                let seeds = seeds.clone();
                let map = self.map_from(&seeds).await?;
                let masters = map.masters().to_vec();
                self.map = Some(map);
                Ok((masters, true))
            }
        }
    }

    /// How many keys a master has, whosever they are, if it tells.
    ///
    /// # Errors
    /// Why the master cannot be asked.
    pub async fn size(&mut self, master: &Address) -> Result<Option<u64>, Arc<str>> {
        let mut asked = redis::pipe();
        asked.cmd("DBSIZE");
        let replies = self.ask(master, &asked, 1).await?;
        let [Value::Int(size)] = &replies[..] else { return Ok(None) };
        Ok(u64::try_from(*size).ok())
    }

    /// Reads those keys of a prefix that are on a page of what a master has: about `count` of those that match a
    /// pattern, from a cursor on.
    ///
    /// # Errors
    /// Why the master cannot be asked.
    pub async fn page(
        &mut self,
        master: &Address,
        prefix: &str,
        (cursor, count): (u64, usize),
        pattern: &str,
    ) -> Result<Read, Arc<str>> {
        let mut asked = redis::pipe();
        asked.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let replies = self.ask(master, &asked, 1).await?;
        let (cursor, names) = page_of(replies).map_err(|why| said(master, &why))?;
        let scanned = names.len();
        let prefixes = names.iter().filter_map(|name| StoredName::prefix(name));
        let prefixes = prefixes.map(str::to_owned).collect();
        let wanted: Vec<_> =
            names.into_iter().filter_map(|name| Wanted::of(prefix, name)).collect();
        let (read, _) = self.read_at(master, wanted).await?;
        Ok(Read { scanned, prefixes, cursor, ..read })
    }

    /// Reads those keys of a prefix that are there.
    ///
    /// # Errors
    /// Why one of the servers cannot be asked.
    pub async fn find(&mut self, prefix: &str, names: Vec<Vec<u8>>) -> Result<Read, Arc<str>> {
        let mut all = Read { scanned: names.len(), ..Read::default() };
        let mut wanted: Vec<_> =
            names.into_iter().filter_map(|name| Wanted::of(prefix, name)).collect();
        for _ in 0..MOST_MOVES {
            for (owner, group) in self.by_owner(std::mem::take(&mut wanted)).await? {
                let (read, moved) = self.read_at(&owner, group).await?;
                all.now = all.now.max(read.now);
                all.found.extend(read.found);
                wanted.extend(moved);
            }
            if wanted.is_empty() {
                return Ok(all);
            }
            self.masters().await?;
        }
        Err("the keys are moving between the nodes of the cluster".into())
    }

    /// Reads the holds of reservations that have this name.
    ///
    /// # Errors
    /// Why the server cannot be asked.
    pub async fn holds(&mut self, name: &[u8], now: Micros) -> Result<Holds, Arc<str>> {
        let owner = self.owner(name).await?;
        let mut asked = redis::pipe();
        asked.cmd("ZCOUNT").arg(name).arg(format!("({now}")).arg("+inf");
        asked.cmd("ZRANGE").arg(name).arg(-1).arg(-1).arg("WITHSCORES");
        let replies = self.ask(&owner, &asked, 2).await?;
        let [Value::Int(count), Value::Array(last)] = &replies[..] else { return Ok((0, 0)) };
        let ends = last.get(1).and_then(bytes).and_then(|score| str::from_utf8(score).ok());
        let ends = ends.and_then(|score| score.parse().ok()).unwrap_or(0);
        Ok((u64::try_from(*count).unwrap_or(0), ends))
    }

    /// Reads keys of one server, and gives back those that are another's now.
    async fn read_at(
        &mut self,
        address: &Address,
        wanted: Vec<Wanted>,
    ) -> Result<(Read, Vec<Wanted>), Arc<str>> {
        let mut asked = redis::pipe();
        asked.cmd("TIME");
        wanted.iter().for_each(|one| one.ask(&mut asked));
        let count = 1 + wanted.iter().map(Wanted::replies).sum::<usize>();
        let mut replies = self.ask(address, &asked, count).await?.into_iter();
        let now = replies.next().as_ref().and_then(time).ok_or("the server tells no time")?;
        let (mut read, mut moved) = (Read { now, ..Read::default() }, Vec::new());
        for one in wanted {
            let told: Vec<_> = replies.by_ref().take(one.replies()).collect();
            match one.raw(told) {
                Told::Nothing => {}
                Told::Moved => moved.push(one),
                Told::Denied(why) => return Err(said(address, &why)),
                Told::Other => read.found.push((one.name, None)),
                Told::Is(raw) => {
                    let facts = raw.facts(one.shape, now);
                    read.found.push((one.name, facts));
                }
            }
        }
        Ok((read, moved))
    }

    async fn by_owner(
        &mut self,
        wanted: Vec<Wanted>,
    ) -> Result<HashMap<Address, Vec<Wanted>>, Arc<str>> {
        let mut groups: HashMap<Address, Vec<Wanted>> = HashMap::new();
        for one in wanted {
            groups.entry(self.owner(&one.written).await?).or_default().push(one);
        }
        Ok(groups)
    }

    /// The server that has a key.
    async fn owner(&mut self, name: &[u8]) -> Result<Address, Arc<str>> {
        if self.map.is_none() {
            let (masters, is_cluster) = self.masters().await?;
            if !is_cluster {
                return masters.into_iter().next().ok_or_else(|| "there is no server".into());
            }
        }
        let owner = self.map.as_ref().and_then(|map| map.owner(slot_of(name)));
        owner.cloned().ok_or_else(|| "no node of the cluster owns the key's slot".into())
    }

    /// Asks nodes of a cluster, one after the other, until one tells who owns what.
    async fn map_from(&mut self, seeds: &[Address]) -> Result<SlotMap, Arc<str>> {
        let known = self.map.iter().flat_map(|map| map.masters().to_vec());
        let all: Vec<_> = known.chain(seeds.iter().cloned()).collect();
        let mut why: Arc<str> = "there are no nodes".into();
        for address in all {
            let mut asked = redis::pipe();
            asked.cmd("CLUSTER").arg("SLOTS");
            match self.ask(&address, &asked, 1).await {
                Ok(replies) => match SlotMap::read(&replies[0], &address) {
                    Some(map) => return Ok(map),
                    None => why = said(&address, &told(&replies[0], "it knows no cluster")),
                },
                Err(failed) => why = failed,
            }
        }
        Err(why)
    }

    async fn is_of_cluster(&mut self, address: &Address) -> Result<bool, Arc<str>> {
        let mut asked = redis::pipe();
        asked.cmd("HELLO");
        let replies = self.ask(address, &asked, 1).await?;
        let Some(Value::Array(words)) = replies.first() else {
            return Err(said(address, &told(&replies[0], "it does not answer as Redis does")));
        };
        let mut pairs = words.as_chunks().0.iter();
        Ok(pairs.any(|[name, value]| {
            (bytes(name), bytes(value)) == (Some(&b"mode"[..]), Some(&b"cluster"[..]))
        }))
    }

    /// Asks a server, over the link that there is or a new one; an error says where it came about.
    async fn ask(
        &mut self,
        address: &Address,
        asked: &Pipeline,
        replies: usize,
    ) -> Result<Vec<Value>, Arc<str>> {
        if !self.links.contains_key(address) {
            let opened = self.access.connect(address).await?;
            self.links.insert(address.clone(), opened);
        }
        let Some(link) = self.links.get_mut(address) else { return Ok(Vec::new()) };
        let asking = link.handle.connection.send_packed_commands(asked, 0, replies);
        match timeout(self.access.timeout, asking).await {
            Ok(Ok(told)) if told.len() == replies => Ok(told),
            Ok(Ok(_)) => Err(said(address, "it answers otherwise than Redis does")),
            Ok(Err(error)) => {
                self.links.remove(address);
                Err(said(address, &error.to_string()))
            }
            Err(_) => {
                self.links.remove(address);
                Err(said(address, "it did not answer in time"))
            }
        }
    }
}

fn said(address: &Address, why: &str) -> Arc<str> {
    format!("{address}: {why}").into()
}

/// What a server says that does not answer, or what is to be said of its answer.
fn told(reply: &Value, otherwise: &str) -> String {
    match reply {
        Value::ServerError(error) => redis::RedisError::from(error.clone()).to_string(),
        _ => otherwise.to_owned(),
    }
}

fn page_of(replies: Vec<Value>) -> Result<(u64, Vec<Vec<u8>>), String> {
    let reply = replies.into_iter().next().unwrap_or(Value::Nil);
    if let Value::Array(page) = &reply
        && let [Value::BulkString(cursor), Value::Array(names)] = &page[..]
        && let Some(cursor) = str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok())
    {
        return Ok((cursor, names.iter().filter_map(bytes).map(Vec::from).collect()));
    }
    Err(told(&reply, "it answers otherwise than Redis does"))
}

fn time(reply: &Value) -> Option<Micros> {
    let Value::Array(words) = reply else { return None };
    let number = |word| str::from_utf8(bytes(word)?).ok()?.parse::<u64>().ok();
    let [seconds, micros] = &words[..] else { return None };
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}
