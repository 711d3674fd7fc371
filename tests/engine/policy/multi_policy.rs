//! Policies alone and together: random mixes of all kinds equal the oracle, on their states and in
//! the embedded store, for all operations that the oracles have. Bans, blocks, overrides and
//! reservations are among them.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::{Execution, KeyEntry, KeyMetadata, execute};
use tollgate::policy::multi_policy::LimitReports;
use tollgate::policy::operation::{HoldId, Operation};
use tollgate::policy::policy_set::{MAX_POLICIES, PolicySet};
use tollgate::policy::units::Units;
use tollgate::policy::{Policy, State};

use crate::algorithm::window_oracle::Expected;
use crate::laws::trace::{START, Step, any_trace};
use crate::laws::twins::told;
use crate::policy::hold_oracle::Holds;
use crate::policy::meters::each;
use crate::policy::mix::{Mix, Pair, any_mix};
use crate::policy::multi_policy_oracle::CompoundOracle;
use crate::policy::specs::SECOND;

const TRACES: u32 = 400;
const STEPS: usize = 100;

/// The stored state and metadata of one key under one policy.
pub(crate) type Kept = (State, KeyMetadata);

/// The state and metadata of fresh keys.
pub(crate) fn unused(policies: &PolicySet) -> Vec<Kept> {
    let unused = |policy: &Policy| (policy.initial_state(), KeyMetadata::default());
    policies.named().iter().map(|named| unused(&named.policy)).collect()
}

/// Executes an operation on the keys of some policies.
pub(crate) fn on(
    policies: &PolicySet,
    kept: &mut [Kept],
    which: impl Fn(usize) -> bool,
    now: u64,
    operation: &Operation,
) -> Execution {
    let part = |(number, (state, extras))| {
        which(number).then_some(KeyEntry {
            state,
            metadata: extras,
            may_strike: true,
            may_owe: true,
            is_shared: false,
        })
    };
    let kept = kept.iter_mut().map(|(state, extras)| (state, extras));
    let mut parts: Vec<_> = kept.enumerate().map(part).collect();
    execute(policies, &mut parts, now, operation)
}

/// An operation, its duration, and its key dimensions, some of which may have no key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deed {
    pub(crate) kind: usize,
    pub(crate) lasting: u64,
    pub(crate) key_dimensions: usize,
    /// Numbers that make the units of each policy, if units are by policy.
    pub(crate) meters: Option<[u8; MAX_POLICIES]>,
}

impl Deed {
    /// The units of an operation: the same under all policies, or by policy.
    fn units(self, mix: &Mix, units: u64) -> Units {
        let Some(meters) = self.meters else { return units.into() };
        let own = |(pair, meter): (&Pair, u8)| match meter {
            0..60 => 0,
            60..64 => pair.0.limit() + 1,
            64..90 => pair.0.limit(),
            90..140 => units.min(pair.0.limit()),
            _ => 1 + u64::from(meter % 3),
        };
        mix.pairs.iter().zip(meters).map(own).collect::<Vec<_>>().into()
    }

    pub(crate) fn concerns(self, key_dimension: usize) -> bool {
        self.key_dimensions & (1 << key_dimension) > 0
    }
}

pub(crate) fn any_deeds(steps: usize) -> impl Strategy<Value = Vec<Deed>> {
    let lasting = prop_oneof![Just(0), 1..5_000_u64, 1..9 * SECOND];
    let meters = prop::option::of(any::<[u8; MAX_POLICIES]>());
    let deed = (0..30_usize, lasting, 1..16_usize, meters);
    let deed = deed.prop_map(|(kind, lasting, key_dimensions, meters)| Deed {
        kind,
        lasting,
        key_dimensions,
        meters,
    });
    prop::collection::vec(deed, steps)
}

