//! The two laws, by random traces.

pub(crate) mod exactness;
pub(crate) mod leases;
pub(crate) mod max_admission;
mod meters;
pub(crate) mod min_admission;
pub(crate) mod trace;
pub(crate) mod twins;

use tollgate::policy::decision::Decision;
use tollgate::policy::execute::{KeyEntry, KeyMetadata, execute};
use tollgate::policy::multi_policy::Response;
use tollgate::policy::operation::Operation;
use tollgate::policy::{Policy, State};

/// The response to a peek under one policy.
pub(crate) fn peek_response(policy: &Policy, state: &State, now: u64, cost: u64) -> Response {
    let (mut state, mut metadata) = (state.clone(), KeyMetadata::default());
    let entry = KeyEntry {
        state: &mut state,
        metadata: &mut metadata,
        may_strike: false,
        may_owe: false,
        is_shared: false,
    };
    let peek = Operation::Peek { cost: cost.into() };
    execute(&policy.clone().into(), &mut [Some(entry)], now, &peek).response
}

/// The decision of a peek under one policy.
pub(crate) fn peek(policy: &Policy, state: &State, now: u64, cost: u64) -> Decision {
    peek_response(policy, state, now, cost).decision
}
