//! Redis Cluster: which node decides, and what to do when that is another.
//!
//! The router splits rounds by slot and sends the parts to the nodes that own the slots, follows the
//! slots when they move, and tells what became of the parts as the nodes answer: a slow node delays only
//! its own keys.

mod node;
mod node_request;
mod router;
mod slot_map;
mod slot_queues;
mod slot_request;
mod store;
mod topology;

pub(crate) use slot_map::SlotMap;

pub use slot_request::Settled;
pub use store::Cluster;
