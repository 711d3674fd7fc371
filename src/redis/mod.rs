//! What goes to Redis and what comes back: key names, scripts, batches and their answers.
//!
//! A batch holds calls of one limiter, a round the batches that are sent together, as one job of one
//! script. It decides calls in order, each on the state that the one before left, and then writes
//! each key once. Only `Connection` and `Cluster` (feature `redis`)
//! speak to servers; the rest handles the words of a command and the values of a reply, whoever carries them.

mod batch;
mod codec;
mod inspect;
mod key_hash;
mod key_name;
mod script;
mod script_keys;
mod slot;

#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod connection;
#[cfg(feature = "redis")]
mod inline_io;
#[cfg(feature = "redis")]
mod server;

pub use batch::call_batch::Batch;
pub use batch::flush::{Round, Unanswered};
pub use batch::partition::{Part, Split};
pub use batch::policy_registry::noted_name;
pub use batch::script_call::{Answer, Failure, Job};
#[cfg(feature = "redis")]
pub use cluster::{AnsweredCalls, Cluster};
pub use codec::reply::{CallError, Entry, Reply, Value};
pub use codec::{Left, text};
#[cfg(feature = "redis")]
pub use connection::{
    Address, Connection, Connector, Credentials, CredentialsProvider, CredentialsSource, Endpoint,
    Health, HealthTimeouts, Identity, SentinelClient, ServerInfo, StoreWarning, Tls,
};
#[cfg(feature = "redis")]
pub use inline_io::socket_handle::SocketHandle;
pub use inspect::{Facts, Raw, Shape, StoredExtras, StoredName, TAGS, shape_of};
#[cfg(feature = "redis")]
pub use inspect::{Holds, Read, Reader};
#[cfg(feature = "wasm-redis")]
pub use key_hash::seed;
pub use key_name::Names;
pub use script::{CLOCK, Script};
pub use script_keys::Keys;
#[cfg(feature = "redis")]
pub use server::Remote;
pub use slot::{SLOTS, slot_of};
