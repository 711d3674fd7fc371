//! Policy sets and operations, for every policy.

pub(crate) mod bans;
pub(crate) mod charges;
pub(crate) mod count_refused;
pub(crate) mod every_policy;
pub(crate) mod hold_oracle;
pub(crate) mod meters;
pub(crate) mod mix;
pub(crate) mod multi_policy;
pub(crate) mod multi_policy_oracle;
pub(crate) mod normalize;
pub(crate) mod operations;
mod owed;
mod permits;
pub(crate) mod refund_laws;
pub(crate) mod refunds;
pub(crate) mod scheduled;
pub(crate) mod spec;
pub(crate) mod specs;
