//! Permits: the Lua script on a real server equals [`tollgate::policy::execute`] in every field,
//! alone and beside a rate, under clock steps, overrides, blocks and bans; and the permits in force
//! never hold more units than the largest limit.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use tollgate::algorithm::{Algorithm as _, ChargeRecord, Concurrency, Permit, PermitRequest};
use tollgate::key::Key;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::{Charge, HoldId, NewHold, Operation, RepeatableCall};
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::policy::units::Units;
use tollgate::policy::{Policy, State};
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::laws::trace::{START, Step, any_trace};
use crate::policy::bans::any_ban;
use crate::policy::meters;
use crate::policy::multi_policy::{Kept, on, reset_at, unused};
use crate::policy::specs::{RateSpec, SECOND};
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

const STEPS: usize = 80;

/// The number of kinds of operations.
const KINDS: usize = 24;

fn concurrency(limit: u64) -> Policy {
    Policy::Concurrency(Concurrency::new(limit, 2 * SECOND).unwrap())
}

fn any_policies() -> impl Strategy<Value = PolicySet> {
    (1_u64..9, 1_u64..9, 0..4_usize, any_ban()).prop_map(|(limit, other, kind, ban)| {
        let rate = RateSpec { units: 7, period: SECOND, burst: other }.gcra();
        let policies = match kind {
            0 => vec![(concurrency(limit), 0)],
            1 => vec![(rate, 0), (concurrency(limit), 0)],
            2 => vec![(concurrency(limit), 0), (concurrency(other), 1)],
            _ => vec![(concurrency(limit), 0), (rate, 1), (concurrency(other), 0)],
        };
        let named = policies.into_iter().zip(["a", "b", "c"]);
        let named = named.map(|((policy, key_dimension), name)| NamedPolicy {
            name: name.into(),
            policy,
            key_dimension,
        });
        let policies = PolicySet::multi(named.collect()).unwrap();
        match ban {
            Some(rule) => policies.with_ban(rule),
            None => policies,
        }
    })
}

/// The operation of a choice. `holds` are those of the calls for permits so far, each with its permit.
fn operation(
    policies: &PolicySet,
    (now, choice): (u64, usize),
    cost: u64,
    holds: &mut Vec<HoldId>,
) -> Operation {
    let pick = choice / KINDS;
    // One of the latest permits.
    let hold = holds.iter().rev().nth(pick % 6).copied().unwrap_or_default();
    let known = permit_of(hold);
    let waited = [None, Some(0), Some(300_000), Some(3 * SECOND)][pick % 4];
    let cost = if pick % 11 == 5 { 0 } else { cost };
    let own = || meters::chosen(policies, pick, cost);
    match choice % KINDS {
        0..5 => {
            let latest = holds.last().copied().map_or(0, permit_of);
            acquire(latest + 1, waited, own(), holds)
        }
        // A call that waits asks again.
        5..7 => acquire(known.max(1), waited, own(), holds),
        7..10 => Operation::Release { permit: known },
        10 | 11 => Operation::RenewPermit { permit: known },
        12 => {
            [Operation::Take { cost: own() }, Operation::TakeUpTo { units: cost }][pick % 2].clone()
        }
        13 => [Operation::Peek { cost: own() }, Operation::Penalize { units: own() }][pick % 2]
            .clone(),
        14 => {
            let limit = 1 + pick as u64 % 9;
            let other = |named: &NamedPolicy| {
                named.policy.concurrency().map(|_| Arc::new(concurrency(limit)))
            };
            let policies = policies.named().iter().map(other).collect();
            [Operation::Override { policies, lasting: SECOND }, Operation::ClearOverride][pick % 2]
                .clone()
        }
        15 => [Operation::Block { lasting: SECOND / 2 }, Operation::Unblock, Operation::Reset]
            [pick % 3]
            .clone(),
        16 => Operation::Renew { hold, lasting: pick as u64 % 3 * SECOND },
        17 => Operation::Extend { hold, cost: own(), lasting: SECOND },
        18..22 => {
            let latest = holds.last().copied().map_or(0, permit_of);
            with_id(pick, acquire(latest + 1, waited, own(), holds), holds)
        }
        _ => {
            let units = meters::each(&own(), |_| 3);
            let record = |_: &NamedPolicy| ChargeRecord {
                at: now.saturating_sub(pick as u64 % 7 * 100_000),
                reset_at: now + SECOND,
                mark: 0,
                used: 2,
                cost: 3,
                kept: 0,
            };
            let taken: Vec<_> = policies.named().iter().map(record).collect();
            let actual = meters::chosen(policies, pick, cost.saturating_sub(1));
            let charges = vec![Charge { units, taken }; pick % 3];
            Operation::Settle { hold, actual, charges }
        }
    }
}

