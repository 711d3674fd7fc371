//! Reads keys in Redis without writing, for the command line.
//!
//! An inspector has its own connections, opened as a store opens them, and sends one request at a
//! time. It finds keys with `SCAN`, on each master of a cluster. It never sends a command that
//! blocks the server for long, or that writes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use redis::{Pipeline, Value};
use tokio::time::timeout;

use crate::redis::batch::policy_registry::policy_registry_key;
use crate::redis::cluster::{ClusterAddresses, SlotMap};
use crate::redis::codec::KeySummary;
use crate::redis::connection::{Address, CheckedSession, Connector, Endpoint, Handshake, NatMap};
use crate::redis::inspect::key_query::{KeyQuery, KeyReport, bytes};
use crate::redis::inspect::{HoldSummary, StoredName};
use crate::redis::slot::slot_of;
use crate::time::Micros;

/// The number of attempts to read keys that move between nodes.
const MAX_MOVES: usize = 3;

/// The members of a set that one command reads.
const MEMBERS: i64 = 1_000;

/// Read-only connections to a server, or to all masters of a cluster.
pub struct Inspector {
    target: InspectTarget,
    access: Connector,
    nat_map: NatMap,
    connections: HashMap<Address, CheckedSession>,
    map: Option<SlotMap>,
}

enum InspectTarget {
    /// A server. It may turn out to be a node of a cluster.
    Server(Address),
    Master(Box<Endpoint>),
    Cluster(Vec<Address>),
}

/// The keys that one request has read.
#[derive(Debug, Default)]
pub struct KeyPage {
    /// The server's time, in epoch microseconds.
    pub now: Micros,
    /// The keys that exist, with their summaries. A key without a summary is unreadable.
    pub found: Vec<(StoredName, Option<KeySummary>)>,
    /// The number of keys scanned, including those that no limiter wrote.
    pub scanned: usize,
    /// The number of scanned keys that limiters wrote, by prefix, policy and algorithm.
    pub owners: BTreeMap<KeyOwner, u32>,
    /// The sought keys with open holds or remembered calls.
    pub held: Vec<(StoredName, HoldSummary)>,
    /// The cursor of the next page; 0 at the end.
    pub cursor: u64,
}

/// A prefix, the name of a policy, and the tag of its algorithm.
pub type KeyOwner = [String; 3];

impl Inspector {
    /// Reads from the server of a route. If it is a node of a cluster, reads from all masters.
    #[must_use]
    pub fn by_route(route: Endpoint) -> Self {
        let access = route.connector.clone();
        let target = match route.last_address().filter(|_| route.is_fixed()) {
            Some(address) => InspectTarget::Server(address.clone()),
            None => InspectTarget::Master(Box::new(route)),
        };
        Self::new(target, access, NatMap::default())
    }

    /// Reads from the cluster of some nodes.
    #[must_use]
    pub fn of_cluster(addresses: ClusterAddresses, access: Connector) -> Self {
        let ClusterAddresses { seeds, nat_map } = addresses;
        Self::new(InspectTarget::Cluster(seeds), access, nat_map)
    }

    fn new(target: InspectTarget, access: Connector, nat_map: NatMap) -> Self {
        Self { target, access, nat_map, connections: HashMap::new(), map: None }
    }

    /// Connects. Returns the addresses of all masters and whether they form a cluster.
    ///
    /// # Errors
    /// The reason why no server can be reached.
    pub async fn masters(&mut self) -> Result<(Vec<Address>, bool), Arc<str>> {
        if let InspectTarget::Server(address) = &self.target {
            let address = address.clone();
            if !self.is_of_cluster(&address).await? {
                return Ok((vec![address], false));
            }
            self.target = InspectTarget::Cluster(vec![address]);
        }
        match &mut self.target {
            InspectTarget::Master(route) => {
                let connected = route.connect(None).await?;
                let address =
                    route.last_address().cloned().ok_or("no sentinel knows the master")?;
                self.connections.insert(address.clone(), connected);
                self.target = InspectTarget::Server(address.clone());
                Ok((vec![address], false))
            }
            InspectTarget::Server(address) => Ok((vec![address.clone()], false)),
            InspectTarget::Cluster(seeds) => {
                let seeds = seeds.clone();
                let map = self.slot_map_from(&seeds).await?;
                let masters = map.masters.clone();
                self.map = Some(map);
                Ok((masters, true))
            }
        }
    }

