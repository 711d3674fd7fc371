//! The limiter store in Redis: key names, scripts, batches of calls and their replies.
//!
//! A [`CallBatch`] has calls of one limiter. A [`Flush`] has the batches that are sent together, in
//! one [`ScriptCall`] if they fit. The script decides the calls in order, each on the state after
//! the call before it, and then writes each key once.
//!
//! Only `Connection` and `Cluster` (feature `redis`) talk to servers. The rest encodes commands and
//! decodes replies, whatever client carries them.

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
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "redis")]
mod inline_io;
#[cfg(feature = "redis")]
mod server;
#[cfg(feature = "simulation")]
pub mod simulation;

pub use batch::call_batch::CallBatch;
pub use batch::flush::{CallFailure, Flush};
pub use batch::partition::{FlushPartition, SlotPartitions};
#[cfg(feature = "wasm-redis")]
pub(crate) use batch::pending_calls::{ErrorMeaning, PendingCalls};
pub use batch::policy_registry::policy_registry_key;
pub use batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
#[cfg(feature = "redis")]
pub use cluster::{Cluster, ClusterAddresses};
pub use codec::reply::{CallError, PolicyReply, ReplyReader, ReplyValue};
pub use codec::{
    KeySummary, POLICY_KINDS, RawValue, ReplyState, ScriptAlgorithm, StoredMetadata, layout_of,
    text,
};
#[cfg(feature = "redis")]
pub use connection::{
    Address, AnsweredCalls, Connection, Connector, Credentials, CredentialsProvider,
    CredentialsSource, Endpoint, Health, HealthOptions, Identity, NatMap, SentinelClient,
    ServerInfo, StoreWarning, Tls,
};
#[cfg(feature = "redis")]
pub use inline_io::socket_handle::SocketHandle;
pub use inspect::StoredName;
#[cfg(feature = "redis")]
pub use inspect::{HoldSummary, Inspector, KeyOwner, KeyPage};
#[cfg(feature = "wasm-redis")]
pub use key_hash::seed;
pub use key_name::KeyNames;
pub use script::{CLOCK, Script};
pub use script_keys::ScriptKeys;
#[cfg(feature = "redis")]
pub use server::RedisDeployment;
pub use slot::{SLOTS, slot_of};
