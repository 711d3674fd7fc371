//! Several policies and all operations: the Lua script on a real server equals
//! [`tollgate::execute`] in every field, and leaves the same states.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, LogLimit, SlidingLog};
use tollgate::key::Key;
use tollgate::policy::execute::{Execution, KeyEntry, KeyMetadata, execute};
use tollgate::policy::multi_policy::Response;

use crate::policy::charges::taken;
use tollgate::policy::operation::{Charge, HoldId, Operation, RepeatableCall};
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::policy::units::Units;
use tollgate::policy::{Policy, State};
use tollgate::redis::{CallBatch, KeyNames, Script};
use tollgate::time::MAX_TIME;

use crate::laws::trace::{START, Step, any_trace};
use crate::policy::meters::{self, each};
use crate::policy::specs::HOUR;
use crate::redis::policy_sets::{KINDS, any_policies, any_simple_policies, policy};
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

/// The number of keys in each key dimension.
pub(super) const KEYS: usize = 2;

/// A trace with choices wide enough for all selections that are made from parts of one number.
fn any_choices(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let choices = prop::collection::vec(0..4_096_usize, steps);
    (any_trace(steps), choices).prop_map(|(trace, choices)| {
        let step = |(step, choice): (Step, usize)| Step { choice, ..step };
        trace.into_iter().zip(choices).map(step).collect()
    })
}

/// The stored state and metadata of a policy's key.
pub(super) struct Kept {
    state: State,
    extras: KeyMetadata,
}

/// Keys by policy and number, as the embedded store would keep them.
#[derive(Default)]
pub(super) struct Model {
    kept: HashMap<(usize, usize), Kept>,
}

/// A call that has taken units.
struct Call {
    keys: Vec<Option<usize>>,
    told: Response,
    units: Units,
    /// The hold of a reservation or of its extension.
    hold: Option<HoldId>,
}

fn operation(
    number: usize,
    step: Step,
    policies: &PolicySet,
    memory: &[Call],
    kind: Kind,
) -> Operation {
    let limit = policies.named()[0].policy.capacity();
    let units = step.cost.of(limit).max(1);
    let cost = || meters::chosen(policies, step.choice, units);
    match step.choice / 8 % 16 {
        _ if kind == Kind::Units => Operation::Take { cost: 1.into() },
        0 => Operation::TakeUpTo { units },
        1 => Operation::Penalize { units: cost() },
        2..=4 => refund(step, policies, memory, units),
        10..=11 => {
            let hold = (number as u128).to_le_bytes();
            let cost = if step.choice.is_multiple_of(11) { 0.into() } else { cost() };
            Operation::Reserve { cost, hold, lasting: units * 150_000 }
        }
        12..=13 => settle(step, policies, memory, units),
        14..=15 => renew(step, policies, memory, units),
        5 => Operation::Reset,
        6 => Operation::Block { lasting: units * 40_000 },
        7 => Operation::Unblock,
        8 => {
            let own = |(index, named): (usize, &NamedPolicy)| {
                let other = (step.choice + index).is_multiple_of(2);
                other.then(|| Arc::new(renumbered(&named.policy, 3 + units % 9)))
            };
            let own = policies.named().iter().enumerate().map(own).collect();
            Operation::Override { policies: own, lasting: units * 90_000 }
        }
        9 => Operation::ClearOverride,
        _ => Operation::Take { cost: cost() },
    }
}

/// The same call with one of a few identifiers, if it may have one.
fn with_id(asked: Operation, step: Step) -> Operation {
    let id = step.choice / 512 % 8;
    let (cost, hold) = match asked {
        Operation::Take { cost } if id < 4 => (cost, None),
        Operation::Reserve { cost, hold, lasting } if id < 4 => (cost, Some((hold, lasting))),
        other => return other,
    };
    let units = step.cost.of(9).max(1);
    // Their names in Redis have lengths around a multiple of eight.
    let id = [&b"a"[..], b"b", b"call-6", b"call-12"][id].into();
    Operation::Repeatable(Box::new(RepeatableCall {
        id,
        lasting: units * 300_000,
        cost,
        hold,
        request: None,
    }))
}