/// The operation of a step.
pub(crate) fn operation(mix: &Mix, deed: Deed, cost: u64) -> Operation {
    let own = || mix.pairs.iter().map(|pair| Some(Arc::new(pair.1.policy()))).collect();
    // Few of them, so that holds are extended, settled again, and replaced.
    let hold: HoldId = [u8::try_from(deed.key_dimensions % 3).unwrap(); 16];
    let lasting = deed.lasting;
    let units = deed.units(mix, cost);
    match deed.kind {
        0 | 1 => Operation::TakeUpTo { units: cost },
        2 => Operation::Penalize { units },
        3 => Operation::Reset,
        4 => Operation::Block { lasting },
        5 => Operation::Unblock,
        6 => Operation::Override { policies: own(), lasting },
        7 => Operation::ClearOverride,
        8..=10 => Operation::Reserve { cost: units, hold, lasting },
        11 | 12 => Operation::Extend { hold, cost: units, lasting },
        13 => Operation::Renew { hold, lasting },
        14 | 15 => {
            let actual = deed.units(mix, [0, cost, 2 * cost][deed.key_dimensions / 3 % 3]);
            // Without its charges nothing comes back.
            Operation::Settle { hold, actual, charges: Vec::new() }
        }
        _ => Operation::Take { cost: units },
    }
}

/// Whether an operation needs the keys of all key dimensions.
pub(crate) fn needs_all(operation: &Operation) -> bool {
    use Operation::{Extend, Renew, Settle};
    takes(operation) || matches!(operation, Extend { .. } | Renew { .. } | Settle { .. })
}

/// Whether an operation takes units, or would.
pub(crate) fn takes(operation: &Operation) -> bool {
    use Operation::{Peek, Reserve, Take, TakeUpTo};
    matches!(operation, Take { .. } | TakeUpTo { .. } | Peek { .. } | Reserve { .. })
}

/// The reports without the marks and the times of the next units, which the oracle does not know.
fn without_marks(executed: &Execution) -> Option<LimitReports> {
    let mut reports = executed.response.limits.as_deref().cloned();
    for limit in reports.iter_mut().flat_map(|reports| reports.limits.iter_mut()) {
        (limit.mark, limit.next_after_ms) = (0, 0);
    }
    reports
}

/// Compares every field of a response with the oracle's.
fn judge_response(
    oracle: &CompoundOracle,
    now: u64,
    executed: &Execution,
    expected: Expected,
    several: LimitReports,
) -> Result<(), TestCaseError> {
    let response = &executed.response;
    prop_assert_eq!(told(response.decision), expected);
    prop_assert_eq!(response.decision.limit, several.limits[several.reported].limit);
    let blocks = oracle.blocks(now, &several);
    let ban = oracle.ban(now).filter(|_| expected.status == Status::Blocked);
    prop_assert_eq!(without_marks(executed), oracle.has_names().then_some(several));
    let has_told = response.blocks.as_ref().map(|blocks| blocks.to_vec());
    prop_assert_eq!(has_told, (expected.status == Status::Blocked).then_some(blocks));
    prop_assert_eq!(response.ban(), ban);
    Ok(())
}

/// Runs a call in the oracle and compares the results. Returns whether it was charged.
fn judge_take(
    oracle: &mut CompoundOracle,
    now: u64,
    cost: &Units,
    executed: &Execution,
) -> Result<bool, TestCaseError> {
    let costs: Vec<_> = (0..oracle.own_until.len()).map(|number| cost.of(number)).collect();
    let (expected, several) = oracle.take(now, &costs);
    judge_response(oracle, now, executed, expected, several)?;
    let is_admitted = matches!(expected.status, Status::Allowed | Status::AllowedLast);
    let is_charged = is_admitted && costs.iter().any(|&cost| cost > 0);
    let charged = if cost.is_by_policy() { 1 } else { cost.of(0) };
    prop_assert_eq!(executed.units, if is_charged { charged } else { 0 });
    Ok(is_charged)
}

