//! The slot map: the owner of each slot.

use redis::Value as Reply;

use crate::redis::connection::Address;
use crate::redis::slot::SLOTS;

/// Parses `host:port` in a reply of the node at `source`. An empty host means the host of `source`.
pub(crate) fn parse_address(text: &str, source: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(resolve_host(Some(host), port.parse().ok()?, source))
}

fn resolve_host(host: Option<&str>, port: u16, source: &Address) -> Address {
    match (host, source) {
        // A node that does not know its own host name sends one of these.
        (None | Some("" | "?"), Address::Tcp(source, _)) => Address::Tcp(source.clone(), port),
        (host, _) => Address::Tcp(host.unwrap_or_default().to_owned(), port),
    }
}

/// The index of a slot without an owner.
const NO_OWNER: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct SlotMap {
    pub(crate) masters: Vec<Address>,
    replicas: Vec<Address>,
    /// By slot: the index of its owner in `masters`.
    owners: Vec<u16>,
}

impl SlotMap {
    /// Decodes the reply of the node at `source` to `CLUSTER SLOTS`. Returns `None` if the reply
    /// contains no slot: then the node does not belong to a cluster.
    pub(crate) fn read(reply: &Reply, source: &Address) -> Option<Self> {
        let Reply::Array(ranges) = reply else { return None };
        let owners = vec![NO_OWNER; usize::from(SLOTS)];
        let mut map = Self { masters: Vec::new(), replicas: Vec::new(), owners };
        for range in ranges {
            let Reply::Array(range) = range else { return None };
            let [Reply::Int(first), Reply::Int(last), master, replicas @ ..] = &range[..] else {
                return None;
            };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let owner = map.index_of(node_address(master, source)?);
            map.owners.get_mut(first..=last)?.fill(owner);
            map.replicas
                .extend(replicas.iter().filter_map(|replica| node_address(replica, source)));
        }
        (!map.masters.is_empty()).then_some(map)
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(self.owners[usize::from(slot)]))
    }

    pub(crate) fn set_owner(&mut self, slot: u16, address: Address) {
        self.owners[usize::from(slot)] = self.index_of(address);
    }

    /// All nodes that may know the topology.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters.iter().chain(&self.replicas)
    }

    fn index_of(&mut self, address: Address) -> u16 {
        let known = self.masters.iter().position(|master| *master == address);
        let index = known.unwrap_or_else(|| {
            self.masters.push(address);
            self.masters.len() - 1
        });
        u16::try_from(index).unwrap_or(NO_OWNER)
    }
}

fn node_address(node: &Reply, source: &Address) -> Option<Address> {
    let Reply::Array(node) = node else { return None };
    let [host, Reply::Int(port), ..] = &node[..] else { return None };
    let host = match host {
        Reply::Nil => None,
        Reply::BulkString(host) => Some(str::from_utf8(host).ok()?),
        Reply::SimpleString(host) => Some(host.as_str()),
        _ => return None,
    };
    Some(resolve_host(host, u16::try_from(*port).ok()?, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    fn node(host: Option<&str>, port: i64) -> Reply {
        let host = host.map_or(Reply::Nil, |host| Reply::BulkString(host.into()));
        Reply::Array(vec![host, Reply::Int(port), Reply::BulkString(b"id".to_vec())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Reply>) -> Reply {
        Reply::Array([vec![Reply::Int(first), Reply::Int(last)], nodes].concat())
    }

    #[test]
    fn masters_own_their_ranges_and_a_node_without_a_host_has_the_host_of_the_source() {
        let source = tcp("seed", 1);
        let reply = Reply::Array(vec![
            range(0, 99, vec![node(Some("a"), 7_000), node(Some("replica"), 7_001)]),
            range(100, 199, vec![node(None, 7_002)]),
            range(300, 16_383, vec![node(Some(""), 7_002)]),
        ]);
        let mut map = SlotMap::read(&reply, &source).unwrap();
        let [a, b] = [tcp("a", 7_000), tcp("seed", 7_002)];
        for (slot, owner) in [
            (0, Some(&a)),
            (99, Some(&a)),
            (100, Some(&b)),
            (200, None),
            (299, None),
            (16_383, Some(&b)),
        ] {
            assert_eq!(map.owner(slot), owner, "{slot}");
        }
        assert_eq!(map.masters, [a.clone(), b.clone()]);
        assert_eq!(map.nodes().last(), Some(&tcp("replica", 7_001)));
        let c = parse_address("::1:7003", &source).unwrap();
        assert_eq!(c, tcp("::1", 7_003));
        map.set_owner(50, c.clone());
        map.set_owner(51, parse_address(":7002", &source).unwrap());
        assert_eq!([map.owner(49), map.owner(50), map.owner(51)], [Some(&a), Some(&c), Some(&b)]);
    }

    #[test]
    fn a_reply_without_slots_is_no_map() {
        let source = tcp("seed", 1);
        for reply in [
            Reply::Nil,
            Reply::Array(vec![]),
            Reply::Array(vec![range(0, 16_384, vec![node(Some("a"), 1)])]),
            Reply::Array(vec![range(0, 5, vec![])]),
            Reply::Array(vec![range(0, 5, vec![node(Some("a"), 70_000)])]),
        ] {
            assert!(SlotMap::read(&reply, &source).is_none(), "{reply:?}");
        }
    }
}
