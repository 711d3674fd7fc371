//! Reads what limiters store in Redis, for the command line, without the limiters' policies.
//!
//! Nothing here decides: only a limiter's policies define what a state means for a call. A state
//! alone shows the charged units, and for rates also the parameters that wrote it.

#[cfg(feature = "redis")]
mod hold_summary;
#[cfg(feature = "redis")]
mod key_query;
#[cfg(feature = "redis")]
mod reader;
mod stored_name;

#[cfg(feature = "fuzzing")]
pub(crate) use {
    key_query::KeyQuery,
    reader::{page_of, time},
};

#[cfg(feature = "redis")]
pub use hold_summary::HoldSummary;
#[cfg(feature = "redis")]
pub use reader::{Inspector, KeyOwner, KeyPage};
pub use stored_name::StoredName;
