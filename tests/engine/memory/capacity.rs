//! The held capacity of the embedded store equals its stored entries after every operation.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, ChargeRecord, Concurrency, PermitRequest};
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::Policy;
use tollgate::policy::ban::BanRule;
use tollgate::policy::operation::{Charge, NewHold, Operation, RepeatableCall};
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::prefixes::VariantIndex;
use tollgate::time::MAX_TIME;

use crate::laws::trace::{START, Step, any_trace};
use crate::policy::bans::any_ban;
use crate::policy::every_policy::any_policies;
use crate::policy::specs::{DAY, SECOND};

const KEYS: usize = 12;
const HOLDS: usize = 6;

/// A limiter's policies, and for each a policy that may override it.
#[derive(Debug, Clone)]
struct Setup {
    policies: PolicySet,
    others: Vec<Option<Arc<Policy>>>,
    max_keys: usize,
}

impl Setup {
    /// The policies, with the numbers of those that may override them.
    fn variant(&self) -> PolicySet {
        let other = |(named, other): (&NamedPolicy, &Option<Arc<Policy>>)| NamedPolicy {
            policy: other.as_deref().unwrap_or(&named.policy).clone(),
            ..named.clone()
        };
        let named = self.policies.named().iter().zip(&self.others).map(other).collect();
        let policies = PolicySet::multi(named).unwrap();
        match self.policies.ban() {
            Some(rule) => policies.with_ban(rule.clone()),
            None => policies,
        }
    }
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let mixed = prop::collection::vec(any_policies(), 1..=3);
    let permits = Just(vec![vec![Policy::Concurrency(Concurrency::new(2, SECOND).unwrap())]]);
    let policies = prop_oneof![6 => mixed, 1 => permits];
    // 4,096 keys have four shards.
    let max_keys = prop_oneof![1..8_usize, 8..40_usize, Just(4_096)];
    (policies, 1..=3_usize, any_ban(), max_keys).prop_map(
        |(mut versions, key_dimensions, ban, max_keys)| {
            let counts = |versions: &Vec<Policy>| versions.iter().any(Policy::counts_refused);
            if versions.iter().any(counts) {
                // Such a policy decides alone.
                versions.sort_by_key(|versions| !counts(versions));
                versions.truncate(1);
            }
            let key_dimensions = key_dimensions.min(versions.len());
            let other = |versions: &Vec<Policy>| {
                let (first, last) = (versions.first().unwrap(), versions.last().unwrap());
                (first.named_limits() == last.named_limits()).then(|| Arc::new(last.clone()))
            };
            let others = versions.iter().map(other).collect();
            let named = |(number, mut versions): (usize, Vec<Policy>)| NamedPolicy {
                name: format!("policy-{number}").into(),
                policy: versions.remove(0),
                key_dimension: number % key_dimensions,
            };
            let policies = versions.into_iter().enumerate().map(named).collect();
            let policies = PolicySet::multi(policies).unwrap();
            let policies = match ban {
                Some(rule) => policies.with_ban(rule),
                None => policies,
            };
            Setup { policies, others, max_keys }
        },
    )
}

/// Any operation. `kind` selects it; some have keys of some key dimensions only.
fn operation(
    setup: &Setup,
    kind: usize,
    cost: u64,
    choice: usize,
    taken: &[ChargeRecord],
) -> Operation {
    let lasting = cost % 1_000 * 300_000;
    let hold = [u8::try_from(choice % HOLDS).unwrap(); 16];
    let charges = || vec![Charge { units: cost.into(), taken: taken.to_vec() }];
    match kind {
        0 => Operation::TakeUpTo { units: cost },
        1 => Operation::Penalize { units: cost.into() },
        2 => Operation::Reset,
        3 => Operation::Block { lasting },
        4 => Operation::Unblock,
        5 => Operation::Override { policies: setup.others.clone(), lasting },
        6 => Operation::ClearOverride,
        7..=9 => Operation::Reserve { cost: cost.into(), hold, lasting },
        10 | 11 => Operation::Extend { hold, cost: cost.into(), lasting },
        12 => Operation::Renew { hold, lasting },
        13..=15 => Operation::Settle { hold, actual: (cost / 2).into(), charges: charges() },
        16 => Operation::Refund { units: cost.into(), taken: taken.to_vec() },
        17 => Operation::Peek { cost: cost.into() },
        18 => Operation::Schedule { cost: cost.into(), max_wait: lasting },
        19 | 20 => {
            let waited = choice.is_multiple_of(2).then_some(cost * 1_000);
            let id = (choice % HOLDS) as u64 + 1;
            let hold = choice.is_multiple_of(3).then_some(NewHold { id: hold, lasting });
            Operation::Acquire { cost: cost.into(), request: PermitRequest { id, waited }, hold }
        }
        21 => Operation::Release { permit: (choice % HOLDS) as u64 + 1 },
        22 => Operation::RenewPermit { permit: (choice % HOLDS) as u64 + 1 },
        23 | 24 => {
            let id = [b'a' + u8::try_from(choice % HOLDS).unwrap()].into();
            let hold = (kind == 24).then_some((hold, lasting));
            let cost = cost.into();
            Operation::Repeatable(Box::new(RepeatableCall {
                id,
                lasting,
                cost,
                hold,
                request: None,
            }))
        }
        _ => Operation::Take { cost: cost.into() },
    }
}

