//! What goes to Redis and what comes back: key names, scripts, batches and their answers.
//!
//! A batch holds calls of one limiter, a round the batches that are sent together, as one job of one
//! script. It decides calls in order, each on the state that the one before left, and then writes
//! each key once. Only `Connection` (feature `redis`) speaks to a
//! server; the rest handles the words of a command and the values of a reply, whoever carries them.

mod batch;
mod job;
mod keys;
mod name;
mod outlook;
mod reply;
mod request;
mod round;
mod script;
mod told;
mod wire;

#[cfg(feature = "redis")]
mod connection;
#[cfg(feature = "redis")]
mod course;
#[cfg(feature = "redis")]
mod link;
#[cfg(feature = "redis")]
mod sender;
#[cfg(feature = "redis")]
mod server_time;

pub use batch::Batch;
#[cfg(feature = "redis")]
pub use connection::Connection;
pub use job::{Answer, Failure, Job};
pub use keys::Keys;
pub use name::Names;
pub use reply::{CallError, Entry, Reply, Value};
pub use round::{Round, Unanswered};
pub use script::{CLOCK, Script};
pub use wire::Left;
