//! Each operation equals a sequence of simpler ones, on the states of one to five policies of any
//! kind, some with an override. The embedded store does the same.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, ChargeRecord, Outcome, Rewrites};
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::execute::{Execution, KeyMetadata};
use tollgate::policy::multi_policy::Response;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};

use crate::laws::trace::{START, Step, any_trace};
use crate::policy::every_policy::any_policies;
use crate::policy::multi_policy::{Deed, Kept, any_deeds, on, reset_at, takes, unused};

const TRACES: u32 = 400;
const STEPS: usize = 100;

/// A limiter's policies, and for each a policy that may override it.
#[derive(Debug, Clone)]
struct Limiter {
    policies: PolicySet,
    others: Vec<Option<Arc<Policy>>>,
    key_dimensions: usize,
}

fn named(policies: impl IntoIterator<Item = Policy>, key_dimensions: usize) -> PolicySet {
    let named = |(number, policy)| NamedPolicy {
        name: format!("policy-{number}").into(),
        policy,
        key_dimension: number % key_dimensions,
    };
    PolicySet::multi(policies.into_iter().enumerate().map(named).collect()).unwrap()
}

fn any_limiter() -> impl Strategy<Value = Limiter> {
    let versions = prop::collection::vec(any_policies(), 1..=5);
    (versions, 1..=3_usize).prop_map(|(mut versions, key_dimensions)| {
        let counts = |versions: &Vec<Policy>| versions.iter().any(Policy::counts_refused);
        if versions.iter().any(counts) {
            // Such a policy decides alone.
            versions.sort_by_key(|versions| !counts(versions));
            versions.truncate(1);
        }
        let other = |versions: &Vec<Policy>| {
            let (first, last) = (versions.first().unwrap(), versions.last().unwrap());
            (first.named_limits() == last.named_limits()).then(|| Arc::new(last.clone()))
        };
        let others = versions.iter().map(other).collect();
        let key_dimensions = key_dimensions.min(versions.len());
        let policies =
            named(versions.into_iter().map(|mut versions| versions.remove(0)), key_dimensions);
        Limiter { policies, others, key_dimensions }
    })
}

/// An admitted call of `cost` units, for refunds.
fn taken(
    policies: &PolicySet,
    kept: &[Kept],
    Decision { at, .. }: Decision,
    cost: u64,
) -> Vec<ChargeRecord> {
    let taken = |(named, (state, extras)): (&NamedPolicy, &Kept)| {
        let reset_at = extras.in_force(&named.policy, at).reset_at(state, at);
        let reset_at = at + reset_at.saturating_sub(at).div_ceil(1_000) * 1_000;
        let mark = state.mark().moved;
        ChargeRecord { at, reset_at, mark, cost, used: cost, kept: 0 }
    };
    policies.named().iter().zip(kept).map(taken).collect()
}

impl Limiter {
    fn operation(&self, deed: Deed, cost: u64, calls: &[Vec<ChargeRecord>]) -> Operation {
        let call = calls.iter().rev().nth(deed.key_dimensions % 3).or(calls.last());
        match (deed.kind, call) {
            (0..=2, _) => Operation::TakeUpTo { units: cost },
            (3, _) => Operation::Penalize { units: cost.into() },
            (4, _) => Operation::Reset,
            (5, _) => Operation::Block { lasting: deed.lasting },
            (6, _) => Operation::Unblock,
            (7, _) => Operation::Override { policies: self.others.clone(), lasting: deed.lasting },
            (8, _) => Operation::ClearOverride,
            (9..=11, _) => Operation::Peek { cost: (cost % 5 * cost).into() },
            (12..=14, Some(taken)) => {
                Operation::Refund { units: cost.into(), taken: taken.clone() }
            }
            _ => Operation::Take { cost: cost.into() },
        }
    }