/// The first key, whether it is a reservation, and the identifier.
type CallName = (Option<usize>, bool, Box<[u8]>);

/// An oracle of calls that may be repeated.
#[derive(Default)]
struct FirstCalls(HashMap<CallName, First>);

/// A call that was charged, and the time from which it is decided anew.
struct First {
    until: u64,
    told: Response,
    units: Units,
    hold: Option<HoldId>,
}

impl FirstCalls {
    /// Checks a result against the first one. The clock never steps back.
    fn check(
        &mut self,
        first_key: Option<usize>,
        asked: &Operation,
        executed: &Execution,
        now: u64,
    ) -> TestCaseResult {
        if matches!(asked, Operation::Reset) {
            self.0.retain(|(key, ..), _| first_key.is_none() || *key != first_key);
        }
        let Operation::Repeatable(call) = asked else { return Ok(()) };
        let name = (first_key, call.hold.is_some(), call.id.clone());
        let first = self.0.get(&name).filter(|first| {
            first.until > now && first.units.numbers().len() == call.cost.numbers().len()
        });
        match (first, executed.first()) {
            (Some(first), Some(told)) => {
                prop_assert_eq!(&executed.response, &first.told);
                // A single number may be that of the only policy.
                prop_assert_eq!(told.units.numbers(), first.units.numbers());
                prop_assert_eq!(told.hold.map(|(id, _)| id), first.hold);
            }
            (None, None) if executed.units > 0 => {
                let first = First {
                    until: now + call.lasting,
                    told: executed.response.clone(),
                    units: call.cost.clone(),
                    hold: call.hold.map(|(id, _)| id),
                };
                self.0.insert(name, first);
            }
            (None, None) => {}
            (first, told) => {
                let is_known = first.is_some();
                prop_assert!(false, "remembered: {is_known}, told {told:?}, {asked:?} at {now}");
            }
        }
        Ok(())
    }
}

/// Refunds units of one of the last decisions.
fn refund(step: Step, policies: &PolicySet, memory: &[Call], units: u64) -> Operation {
    match memory.iter().rev().nth(step.choice % 3) {
        Some(call) => {
            // Of units by policy some come back in part, or not at all.
            let units = match &call.units {
                Units::Same(_) => units.into(),
                own => each(own, |number| own.of(number).min(units / (1 + number as u64))),
            };
            let kept = |number| call.units.of(number).saturating_sub(units.of(number));
            let taken = taken(policies, &call.told, &call.units, &each(&call.units, kept));
            Operation::Refund { units, taken }
        }
        None => Operation::Take { cost: units.into() },
    }
}

/// Renews or extends one of the last reservations, which may have expired or been settled.
fn renew(step: Step, policies: &PolicySet, memory: &[Call], units: u64) -> Operation {
    let held = memory.iter().rev().filter_map(|call| Some((call.hold?, &call.units)));
    let lasting = units * 120_000;
    match held.take(4).nth(step.choice / 3 % 4) {
        Some((hold, _)) if step.choice.is_multiple_of(3) => Operation::Renew { hold, lasting },
        // Units of another kind than those of the hold find none.
        Some((hold, of_hold)) => {
            let is_like = of_hold.is_by_policy() != step.choice.is_multiple_of(13);
            let cost = if is_like {
                meters::by_policy(policies, step.choice, units / 2)
            } else {
                (units / 2).into()
            };
            Operation::Extend { hold, cost, lasting }
        }
        None => Operation::Take { cost: units.into() },
    }
}