    /// The number of all keys on a master, or `None` if it does not report it.
    ///
    /// # Errors
    /// The reason why the master does not reply.
    pub async fn size(&mut self, master: &Address) -> Result<Option<u64>, Arc<str>> {
        let replies = self.query(master, redis::pipe().cmd("DBSIZE")).await?;
        let [Value::Int(size)] = &replies[..] else { return Ok(None) };
        Ok(u64::try_from(*size).ok())
    }

    /// Reads the keys of a prefix on one page of a master's keys. The page has about `count` keys
    /// that match `pattern`, from `cursor` on. It also reads the holds of the `sought` keys.
    ///
    /// # Errors
    /// The reason why the master does not reply.
    pub async fn page(
        &mut self,
        master: &Address,
        prefix: &str,
        (cursor, count): (u64, usize),
        pattern: &str,
        sought: &[String],
    ) -> Result<KeyPage, Arc<str>> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let replies = self.query(master, &pipeline).await?;
        let (cursor, names) = page_of(replies).map_err(|why| error_at(master, &why))?;
        let scanned = names.len();
        let mut owners = BTreeMap::new();
        for (prefix, policy, tag) in names.iter().filter_map(|name| StoredName::owner(name)) {
            let owner = [prefix, policy, tag].map(str::to_owned);
            *owners.entry(owner).or_default() += 1;
        }
        let holders: Vec<_> = names
            .iter()
            .filter_map(|name| Some((StoredName::read_holds(prefix, name)?, name.clone())))
            .filter(|(holder, _)| sought.contains(&holder.key))
            .collect();
        let queries: Vec<_> =
            names.into_iter().filter_map(|name| KeyQuery::new(prefix, name)).collect();
        let (page, _) = self.read_at(master, queries).await?;
        let mut held = Vec::new();
        for (holder, name) in holders {
            if let Some(holds) = self.holds_at(master, &name, page.now).await? {
                held.push((holder, holds));
            }
        }
        Ok(KeyPage { scanned, owners, held, cursor, ..page })
    }

    /// Reads those of the named keys of a prefix that exist.
    ///
    /// # Errors
    /// The reason why a server does not reply.
    pub async fn find(&mut self, prefix: &str, names: Vec<Vec<u8>>) -> Result<KeyPage, Arc<str>> {
        let mut all = KeyPage { scanned: names.len(), ..KeyPage::default() };
        let mut queries: Vec<_> =
            names.into_iter().filter_map(|name| KeyQuery::new(prefix, name)).collect();
        for _ in 0..MAX_MOVES {
            let mut groups: HashMap<Address, Vec<KeyQuery>> = HashMap::new();
            for query in std::mem::take(&mut queries) {
                groups.entry(self.owner(&query.encoded).await?).or_default().push(query);
            }
            for (owner, group) in groups {
                let (page, moved) = self.read_at(&owner, group).await?;
                all.now = all.now.max(page.now);
                all.found.extend(page.found);
                queries.extend(moved);
            }
            if queries.is_empty() {
                return Ok(all);
            }
            self.masters().await?;
        }
        Err("the keys are moving between the nodes of the cluster".into())
    }

    /// Reads the hold key `name`; `None` if all that it holds has ended.
    ///
    /// # Errors
    /// The reason why the server does not reply.
    pub async fn holds(
        &mut self,
        name: &[u8],
        now: Micros,
    ) -> Result<Option<HoldSummary>, Arc<str>> {
        let owner = self.owner(name).await?;
        self.holds_at(&owner, name, now).await
    }

    async fn holds_at(
        &mut self,
        server: &Address,
        name: &[u8],
        now: Micros,
    ) -> Result<Option<HoldSummary>, Arc<str>> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZCOUNT").arg(name).arg(format!("({now}")).arg("+inf");
        let replies = self.query(server, &pipeline).await?;
        let [Value::Int(open @ 1..)] = replies[..] else { return Ok(None) };
        let mut pipeline = redis::pipe();
        // From the first that has not ended. No command reads the whole set, which may be large.
        let mut rest = open;
        while rest > 0 {
            let next = (rest - MEMBERS).max(0);
            pipeline.cmd("ZRANGE").arg(name).arg(-rest).arg(-next - 1).arg("WITHSCORES");
            rest = next;
        }
        Ok(HoldSummary::read(&self.query(server, &pipeline).await?, now))
    }

    /// Reads the policy texts of the limiters of a prefix: those in use at the time `now`, or the one
    /// that was used last; none if the user lacks the right.
    ///
    /// # Errors
    /// The reason why the server does not reply.
    pub async fn registered_policies(
        &mut self,
        prefix: &str,
        now: Micros,
    ) -> Result<Vec<String>, Arc<str>> {
        let name = policy_registry_key(prefix);
        let owner = self.owner(name.as_bytes()).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(&name).arg(0).arg(-1).arg("WITHSCORES");
        let replies = self.query(&owner, &pipeline).await?;
        let [Value::Array(words)] = &replies[..] else { return Ok(Vec::new()) };
        let entries = words.as_chunks().0.iter().filter_map(|[text, used_until]| {
            let used_until = str::from_utf8(bytes(used_until)?).ok()?.parse::<f64>().ok()?;
            Some((String::from_utf8_lossy(bytes(text)?).into_owned(), used_until))
        });
        let mut entries: Vec<_> = entries.collect();
        #[expect(clippy::cast_precision_loss, reason = "times are below 2^53")]
        let now_ms = (now / 1_000) as f64;
        // Redis has sorted them by the time until which they count as used.
        let unused = entries.iter().take_while(|(_, until)| *until <= now_ms).count();
        entries.drain(..unused.min(entries.len().saturating_sub(1)));
        Ok(entries.into_iter().map(|(text, _)| text).collect())
    }

    /// Reads keys from a server. Returns a page, and the queries for keys that have moved.
    async fn read_at(
        &mut self,
        address: &Address,
        queries: Vec<KeyQuery>,
    ) -> Result<(KeyPage, Vec<KeyQuery>), Arc<str>> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        queries.iter().for_each(|query| query.push_commands(&mut pipeline));
        let mut replies = self.query(address, &pipeline).await?.into_iter();
        let now = replies.next().as_ref().and_then(time);
        let now = now.ok_or("the server's reply to TIME is invalid")?;
        let (mut page, mut moved) = (KeyPage { now, ..KeyPage::default() }, Vec::new());
        for query in queries {
            let own: Vec<_> = replies.by_ref().take(query.reply_count()).collect();
            match query.report(own) {
                KeyReport::Absent => {}
                KeyReport::Moved => moved.push(query),
                KeyReport::Denied(why) => return Err(error_at(address, &why)),
                KeyReport::Foreign => page.found.push((query.name, None)),
                KeyReport::Stored(raw) => {
                    let summary = raw.summary(query.layout, now);
                    page.found.push((query.name, summary));
                }
            }
        }
        Ok((page, moved))
    }

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

    /// Asks the nodes of a cluster for the slot map, one after the other.
    async fn slot_map_from(&mut self, seeds: &[Address]) -> Result<SlotMap, Arc<str>> {
        let known = self.map.iter().flat_map(|map| map.masters.clone());
        let all: Vec<_> = known.chain(seeds.iter().cloned()).collect();
        let mut why: Arc<str> = "no node of the cluster is known".into();
        for address in all {
            match self.query(&address, redis::pipe().cmd("CLUSTER").arg("SLOTS")).await {
                Ok(replies) => match SlotMap::read(&replies[0], &address) {
                    Some(map) => return Ok(map),
                    None => {
                        why = error_at(&address, &error_text(&replies[0], "it has no slot map"));
                    }
                },
                Err(failed) => why = failed,
            }
        }
        Err(why)
    }

    async fn is_of_cluster(&mut self, address: &Address) -> Result<bool, Arc<str>> {
        // A proxy that ends a session with HELLO does not show whether there is a cluster.
        if self.opened(address).await?.handshake == Handshake::Minimal {
            return Ok(false);
        }
        let replies = self.query(address, redis::pipe().cmd("HELLO")).await?;
        let Some(Value::Array(words)) = replies.first() else {
            let why = error_text(&replies[0], "its reply to HELLO is invalid");
            return Err(error_at(address, &why));
        };
        let mut pairs = words.as_chunks().0.iter();
        Ok(pairs.any(|[name, value]| {
            (bytes(name), bytes(value)) == (Some(&b"mode"[..]), Some(&b"cluster"[..]))
        }))
    }

    /// The open connection to a server, or a new one. A replica will do, too.
    async fn opened(&mut self, address: &Address) -> Result<&mut CheckedSession, Arc<str>> {
        match self.connections.entry(address.clone()) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => {
                let reachable = self.nat_map.reachable(address).clone();
                let mut endpoint = Endpoint::node(reachable, self.access.clone(), true);
                Ok(place.insert(endpoint.connect(None).await?))
            }
        }
    }

    /// Sends commands to a server over an open or new connection. Errors name the server.
    async fn query(
        &mut self,
        address: &Address,
        pipeline: &Pipeline,
    ) -> Result<Vec<Value>, Arc<str>> {
        let limit = self.access.timeout;
        let connection = &mut self.opened(address).await?.session.handle.connection;
        let sent = connection.send_packed_commands(pipeline, 0, pipeline.len());
        match timeout(limit, sent).await {
            Ok(Ok(values)) if values.len() == pipeline.len() => Ok(values),
            Ok(Ok(_)) => Err(error_at(address, INVALID_REPLY)),
            Ok(Err(error)) => {
                self.connections.remove(address);
                Err(error_at(address, &error.to_string()))
            }
            Err(_) => {
                self.connections.remove(address);
                Err(error_at(address, "it did not answer in time"))
            }
        }
    }
}

const INVALID_REPLY: &str = "its reply is not a valid Redis reply";

fn error_at(address: &Address, why: &str) -> Arc<str> {
    format!("{address}: {why}").into()
}

/// The text of an error reply; `otherwise` for any other reply.
fn error_text(reply: &Value, otherwise: &str) -> String {
    match reply {
        Value::ServerError(error) => redis::RedisError::from(error.clone()).to_string(),
        _ => otherwise.to_owned(),
    }
}

pub(crate) fn page_of(replies: Vec<Value>) -> Result<(u64, Vec<Vec<u8>>), String> {
    let reply = replies.into_iter().next().unwrap_or(Value::Nil);
    if let Value::Array(page) = &reply
        && let [Value::BulkString(cursor), Value::Array(names)] = &page[..]
        && let Some(cursor) = str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok())
    {
        return Ok((cursor, names.iter().filter_map(bytes).map(Vec::from).collect()));
    }
    Err(error_text(&reply, INVALID_REPLY))
}

pub(crate) fn time(reply: &Value) -> Option<Micros> {
    let Value::Array(words) = reply else { return None };
    let number = |word| str::from_utf8(bytes(word)?).ok()?.parse::<u64>().ok();
    let [seconds, micros] = &words[..] else { return None };
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}