    /// The active numbers, as a limiter without overrides.
    fn in_force(&self, kept: &[Kept], now: u64) -> (PolicySet, Vec<Kept>) {
        let in_force = |(named, (_, extras)): (&NamedPolicy, &Kept)| {
            extras.in_force(&named.policy, now).clone()
        };
        let policies = self.policies.named().iter().zip(kept).map(in_force);
        let policies = named(policies, self.key_dimensions);
        let plain = |(state, extras): &Kept| {
            (state.clone(), KeyMetadata { numbers: None, ..extras.clone() })
        };
        (policies, kept.iter().map(plain).collect())
    }
}

fn all(policies: &PolicySet, kept: &mut [Kept], now: u64, operation: &Operation) -> Execution {
    on(policies, kept, |_| true, now, operation)
}

fn tried(
    policies: &PolicySet,
    kept: &[Kept],
    now: u64,
    operation: &Operation,
) -> (Execution, Vec<Kept>) {
    let mut copy = kept.to_vec();
    (all(policies, &mut copy, now, operation), copy)
}

/// An execution without the limits as the user wrote them: that of an override is in the period of
/// the limiter's own policy, which the policies in force do not know.
fn without_limits(execution: &Execution) -> Execution {
    let mut execution = execution.clone();
    let Response { decision, limits, .. } = &mut execution.response;
    decision.limit = 0;
    for report in limits.iter_mut().flat_map(|reports| &mut reports.limits) {
        report.limit = 0;
    }
    execution
}

fn allowed(executed: &Execution) -> bool {
    matches!(executed.response.decision.status, Status::Allowed | Status::AllowedLast)
}

fn met(policies: &PolicySet, kept: &[Kept], now: u64) -> Vec<Kept> {
    let mut kept = kept.to_vec();
    for ((state, metadata), named) in kept.iter_mut().zip(policies.named()) {
        named.policy.normalize(state, now);
        metadata.drop_ended(now);
    }
    kept
}