/// Settles one of the last reservations, perhaps a second time, for fewer units, as many or more.
/// The caller may not know the last charge.
fn settle(step: Step, policies: &PolicySet, memory: &[Call], units: u64) -> Operation {
    let held = memory.iter().rev().filter_map(|call| Some((call.hold?, &call.units)));
    let Some((hold, like)) = held.take(4).nth(step.choice / 3 % 4) else {
        return Operation::Take { cost: units.into() };
    };
    let charge = |call: &Call| Charge {
        units: call.units.clone(),
        taken: taken(policies, &call.told, &call.units, &0.into()),
    };
    let of_hold = memory.iter().filter(|call| call.hold == Some(hold));
    let mut charges: Vec<_> = of_hold.map(charge).collect();
    let actual = |number: usize| {
        let held: u64 = charges.iter().map(|charge| charge.units.of(number)).sum();
        [0, units, held, held + units, held / 2][(step.choice + number) % 5]
    };
    let actual = each(like, actual);
    if step.choice.is_multiple_of(7) && charges.len() > 1 {
        charges.pop();
    }
    Operation::Settle { hold, actual, charges }
}

/// A policy of the same kind with another limit.
fn renumbered(own: &Policy, limit: u64) -> Policy {
    let is_alike = |other: &Policy| {
        other.tag() == own.tag()
            && other.named_limits() == own.named_limits()
            && other.counts_refused() == own.counts_refused()
    };
    (0..KINDS).map(|kind| policy(kind, limit)).find(is_alike).unwrap()
}

pub(super) fn in_memory(
    model: &mut Model,
    policies: &PolicySet,
    keys: &[Option<usize>],
    now: u64,
    operation: &Operation,
) -> Execution {
    for (index, named) in policies.named().iter().enumerate() {
        if let Some(key) = keys[named.key_dimension] {
            let unused =
                || Kept { state: named.policy.initial_state(), extras: KeyMetadata::default() };
            model.kept.entry((index, key)).or_insert_with(unused);
        }
    }
    let mut kept: Vec<_> = (0..policies.named().len()).map(|_| None).collect();
    for (&(index, key), one) in &mut model.kept {
        if keys[policies.named()[index].key_dimension] == Some(key) {
            kept[index] = Some(KeyEntry {
                state: &mut one.state,
                metadata: &mut one.extras,
                may_strike: true,
                may_owe: true,
                is_shared: false,
            });
        }
    }
    execute(policies, &mut kept, now, operation)
}

/// The keys of a reservation.
fn keys_of(calls: &[Call], hold: &HoldId) -> Vec<Option<usize>> {
    let same = |call: &&Call| call.hold == Some(*hold);
    calls.iter().find(same).map(|call| call.keys.clone()).unwrap()
}

/// Whether all policies charge the units.
fn takes(operation: &Operation) -> bool {
    use Operation::{Repeatable, Reserve, Take, TakeUpTo};
    matches!(operation, Take { .. } | TakeUpTo { .. } | Reserve { .. } | Repeatable(_))
}

/// The operations and the clock of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All operations, with a clock that never steps back: expired states may be dropped.
    Onward,
    /// All operations, with a clock that also steps back.
    Stepping,
    /// Only takes of single units, which have a fast path, with a clock that also steps back.
    Units,
}

