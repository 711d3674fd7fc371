//! The two laws, by random traces.

pub(crate) mod exactness;
pub(crate) mod leases;
pub(crate) mod max_admission;
pub(crate) mod min_admission;
pub(crate) mod trace;
pub(crate) mod twins;
