//! Costs by policy: each policy decides on its own cost, and charges it.

use super::*;
use crate::algorithm::{ChargeRecord, FixedWindow, Gcra, TokenBucket};
use crate::policy::decision::Status;
use crate::policy::execute::tests::{SECOND, TestKey};
use crate::policy::multi_policy::LimitReport;
use crate::policy::operation::Charge;

fn window(limit: u64) -> Policy {
    Policy::FixedWindow(FixedWindow::new(limit, SECOND).unwrap())
}

fn bucket(capacity: u64) -> Policy {
    Policy::TokenBucket(TokenBucket::new(capacity, capacity, SECOND).unwrap())
}

/// Requests, tokens and money.
fn meters() -> TestKey {
    TestKey::of(vec![("calls", window(3)), ("tokens", bucket(1_000)), ("cents", window(50))])
}

fn take(kept: &mut TestKey, cost: [u64; 3]) -> Execution {
    kept.execute(0, &Operation::Take { cost: cost.into() })
}

fn remaining(executed: &Execution) -> Vec<u64> {
    executed.response.limits.as_ref().unwrap().limits.iter().map(|limit| limit.remaining).collect()
}

fn retries(executed: &Execution) -> Vec<Option<u64>> {
    let limits = &executed.response.limits.as_ref().unwrap().limits;
    limits.iter().map(|limit| limit.retry_after_ms).collect()
}

#[test]
fn each_policy_is_charged_its_own_cost_or_none_is() {
    let mut kept = meters();
    let taken = take(&mut kept, [1, 600, 4]);
    assert_eq!((taken.units, remaining(&taken)), (1, vec![2, 400, 46]));
    let before = kept.states.clone();
    let refused = take(&mut kept, [1, 500, 4]);
    assert_eq!((refused.response.decision.status, refused.units), (Status::Refused, 0));
    assert_eq!(retries(&refused), [Some(0), Some(100), Some(0)]);
    assert_eq!(kept.states, before);
    let last = take(&mut kept, [1, 400, 4]);
    assert_eq!(last.response.decision.status, Status::AllowedLast);
}

#[test]
fn a_cost_above_one_limit_is_impossible_and_reported_for_this_limit() {
    let mut kept = meters();
    let impossible = take(&mut kept, [1, 1_001, 4]);
    let decision = impossible.response.decision;
    assert_eq!((decision.status, decision.limit), (Status::Impossible, 1_000));
    assert_eq!(retries(&impossible), [Some(0), None, Some(0)]);
    assert_eq!(impossible.response.limits.unwrap().reported, 1);
}

#[test]
fn a_policy_without_a_cost_refuses_no_call_and_keeps_its_state() {
    let mut kept = meters();
    take(&mut kept, [3, 10, 1]);
    let before = kept.states.clone();
    let taken = take(&mut kept, [0, 10, 0]);
    assert_eq!((taken.units, remaining(&taken)), (1, vec![0, 980, 49]));
    assert_eq!([&kept.states[0], &kept.states[2]], [&before[0], &before[2]]);
    let peeked = kept.execute(0, &Operation::Peek { cost: [0, 980, 0].into() });
    assert_eq!(peeked.response.decision.status, Status::AllowedLast);
    assert_eq!(kept.execute(0, &Operation::Peek { cost: [1, 0, 0].into() }).units, 0);
}

#[test]
fn a_block_of_a_policy_without_a_cost_refuses() {
    let mut kept = meters();
    kept.on(&[0], 0, &Operation::Block { lasting: SECOND });
    for cost in [[0, 1, 1], [0, 0, 0]] {
        let blocked = take(&mut kept, cost);
        assert_eq!((blocked.response.decision.status, blocked.units), (Status::Blocked, 0));
    }
}

#[test]
fn a_call_without_any_cost_takes_nothing() {
    let mut kept = meters();
    let before = kept.states.clone();
    for operation in [
        Operation::Take { cost: [0; 3].into() },
        Operation::Schedule { cost: [0; 3].into(), max_wait: 9 },
        Operation::Reserve { cost: [0; 3].into(), hold: [1; 16], lasting: SECOND },
    ] {
        let taken = kept.execute(0, &operation);
        assert_eq!((taken.response.decision.status, taken.units), (Status::Allowed, 0));
        assert_eq!((taken.scheduled.len(), &kept.states), (0, &before));
    }
    let settled = Operation::Settle { hold: [1; 16], actual: [1; 3].into(), charges: vec![] };
    assert_eq!(kept.execute(0, &settled).held(), Some(&[0; 3].into()));
}

#[test]
fn a_penalty_and_its_result_are_by_policy() {
    let mut kept = meters();
    let penalized = kept.execute(0, &Operation::Penalize { units: [0, 400, 60].into() });
    assert_eq!(penalized.moved(), Some(&[0, 400, 50][..]));
    assert_eq!((penalized.units, remaining(&penalized)), (400, vec![3, 600, 0]));
    // A policy without a key is not charged.
    let penalized = kept.on(&[1], 0, &Operation::Penalize { units: [1, 1, 1].into() });
    assert_eq!(penalized.moved(), Some(&[0, 1, 0][..]));
}

/// The charge of a call, as its caller knows it.
fn charge(executed: &Execution, units: [u64; 3]) -> Charge {
    let limits = executed.response.limits.as_ref().unwrap().limits.iter();
    let record = |(limit, cost): (&LimitReport, u64)| ChargeRecord {
        reset_at: limit.reset_after_ms * 1_000,
        used: limit.capacity - limit.remaining,
        cost,
        ..ChargeRecord::default()
    };
    Charge { units: units.into(), taken: limits.zip(units).map(record).collect() }
}