/// The number of the permit of a hold.
fn permit_of(hold: HoldId) -> u64 {
    u64::from_be_bytes(*hold.last_chunk().unwrap())
}

/// A call for a permit, mostly with a hold. The identifier of each hold is new.
fn acquire(id: u64, waited: Option<u64>, cost: Units, holds: &mut Vec<HoldId>) -> Operation {
    let mut own: HoldId = [0; 16];
    own[..8].copy_from_slice(&holds.len().to_be_bytes());
    own[8..].copy_from_slice(&id.to_be_bytes());
    holds.push(own);
    let lasting = (1 + id % 3) * SECOND;
    let hold = (!holds.len().is_multiple_of(4)).then_some(NewHold { id: own, lasting });
    Operation::Acquire { cost, request: PermitRequest { id, waited }, hold }
}

/// The same call for a permit with one of a few identifiers. Some have no hold.
fn with_id(pick: usize, call: Operation, holds: &[HoldId]) -> Operation {
    let Operation::Acquire { cost, request, hold } = call else { return call };
    let id = [&b"a"[..], b"job-17"][pick % 2].into();
    let lasting = (1 + pick as u64 % 5) * SECOND;
    let hold = Some((*holds.last().unwrap(), hold.map_or(0, |hold| hold.lasting)));
    let call = RepeatableCall { id, lasting, cost, hold, request: Some(request) };
    Operation::Repeatable(Box::new(call))
}

/// Checks that a repeated call for a permit charges nothing, and gives the permit of the first call.
fn check_repeated(
    policies: &PolicySet,
    (before, after): (&[Kept], &[Kept]),
    now: u64,
    executed: &Execution,
) -> TestCaseResult {
    let Some(first) = executed.first() else { return Ok(()) };
    let (hold, _) = first.hold.unwrap();
    prop_assert_eq!(first.repeated_at, now);
    for (number, named) in policies.named().iter().enumerate() {
        if let State::Permits(permits) = &after[number].0 {
            let held = |permit: &&Permit| permit.id == permit_of(hold) && permit.expires_at > now;
            let held = permits.permits().iter().find(held).map(|permit| permit.units);
            prop_assert!(held.is_some() || first.units.of(number) == 0, "{:?}", permits);
        } else {
            let remaining = |kept: &[Kept]| {
                let mut state = kept[number].0.clone();
                let mut numbers = kept[number].1.clone();
                numbers.drop_ended(now);
                let policy = numbers.in_force(&named.policy, now);
                policy.normalize(&mut state, now);
                policy.remaining(&state, now)
            };
            prop_assert_eq!(remaining(before), remaining(after));
        }
    }
    Ok(())
}

/// The units of the permits in force.
fn units_in_force(state: &State, now: u64) -> u64 {
    let State::Permits(permits) = state else { return 0 };
    let live = permits.permits().iter().filter(|permit| permit.expires_at > now);
    live.map(|permit| permit.units).sum()
}

/// Decides operations in one batch, in Rust and in Lua, and compares all fields. Returns the last
/// result.
fn batch_equals(
    server: &mut Server,
    policies: &PolicySet,
    kept: &mut [Kept],
    now: u64,
    operations: &[Operation],
) -> Result<Execution, TestCaseError> {
    let names = KeyNames::new("permits", policies);
    let keys = vec![Some(Key::new("k").unwrap()); policies.key_dimensions()];
    let mut batch = CallBatch::new();
    let mut expected = Vec::new();
    for operation in operations {
        let before = kept.to_vec();
        let executed = on(policies, kept, |_| true, now, operation);
        check_repeated(policies, (&before, kept), now, &executed)?;
        expected.push(Ok(executed));
        batch.push_operation(&names, &keys, None, operation.clone());
    }
    let is_peek = matches!(operations[0], Operation::Peek { .. });
    let more = [if is_peek { "peek" } else { "" }.to_owned(), now.to_string()];
    let mut actual = server.execute(lasting() as &Script, policies, &batch, &more);
    prop_assert_eq!(&actual, &expected, "{:?}", operations);
    Ok(actual.pop().unwrap().unwrap())
}