fn check(store: &MemoryStore) -> TestCaseResult {
    prop_assert_eq!(store.held_keys(), store.stored_keys());
    prop_assert!(store.held_keys() <= store.max_keys());
    Ok(())
}

fn take(limiter: &MemoryLimiter, text: &str, now: u64) {
    limiter.take(Key::new(text).unwrap(), 1, &now);
}

/// All entries of keys that are no longer used are dropped after a while.
fn drains(store: &MemoryStore, limiter: &MemoryLimiter, now: u64) -> TestCaseResult {
    for visit in 0..8_000 {
        take(limiter, "only", now + visit);
    }
    check(store)?;
    let own = 2 * limiter.policies().named().len();
    prop_assert!(store.held_keys() <= own, "{} of {}", store.held_keys(), own);
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    /// With clock steps both ways and long idle times.
    #[test]
    fn held_capacity_equals_stored_entries_after_every_operation(
        setup in any_setup(),
        trace in any_trace(250),
        kinds in prop::collection::vec((0..36_usize, 0..4_096_usize), 250),
    ) {
        let policies = &setup.policies;
        let store = MemoryStore::new(setup.max_keys, (1, 2));
        let first = store.open("api", policies.clone()).unwrap();
        // A tier or an update, if the numbers are those of the same calendar.
        let index = VariantIndex { index: 1, replaces: false };
        let variant = first.open_variant(index, setup.variant()).ok();
        let (mut now, mut last_reset) = (START, START);
        let mut taken = vec![ChargeRecord::default(); policies.named().len()];
        for (Step { time, cost, .. }, (kind, choice)) in trace.into_iter().zip(kinds) {
            now = time.from(now, now + SECOND, now + SECOND);
            let units = cost.of(policies.named()[0].policy.capacity()).max(1);
            let operation = operation(&setup, kind, units, choice, &taken);
            let needs_all = !matches!(
                operation,
                Operation::Reset | Operation::Block { .. } | Operation::Unblock | Operation::ClearOverride
            );
            let texts: Vec<_> = (0..policies.key_dimensions())
                .map(|dimension| {
                    let with = needs_all || choice / 512 % 4 != dimension;
                    with.then(|| format!("{}", choice / (2 << dimension) % KEYS))
                })
                .collect();
            let keys: Vec<_> =
                texts.iter().map(|text| text.as_deref().map(|text| Key::new(text).unwrap())).collect();
            if keys.iter().all(Option::is_none) {
                continue;
            }
            let variant = variant.as_ref().filter(|_| choice / 128 % 2 == 0);
            let limiter = variant.unwrap_or(&first);
            // A take with one key has a path of its own.
            if let (Operation::Take { cost }, &[Some(key)]) = (&operation, &keys[..])
                && choice.is_multiple_of(3)
            {
                limiter.take_with_report(key, cost.of(0), &now);
                check(&store)?;
                continue;
            }
            if let Ok(executed) = limiter.execute(&keys, &operation, &now) {
                let reset_at = now + executed.response.decision.reset_after_ms * 1_000;
                last_reset = last_reset.max(reset_at);
                taken.fill(ChargeRecord { at: now, reset_at, cost: units, ..ChargeRecord::default() });
            }
            check(&store)?;
        }
        // Some windows are longer than the time that is left.
        let end = now.max(last_reset) + 4_000 * DAY;
        if end < MAX_TIME {
            drains(&store, &first, end)?;
        }
    }
}

/// 5,000 reservations on one key that are all settled leave the store empty.
#[test]
fn settled_reservations_under_a_rule_for_bans_leak_no_capacity() {
    let gcra = tollgate::algorithm::Gcra::new(1_000_000, SECOND, 1_000_000).unwrap();
    let ban = BanRule::new(1, &[0, 3, SECOND, SECOND, SECOND]).unwrap();
    let store = MemoryStore::new(1_000, (1, 2));
    let limiter = store.open("api", PolicySet::single(Policy::Gcra(gcra)).with_ban(ban)).unwrap();
    let keys = [Some(Key::new("busy").unwrap())];
    for number in 0..5_000_u64 {
        let now = START + number * 1_000;
        let hold = u128::from(number).to_le_bytes();
        let reserve = Operation::Reserve { cost: 1.into(), hold, lasting: SECOND };
        limiter.execute(&keys, &reserve, &now).unwrap();
        let settle = Operation::Settle { hold, actual: 1.into(), charges: Vec::new() };
        limiter.execute(&keys, &settle, &now).unwrap();
    }
    assert_eq!((store.held_keys(), store.stored_keys()), (1, 1));
}
