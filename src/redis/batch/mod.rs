//! Batches of calls: collected, sent together and decoded.

pub(crate) mod call_batch;
pub(crate) mod flush;
pub(crate) mod hit_predictor;
mod one_key;
pub(crate) mod partition;
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) mod pending_calls;
pub(crate) mod policy_registry;
pub(crate) mod response_decoder;
mod retry;
pub(crate) mod script_call;
pub(crate) mod split;
pub(crate) mod subset;