fn twins(server: &mut Server, policies: &PolicySet, trace: &[Step]) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let mut kept = unused(policies);
    // A block that has ended may be dropped or not. After a step back it would count again.
    let steps_back = policies.ban().is_none() && trace[0].choice.is_multiple_of(2);
    let (mut now, mut holds, mut retry_at) = (START, Vec::new(), START);
    for step in trace {
        // Most steps are short, so that permits and tickets live for several calls.
        now = if step.choice % 5 > 0 {
            now + 40 * step.choice as u64
        } else if steps_back {
            step.time.from(now, reset_at(&kept), retry_at).clamp(START / 2, START * 2)
        } else {
            step.time.onward_from(now, reset_at(&kept), retry_at)
        };
        let cost = match step.choice % 3 {
            0 => step.cost.of(policies.named()[0].policy.capacity()).clamp(1, 20),
            _ => 1,
        };
        let choice =
            if steps_back { step.choice / KINDS * KINDS + step.choice % 14 } else { step.choice };
        let mut operations = vec![operation(policies, (now, choice), cost, &mut holds)];
        let is_peek = matches!(operations[0], Operation::Peek { .. });
        // Some batches have more calls for permits.
        for more in 0..if is_peek { 0 } else { (choice / 7 % 12).saturating_sub(6) } {
            let kind = [(choice + more * 5) % 12, 16 + (choice + more) % 8][choice / 5 % 2];
            let choice = kind + (choice / KINDS + more) * KINDS;
            operations.push(operation(policies, (now, choice), cost, &mut holds));
        }
        let last = batch_equals(server, policies, &mut kept, now, &operations)?;
        retry_at = now + last.response.decision.retry_after_ms * 1_000;
        for (state, _) in &kept {
            prop_assert!(units_in_force(state, now) <= 9, "{:?}", state);
        }
    }
    Ok(())
}

#[test]
fn permits_are_twins() {
    let choices = prop::collection::vec(0..4_096_usize, STEPS);
    let traces = (any_policies(), any_trace(STEPS), choices);
    proven(traces, |server, (policies, mut trace, choices)| {
        for (step, choice) in trace.iter_mut().zip(choices) {
            step.choice = choice;
        }
        twins(server, &policies, &trace)
    });
}

#[test]
fn a_call_that_asks_again_gets_its_permit_and_ends_its_ticket() {
    let mut server = Server::start();
    let policies = concurrency(2).into();
    let mut kept = unused(&policies);
    let acquire = |id, waited| Operation::Acquire {
        cost: 1.into(),
        request: PermitRequest { id, waited },
        hold: None,
    };
    let batches = [
        vec![acquire(1, None), acquire(2, None), acquire(3, Some(0)), acquire(4, Some(0))],
        vec![acquire(3, Some(9)), Operation::Release { permit: 1 }],
        vec![acquire(3, Some(20)), acquire(4, Some(20)), Operation::Release { permit: 2 }],
        vec![acquire(5, None), acquire(4, Some(30)), Operation::RenewPermit { permit: 3 }],
        vec![Operation::Release { permit: 3 }, acquire(6, None), Operation::Release { permit: 4 }],
        vec![acquire(7, None), acquire(8, Some(5)), acquire(9, Some(0))],
        vec![Operation::RenewPermit { permit: 8 }, Operation::Release { permit: 8 }],
        vec![Operation::Release { permit: 9 }],
    ];
    for (now, operations) in (START..).zip(batches) {
        batch_equals(&mut server, &policies, &mut kept, now, &operations).unwrap();
    }
    let State::Permits(permits) = &kept[0].0 else { panic!("{kept:?}") };
    assert_eq!((permits.permits().len(), permits.tickets().len()), (2, 0));
}

#[test]
fn permits_of_different_lives_end_in_their_order() {
    let mut server = Server::start();
    let lives = |life| Policy::Concurrency(Concurrency::new(3, life).unwrap()).into();
    let (long, short): (PolicySet, PolicySet) = (lives(2 * SECOND), lives(SECOND));
    let mut kept = unused(&long);
    let acquire = |id| Operation::Acquire {
        cost: 1.into(),
        request: PermitRequest { id, waited: None },
        hold: None,
    };
    for (policies, now, operation) in [
        (&long, START, acquire(1)),
        (&short, START + 1, acquire(2)),
        (&long, START + 2, acquire(3)),
        (&short, START + SECOND, Operation::RenewPermit { permit: 2 }),
        (&long, START + SECOND + 1, acquire(4)),
        (&long, START + 2 * SECOND, acquire(4)),
    ] {
        batch_equals(&mut server, policies, &mut kept, now, &[operation]).unwrap();
    }
}
