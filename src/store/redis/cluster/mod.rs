//! Redis Cluster: which node decides, and what to do when that is another.
//!
//! The router splits rounds by slot and sends the parts to the nodes that own the slots, follows the
//! slots when they move, and tells what became of the parts as the nodes answer: a slow node delays only
//! its own keys.

mod face;
mod lanes;
mod map;
mod node;
mod piece;
mod request;
mod router;
mod topology;

pub(super) use map::SlotMap;

pub use face::Cluster;
pub use piece::Settled;