#[test]
fn a_refund_and_its_result_are_by_policy() {
    let mut kept = meters();
    let call = take(&mut kept, [1, 600, 10]);
    let mut taken = charge(&call, [1, 600, 10]).taken;
    (taken[1].kept, taken[2].kept) = (350, 10);
    let refund = Operation::Refund { units: [1, 250, 0].into(), taken };
    let refunded = kept.execute(0, &refund);
    assert_eq!(refunded.moved(), Some(&[1, 250, 0][..]));
    assert_eq!((refunded.units, remaining(&refunded)), (250, vec![3, 650, 40]));
}

#[test]
fn a_settlement_refunds_under_one_policy_and_charges_under_another() {
    let mut kept = meters();
    let reserve = Operation::Reserve { cost: [1, 600, 10].into(), hold: [1; 16], lasting: SECOND };
    let reserved = kept.execute(0, &reserve);
    assert_eq!(reserved.units, 1);
    let extend =
        |cost: [u64; 3]| Operation::Extend { hold: [1; 16], cost: cost.into(), lasting: SECOND };
    let extended = kept.execute(0, &extend([0, 100, 1]));
    assert_eq!((extended.units, extended.held()), (1, Some(&[1, 700, 11].into())));
    let refused = kept.execute(0, &extend([0, 301, 1]));
    assert_eq!((refused.units, refused.held()), (0, Some(&[1, 700, 11].into())));
    let settle = |actual: Units| Operation::Settle {
        hold: [1; 16],
        actual,
        charges: vec![charge(&reserved, [1, 600, 10]), charge(&extended, [0, 100, 1])],
    };
    // Units of another number of policies are not those of the hold.
    assert_eq!(kept.execute(0, &settle([1, 650].into())).held(), Some(&[0, 0].into()));
    assert_eq!(kept.execute(0, &settle(650.into())).held(), Some(&0.into()));
    let settled = kept.execute(0, &settle([1, 650, 15].into()));
    assert_eq!(settled.moved(), Some(&[0, 50, 4][..]));
    assert_eq!((settled.units, settled.held()), (50, Some(&[1, 700, 11].into())));
    assert_eq!(remaining(&settled), [2, 350, 35]);
    let again = kept.execute(0, &settle([0, 0, 0].into()));
    assert_eq!(again.moved(), Some(&[0, 0, 0][..]));
    assert_eq!(again.held(), Some(&[0; 3].into()));
}

#[test]
fn a_slot_is_that_of_the_policies_with_a_cost() {
    let gcra = |limit| Policy::Gcra(Gcra::new(limit, SECOND, 1).unwrap());
    let mut kept = TestKey::of(vec![("fast", gcra(10)), ("slow", gcra(1)), ("other", window(1))]);
    let schedule = |kept: &mut TestKey, cost: [u64; 3]| {
        kept.execute(0, &Operation::Schedule { cost: cost.into(), max_wait: 9 * SECOND })
    };
    assert_eq!(schedule(&mut kept, [1, 1, 0]).units, 0);
    let both = schedule(&mut kept, [1, 1, 0]);
    assert_eq!((both.units, both.scheduled.len()), (SECOND, 3));
    let fast = schedule(&mut kept, [1, 0, 0]);
    assert_eq!(fast.units, SECOND + 100_000);
    let has_slot: Vec<_> = fast.scheduled.iter().map(Option::is_some).collect();
    assert_eq!(has_slot, [true, false, false]);
    // No slots are under a policy that is no rate.
    assert_eq!(schedule(&mut kept, [1, 0, 1]).response.decision.status, Status::Impossible);
    let cancel = |kept: &mut TestKey, booked: &Execution| {
        let scheduled = booked.scheduled.clone();
        kept.execute(0, &Operation::CancelScheduled { scheduled }).units
    };
    assert_eq!(cancel(&mut kept, &both), 0, "a later call has a slot under one of its policies");
    assert_eq!([cancel(&mut kept, &fast), cancel(&mut kept, &both)], [1, 1]);
}

#[test]
fn a_permit_holds_the_units_of_its_policy() {
    let permits = |limit| Policy::Concurrency(Concurrency::new(limit, SECOND).unwrap());
    let mut kept = TestKey::of(vec![("calls", permits(2)), ("tokens", permits(1_000))]);
    let acquire = |kept: &mut TestKey, id, cost: [u64; 2], waited| {
        let request = PermitRequest { id, waited };
        kept.execute(0, &Operation::Acquire { cost: cost.into(), request, hold: None })
    };
    let first = acquire(&mut kept, 1, [1, 700], None);
    assert_eq!((first.units, remaining(&first)), (1, vec![1, 300]));
    // It waits for tokens alone, and gets its turn there.
    let waits = acquire(&mut kept, 2, [1, 400], Some(0));
    assert_eq!((waits.units, remaining(&waits)), (0, vec![1, 300]));
    assert_eq!(acquire(&mut kept, 3, [1, 300], None).units, 0, "the ticket goes first");
    assert_eq!(acquire(&mut kept, 4, [1, 0], None).units, 1, "it needs no tokens");
    kept.execute(0, &Operation::Release { permit: 1 });
    assert_eq!(acquire(&mut kept, 2, [1, 400], Some(5)).units, 1);
}