/// Runs the step in the oracle and compares the results.
pub(crate) fn judge(
    oracle: &mut CompoundOracle,
    which: impl Fn(usize) -> bool,
    now: u64,
    operation: &Operation,
    executed: &Execution,
) -> Result<(), TestCaseError> {
    let numbers: Vec<usize> = (0..oracle.own_until.len()).filter(|&number| which(number)).collect();
    numbers.iter().for_each(|&number| oracle.drop_ended(number, now));
    // What the operation says of a hold, and of units by policy.
    let (mut held, mut moved) = (None, None);
    match operation {
        Operation::Take { cost } => {
            judge_take(oracle, now, cost, executed)?;
        }
        Operation::Reserve { cost, hold, lasting } => {
            if judge_take(oracle, now, cost, executed)? {
                oracle.holds.put(*hold, cost.clone(), now + lasting, now);
            }
        }
        Operation::Extend { hold, cost, lasting } => {
            match oracle.holds.find_like(hold, now, cost) {
                Some(before) => {
                    held = Some(each(cost, |number| before.units.of(number)));
                    if judge_take(oracle, now, cost, executed)? {
                        let until = before.until.max(now + lasting);
                        let units = each(cost, |number| before.units.of(number) + cost.of(number));
                        held = Some(units.clone());
                        oracle.holds.put(*hold, units, until, now);
                    }
                }
                None => {
                    oracle.repair(&numbers, now);
                    held = Some(each(cost, |_| 0));
                    prop_assert_eq!(executed.units, 0);
                }
            }
        }
        Operation::Renew { hold, lasting } => {
            oracle.repair(&numbers, now);
            let found = oracle.holds.find(hold, now);
            prop_assert_eq!(executed.units, u64::from(found.is_some()));
            if let Some(before) = found {
                let until = before.until.max(now + lasting);
                oracle.holds.put(*hold, before.units, until, now);
            }
        }
        Operation::Settle { hold, actual, .. } => {
            oracle.repair(&numbers, now);
            let found = oracle.holds.take(hold, now, actual).map(|found| found.units);
            let mut charged = vec![0; oracle.own_until.len()];
            for &number in &numbers {
                let held = found.as_ref().map_or(u64::MAX, |found| found.of(number));
                let more = actual.of(number).saturating_sub(held);
                charged[number] = if more > 0 { oracle.penalize(number, now, more) } else { 0 };
            }
            held = Some(each(actual, |number| found.as_ref().map_or(0, |found| found.of(number))));
            prop_assert_eq!(Some(executed.units), charged.iter().copied().max());
            moved = actual.is_by_policy().then_some(charged);
        }
        Operation::TakeUpTo { units } => {
            let (granted, expected, several) = oracle.take_up_to(now, *units);
            prop_assert_eq!(executed.units, granted);
            judge_response(oracle, now, executed, expected, several)?;
        }
        Operation::Penalize { units } => {
            let mut charged = vec![0; oracle.own_until.len()];
            for &number in &numbers {
                charged[number] = oracle.penalize(number, now, units.of(number));
            }
            prop_assert_eq!(Some(executed.units), charged.iter().copied().max());
            moved = units.is_by_policy().then_some(charged);
        }
        Operation::Reset => {
            numbers.iter().for_each(|&number| oracle.reset(number));
            if numbers.contains(&0) {
                oracle.holds = Holds::default();
            }
        }
        Operation::Block { lasting } => oracle.change(&numbers, now, |oracle, number| {
            let until = &mut oracle.blocked_until[number];
            *until = (*until).max(now + lasting);
        }),
        Operation::Unblock => oracle.change(&numbers, now, |oracle, number| {
            oracle.blocked_until[number] = 0;
        }),
        Operation::Override { lasting, .. } => oracle.change(&numbers, now, |oracle, number| {
            oracle.override_until(number, now, now + lasting);
        }),
        Operation::ClearOverride => oracle.change(&numbers, now, |oracle, number| {
            oracle.own_until[number] = 0;
        }),
        Operation::Peek { .. }
        | Operation::Refund { .. }
        | Operation::Schedule { .. }
        | Operation::CancelScheduled { .. }
        | Operation::Acquire { .. }
        | Operation::Release { .. }
        | Operation::RenewPermit { .. }
        | Operation::Repeatable(_) => unreachable!("oracles know none of these"),
    }
    prop_assert_eq!(executed.held(), held.as_ref());
    prop_assert_eq!(executed.moved(), moved.as_deref());
    prop_assert_eq!(executed.response.decision.at, now);
    // What lasts for no time has ended.
    numbers.iter().for_each(|&number| oracle.drop_ended(number, now));
    Ok(())
}

/// The time from which all keys are fresh.
pub(crate) fn reset_at<'a>(kept: impl IntoIterator<Item = &'a Kept>) -> u64 {
    let reset_at = |(state, extras): &Kept| state.reset_at().max(extras.end());
    kept.into_iter().map(reset_at).max().unwrap_or(0)
}

