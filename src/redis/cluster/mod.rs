//! Redis Cluster: sends calls to the nodes that own their slots, and follows slots that move.
//!
//! The router splits each flush by slot, sends the parts to the slots' owners, and reports results
//! as the nodes answer. So a slow node delays only the keys of its own slots.

mod node;
pub(crate) mod node_batch;
mod node_request;
mod router;
mod slot_map;
mod slot_queues;
mod slot_request;
mod store;
mod topology;

pub(crate) use slot_map::SlotMap;
#[cfg(feature = "fuzzing")]
pub(crate) use {node_request::node_reply, slot_map::parse_address, topology::TopologyReport};

pub use node::ClusterAddresses;
pub use store::Cluster;
