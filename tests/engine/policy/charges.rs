//! The charges of calls, as their callers know them.

use tollgate::algorithm::{Algorithm as _, ChargeRecord};
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::multi_policy::{LimitReport, Response};
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::units::Units;

use crate::policy::refunds::used_after;

/// The charge of a decision on a call of `cost` units, of which `kept` stay charged, by policy.
pub(crate) fn taken(
    policies: &PolicySet,
    told: &Response,
    cost: &Units,
    kept: &Units,
) -> Vec<ChargeRecord> {
    let Decision { at, status, reset_after_ms, retry_after_ms, .. } = told.decision;
    let used_of = |limit: u64, capacity: u64, remaining: u64| match remaining {
        0 => limit.min(capacity),
        remaining => capacity - remaining,
    };
    let resets = match &told.limits {
        None if matches!(status, Status::Allowed | Status::AllowedLast) => {
            vec![(reset_after_ms, retry_after_ms, used_after(&told.decision))]
        }
        None => vec![(reset_after_ms, 0, 0)],
        Some(several) => {
            let numbers = |one: &LimitReport| {
                let LimitReport { limit, capacity, remaining, .. } = *one;
                (one.reset_after_ms, one.mark, used_of(limit, capacity, remaining))
            };
            several.limits.iter().map(numbers).collect()
        }
    };
    let mut resets = resets.into_iter();
    let taken = policies.named().iter().enumerate().map(|(number, named)| {
        let own: Vec<_> = resets.by_ref().take(named.policy.named_limits().max(1)).collect();
        let (reset_after_ms, mark, used) = own.into_iter().max().unwrap_or_default();
        let (cost, kept) = (cost.of(number), kept.of(number));
        ChargeRecord { at, reset_at: at + reset_after_ms * 1_000, mark, cost, used, kept }
    });
    taken.collect()
}