fn equal(server: &mut Server, policies: &PolicySet, trace: &[Step], kind: Kind) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let script = lasting();
    let names = KeyNames::new("twins", policies);
    let mut model = Model::default();
    let mut calls: Vec<Call> = Vec::new();
    let mut log: Vec<String> = Vec::new();
    let mut first_calls = FirstCalls::default();
    let (mut now, mut reset_at, mut retry_at) = (START, START, START);
    for steps in trace.chunk_by(|_, next| !next.choice.is_multiple_of(3)) {
        now = if kind == Kind::Onward {
            steps[0].time.onward_from(now, reset_at, retry_at)
        } else {
            steps[0].time.from(now, reset_at, retry_at)
        };
        let mut batch = CallBatch::new();
        let mut expected = Vec::new();
        for &step in steps {
            let asked = operation(log.len(), step, policies, &calls, kind);
            let asked = if kind == Kind::Units { asked } else { with_id(asked, step) };
            let is_take = takes(&asked);
            let left_out = |key_dimension| {
                !is_take && policies.key_dimensions() > 1 && step.choice / 256 % 4 == key_dimension
            };
            let number = |key_dimension: usize| step.choice / (2_usize << key_dimension) % KEYS;
            let keys: Vec<_> = match &asked {
                Operation::Settle { hold, .. }
                | Operation::Renew { hold, .. }
                | Operation::Extend { hold, .. } => keys_of(&calls, hold),
                _ => (0..policies.key_dimensions())
                    .map(|key_dimension| (!left_out(key_dimension)).then(|| number(key_dimension)))
                    .collect(),
            };
            let texts: Vec<_> =
                keys.iter().map(|key| key.map(|key: usize| key.to_string())).collect();
            let texts: Vec<_> = texts
                .iter()
                .map(|text| text.as_deref().map(|text| Key::new(text).unwrap()))
                .collect();
            batch.push_operation(&names, &texts, None, asked.clone());
            let executed = in_memory(&mut model, policies, &keys, now, &asked);
            if kind == Kind::Onward {
                first_calls.check(keys[0], &asked, &executed, now)?;
            }
            let hold = match &asked {
                Operation::Reserve { hold, .. } | Operation::Extend { hold, .. } => Some(*hold),
                Operation::Repeatable(call) => call.hold.map(|(hold, _)| hold),
                _ => None,
            };
            let is_known = hold.is_some() && executed.first().is_some();
            if !is_known && (is_take || hold.is_some()) && (executed.units > 0 || hold.is_some()) {
                let told = executed.response.clone();
                let units = match &asked {
                    Operation::Take { cost }
                    | Operation::Reserve { cost, .. }
                    | Operation::Extend { cost, .. } => {
                        each(cost, |number| if executed.units > 0 { cost.of(number) } else { 0 })
                    }
                    Operation::Repeatable(call) => {
                        let cost = executed.first().map_or(&call.cost, |first| &first.units);
                        each(cost, |number| if executed.units > 0 { cost.of(number) } else { 0 })
                    }
                    _ => executed.units.into(),
                };
                calls.push(Call { keys: keys.clone(), told, units, hold });
            }
            let millis = |after: u64| now + after * 1_000;
            retry_at = millis(executed.response.decision.retry_after_ms);
            reset_at = millis(executed.response.decision.reset_after_ms);
            log.push(format!(
                "{now}: {keys:?} {asked:?}: {:?} {}",
                executed.response.decision, executed.units
            ));
            expected.push((asked, executed));
        }
        batch.set_optimistic(steps[0].choice % 2 == 0);
        let more = [String::new(), now.to_string()];
        let executed = server.execute(script, policies, &batch, &more);
        for (one, (asked, expected)) in executed.into_iter().zip(expected) {
            prop_assert_eq!(one, Ok(expected), "{:?} at {}, after {:#?}", asked, now, log);
        }
    }
    Ok(())
}

/// Key metadata contains zero bytes, at which Lua's `tonumber` stops. Its mark keeps `tonumber`
/// from reading a value with metadata as a number.
#[test]
fn units_of_a_key_with_numbers_of_its_own_are_decided_by_those() {
    let mut server = Server::start();
    for kind in 0..12 {
        let policies = PolicySet::single(policy(kind, 10));
        let names = KeyNames::new(&format!("own-{kind}"), &policies);
        let mut execute = |operation: Operation| {
            let mut batch = CallBatch::new();
            batch.push_operation(&names, &[Some(Key::new("a").unwrap())], None, operation);
            server.execute(Script::limiter(), &policies, &batch, &[]).remove(0).unwrap()
        };
        execute(Operation::Take { cost: 2.into() });
        let own = vec![Some(Arc::new(renumbered(&policies.named()[0].policy, 19)))];
        execute(Operation::Override { policies: own, lasting: HOUR });
        for _ in 0..4 {
            let taken = execute(Operation::Take { cost: 1.into() });
            assert_eq!((taken.units, taken.response.decision.capacity >= 19), (1, true), "{kind}");
        }
    }
}

