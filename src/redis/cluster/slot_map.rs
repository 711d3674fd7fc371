//! Which node owns which slot.

use redis::Value as Reply;

use crate::redis::connection::Address;
use crate::redis::slot::SLOTS;

/// Reads `host:port` as a node tells it; without a host it is the host that has been asked.
pub(crate) fn told(text: &str, asked: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(told_as(Some(host), port.parse().ok()?, asked))
}

fn told_as(host: Option<&str>, port: u16, asked: &Address) -> Address {
    match (host, asked) {
        // A node that does not know its own name says so.
        (None | Some("" | "?"), Address::Tcp(asked, _)) => Address::Tcp(asked.clone(), port),
        (host, _) => Address::Tcp(host.unwrap_or_default().to_owned(), port),
    }
}

/// A slot that nobody owns.
const NOBODY: u16 = u16::MAX;

/// The owners of all slots, as far as they are known.
#[derive(Debug)]
pub(crate) struct SlotMap {
    masters: Vec<Address>,
    replicas: Vec<Address>,
    /// By slot: its master's place.
    owners: Vec<u16>,
}

impl SlotMap {
    /// Reads what a node that was asked for `CLUSTER SLOTS` has replied. It is nothing if it names no slot:
    /// then the node belongs to no cluster yet, or not any more.
    pub(crate) fn read(reply: &Reply, asked: &Address) -> Option<Self> {
        let Reply::Array(ranges) = reply else { return None };
        let owners = vec![NOBODY; usize::from(SLOTS)];
        let mut map = Self { masters: Vec::new(), replicas: Vec::new(), owners };
        for range in ranges {
            let Reply::Array(range) = range else { return None };
            let [Reply::Int(first), Reply::Int(last), master, replicas @ ..] = &range[..] else {
                return None;
            };
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            let owner = map.place_of(address(master, asked)?);
            map.owners.get_mut(first..=last)?.fill(owner);
            map.replicas.extend(replicas.iter().filter_map(|replica| address(replica, asked)));
        }
        (!map.masters.is_empty()).then_some(map)
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(self.owners[usize::from(slot)]))
    }

    /// A slot has a new owner.
    pub(crate) fn moved(&mut self, slot: u16, address: Address) {
        self.owners[usize::from(slot)] = self.place_of(address);
    }

    pub(crate) fn masters(&self) -> &[Address] {
        &self.masters
    }

    /// All that may know how the cluster stands.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Address> {
        self.masters.iter().chain(&self.replicas)
    }

    fn place_of(&mut self, address: Address) -> u16 {
        let known = self.masters.iter().position(|master| *master == address);
        let place = known.unwrap_or_else(|| {
            self.masters.push(address);
            self.masters.len() - 1
        });
        u16::try_from(place).unwrap_or(NOBODY)
    }
}

fn address(node: &Reply, asked: &Address) -> Option<Address> {
    let Reply::Array(node) = node else { return None };
    let [host, Reply::Int(port), ..] = &node[..] else { return None };
    let host = match host {
        Reply::Nil => None,
        Reply::BulkString(host) => Some(str::from_utf8(host).ok()?),
        Reply::SimpleString(host) => Some(host.as_str()),
        _ => return None,
    };
    Some(told_as(host, u16::try_from(*port).ok()?, asked))
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
    fn masters_own_their_ranges_and_a_node_without_a_name_is_where_it_was_asked() {
        let asked = tcp("seed", 1);
        let reply = Reply::Array(vec![
            range(0, 99, vec![node(Some("a"), 7_000), node(Some("replica"), 7_001)]),
            range(100, 199, vec![node(None, 7_002)]),
            range(300, 16_383, vec![node(Some(""), 7_002)]),
        ]);
        let mut map = SlotMap::read(&reply, &asked).unwrap();
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
        assert_eq!(map.masters(), [a.clone(), b.clone()]);
        assert_eq!(map.nodes().last(), Some(&tcp("replica", 7_001)));
        let c = told("::1:7003", &asked).unwrap();
        assert_eq!(c, tcp("::1", 7_003));
        map.moved(50, c.clone());
        map.moved(51, told(":7002", &asked).unwrap());
        assert_eq!([map.owner(49), map.owner(50), map.owner(51)], [Some(&a), Some(&c), Some(&b)]);
    }

    #[test]
    fn what_names_no_slot_is_no_map() {
        let asked = tcp("seed", 1);
        for reply in [
            Reply::Nil,
            Reply::Array(vec![]),
            Reply::Array(vec![range(0, 16_384, vec![node(Some("a"), 1)])]),
            Reply::Array(vec![range(0, 5, vec![])]),
            Reply::Array(vec![range(0, 5, vec![node(Some("a"), 70_000)])]),
        ] {
            assert!(SlotMap::read(&reply, &asked).is_none(), "{reply:?}");
        }
    }
}