/// A refusal only normalizes the state under every policy; it only repairs that of a policy without a
/// cost.
fn met(mix: &Mix, kept: &[Kept], now: u64, operation: &Operation) -> Vec<Kept> {
    let has_cost = |number| match operation {
        Operation::Take { cost } | Operation::Reserve { cost, .. } => cost.of(number) > 0,
        _ => true,
    };
    let meet = |(number, ((state, extras), pair)): (usize, (&Kept, &Pair))| {
        let (mut state, policy) = (state.clone(), pair.0.policy());
        let policy = extras.in_force(&policy, now);
        if has_cost(number) {
            policy.normalize(&mut state, now);
        } else {
            policy.charge(&mut state, now, 0);
        }
        let mut extras = extras.clone();
        extras.drop_ended(now);
        (state, extras)
    };
    kept.iter().zip(&mix.pairs).enumerate().map(meet).collect()
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    // promise: waiting-gets-no-strike
    /// With clock steps both ways; a refused call changes the state only by repairs.
    #[test]
    fn performing_on_states_equals_the_oracle(
        mix in any_mix(),
        trace in any_trace(STEPS),
        deeds in any_deeds(STEPS),
    ) {
        let policies = mix.policies();
        let (mut kept, mut oracle) = (unused(&policies), CompoundOracle::new(&mix));
        let (mut now, mut retry_at) = (START, START);
        for (index, (Step { time, cost, choice }, deed)) in trace.into_iter().zip(deeds).enumerate() {
            now = time.from(now, reset_at(&kept), retry_at);
            let cost = cost.of(oracle.spec(choice % mix.pairs.len(), now).limit());
            let operation = operation(&mix, deed, cost);
            let which = |number| needs_all(&operation) || deed.concerns(mix.key_dimension(number));
            if (0..mix.pairs.len()).any(which) {
                let before = met(&mix, &kept, now, &operation);
                let executed = on(&policies, &mut kept, which, now, &operation);
                let step = format!("step {index}: {operation:?} at {now}");
                judge(&mut oracle, which, now, &operation, &executed)
                    .map_err(|why| TestCaseError::fail(format!("{step}: {why}")))?;
                if takes(&operation) && executed.units == 0 {
                    let parts = |all: &[Kept]| all.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
                    let ((states, extras), (old, old_extras)) = (parts(&kept), parts(&before));
                    prop_assert_eq!(states, old, "{} left more than repairs", step);
                    prop_assert!(mix.ban.is_some() || extras == old_extras);
                }
                retry_at = now + executed.response.decision.retry_after_ms * 1_000;
            }
        }
    }

    /// With a clock that never steps back, so that dropped states make no difference.
    #[test]
    fn the_embedded_store_equals_states_and_the_oracle(
        mix in any_mix(),
        seed in any::<(u64, u64)>(),
        trace in any_trace(STEPS),
        deeds in any_deeds(STEPS),
    ) {
        let policies = mix.policies();
        let store = MemoryStore::new(100_000, seed);
        let ledger = store.open("mix", policies.clone()).unwrap();
        // All key dimensions have a key of the same number, so that one oracle decides on them.
        let mut keys: HashMap<usize, (Vec<Kept>, CompoundOracle)> = HashMap::new();
        let (mut now, mut retry_at) = (START, START);
        for (Step { time, cost, choice }, deed) in trace.into_iter().zip(deeds) {
            let (kept, oracle) = keys
                .entry(choice / 7 % 3)
                .or_insert_with(|| (unused(&policies), CompoundOracle::new(&mix)));
            now = time.onward_from(now, reset_at(&*kept), retry_at);
            let cost = cost.of(oracle.spec(choice % mix.pairs.len(), now).limit());
            let operation = operation(&mix, deed, cost);
            let text = |key_dimension| format!("{}-{key_dimension}", choice / 7 % 3);
            let texts: Vec<_> = (0..mix.key_dimensions).map(text).collect();
            let named = |key_dimension| needs_all(&operation) || deed.concerns(key_dimension);
            let key = |(key_dimension, text)| Some(Key::new(text).unwrap()).filter(|_| named(key_dimension));
            let keys: Vec<_> = texts.iter().map(String::as_str).enumerate().map(key).collect();
            let which = |number| named(mix.key_dimension(number));
            if (0..mix.pairs.len()).any(which) {
                let executed = ledger.execute(&keys, &operation, &now).unwrap();
                prop_assert_eq!(&executed, &on(&policies, kept, which, now, &operation));
                judge(oracle, which, now, &operation, &executed)?;
                retry_at = now + executed.response.decision.retry_after_ms * 1_000;
            }
        }
    }
}