/// Its numbers do not replace those of the limiter, and no other call of the batch is misread.
#[test]
fn an_override_from_a_deployment_with_another_number_of_limits_decides_nothing() {
    let mut server = Server::start();
    let logs = |counts: &[u64]| {
        let limits: Vec<_> =
            (1..).zip(counts).map(|(n, &limit)| LogLimit { limit, window: n * HOUR }).collect();
        Policy::SlidingLog(SlidingLog::with_limits(&limits, None).unwrap())
    };
    for (before, after) in [(&[5, 9][..], &[5, 9, 12][..]), (&[5, 9, 12], &[5, 9])] {
        let mut execute = |counts: &[u64], keys: &[&str], operation: &Operation| {
            let policies = PolicySet::single(logs(counts));
            let names = KeyNames::new(&format!("from-{}", before.len()), &policies);
            let mut batch = CallBatch::new();
            for key in keys {
                batch.push_operation(
                    &names,
                    &[Some(Key::new(key).unwrap())],
                    None,
                    operation.clone(),
                );
            }
            let executed = server.execute(Script::limiter(), &policies, &batch, &[]);
            executed
                .into_iter()
                .map(Result::unwrap)
                .map(|one| one.response.decision)
                .collect::<Vec<_>>()
        };
        let own =
            vec![Some(Arc::new(logs(&before.iter().map(|limit| limit + 20).collect::<Vec<_>>())))];
        execute(before, &["a"], &Operation::Override { policies: own, lasting: HOUR });
        let take = Operation::Take { cost: 1.into() };
        assert_eq!(execute(before, &["a"], &take)[0].capacity, 25);
        let decisions = execute(after, &["a", "b"], &take);
        let seen: Vec<_> = decisions.iter().map(|one| (one.capacity, one.remaining)).collect();
        assert_eq!(seen, [(5, 3), (5, 4)]);
    }
}

/// The sum of the last time and the longest length of time is one more than the largest number.
#[test]
fn the_longest_block_and_override_at_the_last_time_have_an_end_in_lua_too() {
    let mut server = Server::start();
    let policies = PolicySet::single(policy(0, 10));
    let names = KeyNames::new("last", &policies);
    let mut model = Model::default();
    let own = vec![Some(Arc::new(policy(0, 19)))];
    for operation in [
        Operation::Override { policies: own, lasting: MAX_TIME },
        Operation::Block { lasting: MAX_TIME },
        Operation::Take { cost: 1.into() },
    ] {
        let mut batch = CallBatch::new();
        batch.push_operation(&names, &[Some(Key::new("0").unwrap())], None, operation.clone());
        let expected = in_memory(&mut model, &policies, &[Some(0)], MAX_TIME, &operation);
        let more = [String::new(), MAX_TIME.to_string()];
        assert_eq!(server.execute(lasting(), &policies, &batch, &more), [Ok(expected)]);
    }
}

#[test]
fn several_policies_and_operations_in_lua_equal_rust() {
    let cases = (any_policies(), any_choices(150));
    proven(cases, |server, (policies, trace)| equal(server, &policies, &trace, Kind::Onward));
}

// promise: ended-stays-ended
#[test]
fn several_policies_and_operations_equal_rust_also_when_the_clock_steps_back() {
    let cases = (any_policies(), any_choices(150));
    proven(cases, |server, (policies, trace)| equal(server, &policies, &trace, Kind::Stepping));
}

#[test]
fn single_units_under_several_policies_in_lua_equal_rust() {
    let cases = (any_simple_policies(), any_choices(300));
    proven(cases, |server, (policies, trace)| equal(server, &policies, &trace, Kind::Units));
}
