//! What goes to Redis and what comes back: key names, scripts, batches and their answers.
//!
//! A batch holds calls of one limiter, a round the batches that are sent together, as one job of one
//! script. It decides calls in order, each on the state that the one before left, and then writes
//! each key once. Only `Connection` and `Cluster` (feature `redis`)
//! speak to servers; the rest handles the words of a command and the values of a reply, whoever carries them.

mod batch;
mod hashes;
mod job;
mod keys;
mod name;
mod noted;
mod noting;
mod outlook;
mod pick;
mod reply;
mod request;
mod round;
mod script;
mod slot;
mod split;
mod stored;
pub mod text;
mod told;
mod waves;
mod wire;

#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod connection;
#[cfg(feature = "redis")]
mod reader;
#[cfg(feature = "redis")]
mod remote;

pub use batch::Batch;
#[cfg(feature = "redis")]
pub use cluster::{Cluster, Settled};
#[cfg(feature = "redis")]
pub use connection::{
    About, Access, Address, Connection, Credentials, Health, Identity, LinkSocket, Login, Logins,
    Patience, Route, Sentinels, Tls, Warning,
};
#[cfg(feature = "wasm-redis")]
pub use hashes::seed;
pub use job::{Answer, Failure, Job};
pub use keys::Keys;
pub use name::Names;
pub use noted::noted_name;
#[cfg(feature = "redis")]
pub use reader::{Holds, Read, Reader};
#[cfg(feature = "redis")]
pub use remote::Remote;
pub use reply::{CallError, Entry, Reply, Value};
pub use round::{Round, Unanswered};
pub use script::{CLOCK, Script};
pub use slot::{SLOTS, slot_of};
pub use split::{Part, Split};
pub use stored::{Facts, Raw, Shape, StoredExtras, StoredName, TAGS, shape_of};
pub use wire::Left;