/// The change from `before`, under policies without overrides, equals that of simpler operations.
fn judge(policies: &PolicySet, before: &[Kept], now: u64, operation: &Operation) -> TestCaseResult {
    let (executed, after) = tried(policies, before, now, operation);
    let decision = executed.response.decision;
    let blocked = before.iter().any(|(_, extras)| extras.blocked_until > now);
    let take = |cost| tried(policies, before, now, &Operation::Take { cost });
    let stands = tried(policies, &after, now, &Operation::Peek { cost: 0.into() }).0.response;
    match operation {
        Operation::Take { cost } if blocked => {
            let impossible =
                policies.named().iter().any(|named| named.policy.capacity() < cost.of(0));
            let status = if impossible { Status::Impossible } else { Status::Blocked };
            prop_assert_eq!((decision.status, executed.units), (status, 0));
            prop_assert_eq!(&after, &met(policies, before, now));
            let retry_at = |((state, extras), named): (&Kept, &NamedPolicy)| {
                let refused = named.policy.outcome(state, now, cost.of(0)) == Outcome::Refused;
                let retry_at =
                    if refused { named.policy.retry_at(state, now, cost.of(0)) } else { 0 };
                retry_at.max(extras.blocked_until)
            };
            let retry_at = after.iter().zip(policies.named()).map(retry_at).max().unwrap();
            let retry_after_ms = if impossible { 0 } else { (retry_at - now).div_ceil(1_000) };
            prop_assert_eq!(decision.retry_after_ms, retry_after_ms);
        }
        Operation::Take { cost } => {
            let mut charged = before.to_vec();
            charged.iter_mut().for_each(|(_, metadata)| metadata.drop_ended(now));
            let charge = |((state, _), named): (&mut Kept, &NamedPolicy)| {
                named.policy.charge(state, now, cost.of(0)) == Outcome::Admitted
            };
            let each: Vec<_> = charged.iter_mut().zip(policies.named()).map(charge).collect();
            let all = each.iter().all(|&admitted| admitted);
            prop_assert_eq!(
                (allowed(&executed), executed.units),
                (all, if all { cost.of(0) } else { 0 })
            );
            let alone = policies.alone().is_some();
            prop_assert_eq!(after, if all || alone { charged } else { met(policies, before, now) });
        }
        Operation::TakeUpTo { units } => {
            let (mut fits, mut too_many) = (0, units + 1);
            while too_many - fits > 1 {
                let middle = u64::midpoint(fits, too_many);
                if allowed(&take(middle.into()).0) { fits = middle } else { too_many = middle }
            }
            prop_assert_eq!(executed.units, fits);
            if fits > 0 {
                prop_assert_eq!((executed, after), take(fits.into()));
            } else {
                prop_assert_eq!(decision.status, take(1.into()).0.response.decision.status);
                prop_assert_eq!(after, met(policies, before, now));
            }
        }
        Operation::Peek { cost } => {
            prop_assert_eq!(&after, before);
            let (taken, _) = take(cost.clone());
            let limits = |executed: &Execution| -> Vec<_> {
                let several = executed.response.limits.iter();
                several.flat_map(|several| several.limits.clone()).collect()
            };
            if cost.of(0) > 0 {
                prop_assert_eq!(decision.status, taken.response.decision.status);
                if !matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                    prop_assert_eq!(
                        decision.retry_after_ms,
                        taken.response.decision.retry_after_ms
                    );
                }
            }
            for ((peeked, taken), stands) in limits(&executed)
                .iter()
                .zip(limits(&taken))
                .zip(stands.limits.iter().flat_map(|several| several.limits.clone()))
            {
                prop_assert_eq!(peeked.retry_after_ms, taken.retry_after_ms);
                prop_assert_eq!(peeked.remaining, stands.remaining);
                prop_assert_eq!(peeked.reset_after_ms, stands.reset_after_ms);
            }
        }
        Operation::Penalize { units } => {
            let mut most = 0;
            for ((named, kept), (state, _)) in policies.named().iter().zip(before).zip(&after) {
                let one = PolicySet::single(named.policy.clone());
                let unblocked = [(kept.0.clone(), KeyMetadata::default())];
                let up_to = Operation::TakeUpTo { units: units.of(0) };
                let (alone, left) = tried(&one, &unblocked, now, &up_to);
                most = most.max(alone.units);
                prop_assert_eq!(&left[0].0, state);
            }
            prop_assert_eq!((executed.units, executed.response), (most, stands));
        }
        Operation::Refund { units, taken } => {
            let mut refunded = met(policies, before, now);
            let refund =
                |(((state, _), named), taken): ((&mut Kept, &NamedPolicy), &ChargeRecord)| {
                    named.policy.refund(state, now, units.of(0), *taken)
                };
            let each = refunded.iter_mut().zip(policies.named()).zip(taken).map(refund);
            prop_assert_eq!((executed.units, executed.response), (each.max().unwrap(), stands));
            prop_assert_eq!(after, refunded);
        }
        _ => {
            prop_assert_eq!((executed.units, executed.response), (0, stands));
            for (((state, extras), (old, extras_before)), named) in
                after.iter().zip(before).zip(policies.named())
            {
                let until = match operation {
                    Operation::Block { lasting } => {
                        let until = (now + lasting).max(extras_before.blocked_until);
                        Some(if until > now { until } else { 0 })
                    }
                    Operation::Unblock | Operation::Reset => Some(0),
                    _ => None,
                };
                prop_assert!(until.is_none_or(|until| extras.blocked_until == until));
                // States that lie too far ahead are repaired if that rewrites no units of calls, or
                // under the numbers of a new override.
                let mut expected = old.clone();
                if named.policy.rewrites(&expected, now) != Rewrites::Always {
                    named.policy.charge(&mut expected, now, 0);
                }
                if let Some(own) = extras.numbers.as_ref().filter(|own| own.until > now) {
                    own.policy.charge(&mut expected, now, 0);
                }
                if *operation == Operation::Reset {
                    expected = named.policy.initial_state();
                }
                prop_assert_eq!(state.unmarked(), expected.unmarked());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    /// With clock steps both ways.
    #[test]
    fn operations_do_what_simpler_ones_do(
        limiter in any_limiter(),
        trace in any_trace(STEPS),
        deeds in any_deeds(STEPS),
    ) {
        let policies = &limiter.policies;
        let (mut kept, mut calls) = (unused(policies), Vec::new());
        let (mut now, mut retry_at) = (START, START);
        for (Step { time, cost, choice }, deed) in trace.into_iter().zip(deeds) {
            now = time.from(now, reset_at(&kept), retry_at);
            let (in_force, plain) = limiter.in_force(&kept, now);
            let cost = cost.of(in_force.named()[choice % in_force.named().len()].policy.capacity());
            let operation = limiter.operation(deed, cost, &calls);
            judge(&in_force, &plain, now, &operation)?;
            // The end of the override is reported all the same.
            let (expected, states) = tried(&in_force, &kept, now, &operation);
            let executed = all(policies, &mut kept, now, &operation);
            match operation {
                // These operations change the active numbers.
                Operation::Override { lasting, .. } => {
                    for ((_, extras), other) in kept.iter().zip(&limiter.others) {
                        let numbers = extras.numbers.as_ref();
                        let until = numbers.map(|numbers| (&numbers.policy, numbers.until));
                        let other = other.as_ref().map(|other| (other, now + lasting));
                        prop_assert!(other.is_none() || lasting == 0 || until == other);
                    }
                }
                Operation::ClearOverride => {
                    prop_assert!(kept.iter().all(|(_, extras)| extras.numbers.is_none()));
                }
                _ => {
                    prop_assert_eq!(without_limits(&executed), without_limits(&expected));
                }
            }
            if operation != Operation::Reset {
                let same = |((state, _), (expected, _)): (&Kept, &Kept)| state == expected;
                prop_assert!(kept.iter().zip(&states).all(same), "{:?}", operation);
            }
            if takes(&operation) && executed.units > 0 {
                calls.push(taken(policies, &kept, executed.response.decision, executed.units));
            }
            retry_at = now + executed.response.decision.retry_after_ms * 1_000;
        }
    }

    /// With a clock that never steps back; some calls of a single policy take the fast path.
    #[test]
    fn the_embedded_store_performs_what_is_performed_on_states(
        limiter in any_limiter(),
        seed in any::<(u64, u64)>(),
        trace in any_trace(STEPS),
        deeds in any_deeds(STEPS),
    ) {
        let policies = &limiter.policies;
        let store = MemoryStore::new(1_000, seed);
        let ledger = store.open("operations", policies.clone()).unwrap();
        // Its calls complete all pending sweeps.
        let sweeper = store.open("sweeper", policies.named()[0].policy.clone()).unwrap();
        let mut all_kept = vec![unused(policies); 2];
        let (mut calls, mut now, mut retry_at) = (Vec::new(), START, START);
        for (Step { time, cost, choice }, deed) in trace.into_iter().zip(deeds) {
            for _ in 0..choice {
                sweeper.take(Key::new("sweeper").unwrap(), 1, &now);
            }
            let (text, kept) = (["one", "two"][choice / 9 % 2], &mut all_kept[choice / 9 % 2]);
            now = time.onward_from(now, reset_at(&*kept), retry_at);
            let cost = cost.of(policies.named()[choice % policies.named().len()].policy.capacity());
            let operation = limiter.operation(deed, cost, &calls);
            let expected = all(policies, kept, now, &operation);
            let key = Key::new(text).unwrap();
            if let (Operation::Take { cost }, true) = (&operation, choice % 2 == 0) {
                prop_assert_eq!(ledger.take_with_report(key, cost.of(0), &now), expected.response.clone());
            } else {
                let keys = vec![Some(key); limiter.key_dimensions];
                let executed = ledger.execute(&keys, &operation, &now).unwrap();
                prop_assert_eq!(&executed, &expected, "{:?}", operation);
            }
            if takes(&operation) && expected.units > 0 {
                calls.push(taken(policies, kept, expected.response.decision, expected.units));
            }
            retry_at = now + expected.response.decision.retry_after_ms * 1_000;
        }
    }
}
