use std::sync::Arc;

use super::*;
use crate::algorithm::{ChargeRecord, FixedWindow, Gcra, LogLimit, SlidingLog};
use crate::policy::decision::{Decision, Status};
use crate::policy::operation::Charge;
use crate::time::MAX_SAFE;

pub(super) const SECOND: Micros = 1_000_000;

/// The state of one key under a limiter's policies.
#[derive(Clone)]
pub(super) struct TestKey {
    policies: PolicySet,
    pub(super) states: Vec<State>,
    extras: Vec<KeyMetadata>,
}

impl TestKey {
    pub(super) fn of(policies: Vec<(&str, Policy)>) -> Self {
        let named = |(name, policy): (&str, Policy)| NamedPolicy {
            name: name.into(),
            policy,
            key_dimension: 0,
        };
        Self::under(PolicySet::multi(policies.into_iter().map(named).collect()).unwrap())
    }

    fn under(policies: PolicySet) -> Self {
        let states: Vec<_> =
            policies.named().iter().map(|named| named.policy.initial_state()).collect();
        Self { extras: vec![KeyMetadata::default(); states.len()], states, policies }
    }

    /// Executes an operation on the keys of some policies.
    pub(super) fn on(&mut self, which: &[usize], now: Micros, operation: &Operation) -> Execution {
        let kept = self.states.iter_mut().zip(&mut self.extras).enumerate();
        let part = |(number, (state, extras))| {
            which.contains(&number).then_some(KeyEntry {
                state,
                metadata: extras,
                may_strike: true,
                may_owe: true,
                is_shared: false,
            })
        };
        let mut parts: Vec<_> = kept.map(part).collect();
        execute(&self.policies, &mut parts, now, operation)
    }

    pub(super) fn execute(&mut self, now: Micros, operation: &Operation) -> Execution {
        self.on(&[0, 1, 2], now, operation)
    }

    fn take(&mut self, now: Micros, cost: u64) -> Execution {
        self.execute(now, &Operation::Take { cost: cost.into() })
    }

    fn status(&mut self, now: Micros, cost: u64) -> Status {
        self.take(now, cost).response.decision.status
    }

    fn peek(&mut self, now: Micros, cost: u64) -> Decision {
        self.execute(now, &Operation::Peek { cost: cost.into() }).response.decision
    }
}

fn gcra(limit: u64) -> Policy {
    Policy::Gcra(Gcra::new(limit, SECOND, limit).unwrap())
}

fn window(limit: u64, window: Micros) -> Policy {
    Policy::FixedWindow(FixedWindow::new(limit, window).unwrap())
}

fn burst_and_daily() -> TestKey {
    TestKey::of(vec![("burst", gcra(4)), ("daily", window(6, 1_000 * SECOND))])
}

/// The numbers of each limit: remaining and retry.
fn limits(executed: &Execution) -> (usize, Vec<(u64, Option<u64>)>) {
    let several = executed.response.limits.as_ref().unwrap();
    let numbers = several.limits.iter().map(|limit| (limit.remaining, limit.retry_after_ms));
    (several.reported, numbers.collect())
}

#[test]
fn all_are_charged_or_none() {
    let mut kept = burst_and_daily();
    let first = kept.take(0, 3);
    assert_eq!(first.units, 3);
    assert_eq!(limits(&first), (0, vec![(1, Some(0)), (3, Some(0))]));
    let before = kept.states.clone();
    let refused = kept.take(0, 2);
    assert_eq!((refused.response.decision.status, refused.units), (Status::Refused, 0));
    assert_eq!(limits(&refused), (0, vec![(1, Some(250)), (3, Some(0))]));
    assert_eq!(kept.states, before);
    // The daily limit refuses a call that the burst would admit, and has the longer retry.
    let refused = kept.take(SECOND, 4);
    assert_eq!(limits(&refused), (1, vec![(4, Some(0)), (3, Some(999_000))]));
    assert_eq!(kept.status(SECOND, 3), Status::AllowedLast);
}

#[test]
fn a_cost_that_one_policy_can_never_admit_is_impossible_whatever_others_say() {
    let mut kept = burst_and_daily();
    kept.take(0, 3);
    kept.execute(0, &Operation::Block { lasting: SECOND });
    let impossible = kept.take(0, 5);
    let decision = impossible.response.decision;
    assert_eq!((decision.status, decision.limit), (Status::Impossible, 4));
    assert_eq!(decision.retry_after_ms, 0);
    assert_eq!(limits(&impossible), (0, vec![(1, None), (3, Some(1_000_000))]));
}

// promise: ended-stays-ended
#[test]
fn a_blocked_key_admits_nothing_until_the_end_of_the_block() {
    let mut kept = burst_and_daily();
    kept.take(0, 1);
    let before = kept.states.clone();
    let blocked = kept.execute(0, &Operation::Block { lasting: 2_000 * SECOND });
    assert_eq!((blocked.response.decision.status, blocked.units), (Status::Blocked, 0));
    assert_eq!(kept.states, before, "a block is no use");
    let end = 2_000 * SECOND;
    let Decision { status, retry_after_ms, reset_after_ms, remaining, .. } = kept.peek(end - 1, 1);
    assert_eq!((status, retry_after_ms, reset_after_ms), (Status::Blocked, 1, 1));
    assert_eq!(remaining, 4, "the numbers count what is charged");
    assert_eq!(kept.status(end - 1, 1), Status::Blocked);
    let none = kept.execute(end - 1, &Operation::TakeUpTo { units: 3 });
    assert_eq!((none.response.decision.status, none.units), (Status::Blocked, 0));
    // A peek drops nothing: if the clock steps back, the block is in force again.
    assert_eq!(kept.peek(end, 4).status, Status::AllowedLast);
    assert_eq!(kept.status(end - 1, 1), Status::Blocked);
    // A call drops it for good.
    assert_eq!(kept.status(end, 4), Status::AllowedLast);
    assert_eq!(kept.status(end - 1, 1), Status::Refused);
    kept.execute(end - 1, &Operation::Block { lasting: 5 });
    kept.execute(end - 1, &Operation::Block { lasting: 0 });
    assert_eq!(kept.status(end + 3, 1), Status::Blocked, "a shorter block changes nothing");
}

#[test]
fn a_block_ends_when_it_is_ended_and_the_later_of_its_end_and_the_retry_is_told() {
    let mut kept = burst_and_daily();
    kept.take(0, 4);
    kept.execute(0, &Operation::Block { lasting: SECOND / 2 });
    assert_eq!(kept.peek(0, 4).retry_after_ms, 1_000_000);
    let result = kept.take(0, 2);
    assert_eq!(limits(&result), (0, vec![(0, Some(500)), (2, Some(500))]));
    assert_eq!(result.response.decision.status, Status::Blocked);
    assert_eq!(kept.execute(0, &Operation::Unblock).response.decision.status, Status::Allowed);
    assert_eq!(kept.status(0, 2), Status::Refused);
}

#[test]
fn as_many_as_fit_are_taken() {
    let mut kept = burst_and_daily();
    let three = kept.execute(0, &Operation::TakeUpTo { units: 3 });
    assert_eq!((three.units, three.response.decision.status), (3, Status::Allowed));
    let last = kept.execute(0, &Operation::TakeUpTo { units: 3 });
    assert_eq!((last.units, last.response.decision.status), (1, Status::AllowedLast));
    let before = kept.states.clone();
    let none = kept.execute(0, &Operation::TakeUpTo { units: 3 });
    assert_eq!((none.units, none.response.decision.retry_after_ms), (0, 250), "that of one unit");
    assert_eq!(kept.states, before);
    assert_eq!(kept.execute(SECOND, &Operation::TakeUpTo { units: u64::MAX }).units, 2);
}

#[test]
fn where_refused_calls_count_what_is_not_granted_and_what_a_block_refuses_does_not() {
    let counting = FixedWindow::new(4, SECOND).unwrap().counting_refused(true);
    let mut kept = TestKey::under(PolicySet::single(Policy::FixedWindow(counting)));
    kept.take(0, 2);
    let before = kept.states.clone();
    kept.execute(0, &Operation::Block { lasting: 5 });
    assert_eq!(kept.status(0, 3), Status::Blocked);
    kept.execute(0, &Operation::Unblock);
    assert_eq!(kept.states, before);
    assert_eq!(kept.execute(0, &Operation::TakeUpTo { units: 9 }).units, 2);
    let before = kept.states.clone();
    assert_eq!(kept.execute(0, &Operation::TakeUpTo { units: 9 }).units, 0);
    assert_eq!(kept.states, before);
    kept.execute(0, &Operation::Reset);
    assert_eq!((kept.status(0, 1), kept.status(0, 4)), (Status::Allowed, Status::Refused));
    assert_eq!(kept.peek(0, 0).remaining, 0, "the refused call has used up the window");
}

#[test]
fn a_penalty_takes_what_is_left_under_each_policy() {
    let mut kept = burst_and_daily();
    let five = kept.execute(0, &Operation::Penalize { units: 5.into() });
    assert_eq!(limits(&five), (0, vec![(0, Some(0)), (1, Some(0))]));
    assert_eq!((five.units, five.response.decision.status), (5, Status::Allowed));
    kept.execute(0, &Operation::Block { lasting: 5 });
    let more = kept.execute(0, &Operation::Penalize { units: 5.into() });
    assert_eq!((more.units, more.response.decision.status), (1, Status::Blocked));
    assert_eq!(kept.execute(0, &Operation::Penalize { units: 5.into() }).units, 0);
}

#[test]
fn a_reset_ends_a_block_and_leaves_an_override() {
    let mut kept = burst_and_daily();
    let policies = vec![None, Some(Arc::new(window(2, SECOND)))];
    kept.execute(0, &Operation::Override { policies, lasting: 10 * SECOND });
    kept.take(0, 2);
    kept.execute(0, &Operation::Block { lasting: SECOND });
    let reset = kept.execute(0, &Operation::Reset).response;
    assert_eq!((reset.decision.status, reset.decision.reset_after_ms), (Status::Allowed, 0));
    assert_eq!((reset.decision.limit, reset.limits.unwrap().reported), (2, 1));
}

#[test]
fn a_key_is_decided_by_its_own_numbers_until_they_end() {
    let mut kept = burst_and_daily();
    kept.take(0, 2);
    let policies = vec![Some(Arc::new(gcra(10))), Some(Arc::new(window(20, 1_000 * SECOND)))];
    let given = kept.execute(0, &Operation::Override { policies, lasting: 3 * SECOND });
    // Two of four units were used, and count as two of ten.
    assert_eq!(limits(&given), (0, vec![(8, Some(0)), (18, Some(0))]));
    assert_eq!(kept.status(0, 8), Status::AllowedLast);
    assert_eq!(kept.execute(3 * SECOND - 1, &Operation::TakeUpTo { units: 99 }).units, 10);
    // The limiter's numbers decide again: seven of the ten units, rounded up, must drain at their
    // own rate.
    let after = kept.execute(3 * SECOND, &Operation::Peek { cost: 1.into() });
    assert_eq!(limits(&after), (1, vec![(0, Some(700)), (0, Some(997_000))]));
    kept.execute(SECOND, &Operation::ClearOverride);
    assert_eq!(kept.peek(SECOND, 7).status, Status::Impossible);
}

#[test]
fn numbers_of_another_kind_are_not_taken_and_those_that_are_missing_change_nothing() {
    let mut kept = burst_and_daily();
    let wide = Some(Arc::new(window(20, SECOND)));
    kept.execute(0, &Operation::Override { policies: vec![wide.clone(), wide], lasting: 9 });
    assert_eq!(kept.extras[0], KeyMetadata::default());
    let wider = kept.extras[1].clone();
    assert_eq!(wider.end(), 9);
    kept.execute(5, &Operation::Override { policies: vec![None, None], lasting: 9 });
    kept.execute(5, &Operation::Override { policies: vec![], lasting: 9 });
    assert_eq!(kept.extras[1], wider);
}

#[test]
fn policies_without_a_key_have_no_say() {
    let mut kept = burst_and_daily();
    kept.on(&[1], 0, &Operation::Block { lasting: SECOND });
    assert_eq!((kept.extras[0].blocked_until, kept.extras[1].blocked_until), (0, SECOND));
    let by = vec![Some(Arc::new(gcra(2))), Some(Arc::new(window(5, SECOND)))];
    let result = kept.on(&[1], 0, &Operation::Override { policies: by, lasting: 5 });
    assert_eq!(limits(&result), (0, vec![(5, Some(1_000))]));
    assert_eq!(kept.extras[0], KeyMetadata::default());
    let result = kept.on(&[0], 0, &Operation::Peek { cost: 0.into() });
    assert_eq!(limits(&result), (0, vec![(4, Some(0))]));
}

#[test]
fn the_limits_of_logs_stand_among_those_of_other_policies() {
    let limit = |limit, window| LogLimit { limit, window };
    let limits_of_logs = [limit(5, 10 * SECOND), limit(3, SECOND)];
    let logs = Policy::SlidingLog(SlidingLog::with_limits(&limits_of_logs, None).unwrap());
    let mut kept = TestKey::of(vec![("logs", logs), ("day", window(4, 100 * SECOND))]);
    assert_eq!(limits(&kept.take(0, 2)), (1, vec![(3, Some(0)), (1, Some(0)), (2, Some(0))]));
    let refused = kept.take(0, 2);
    assert_eq!(limits(&refused), (1, vec![(3, Some(0)), (1, Some(1_000)), (2, Some(0))]));
    let impossible = kept.take(0, 4);
    assert_eq!(limits(&impossible), (1, vec![(3, Some(0)), (1, None), (2, Some(100_000))]));
    assert_eq!(impossible.response.decision.limit, 3);
}

#[test]
fn of_several_that_are_equal_the_first_speaks() {
    let mut kept = TestKey::of(vec![("one", gcra(4)), ("two", gcra(4)), ("three", gcra(4))]);
    for cost in [4, 1, 5] {
        assert_eq!(kept.take(0, cost).response.limits.unwrap().reported, 0, "{cost}");
    }
}

#[test]
fn of_a_single_policy_no_limit_has_a_name() {
    let mut kept = TestKey::under(PolicySet::single(gcra(4)));
    let taken = kept.take(0, 4);
    assert_eq!(
        (taken.response.limits, taken.response.decision.status),
        (None, Status::AllowedLast)
    );
}

/// Settles the hold of [`reserve`], whose charges were of these units.
fn settle(actual: u64, charges: &[u64]) -> Operation {
    let resets = [SECOND, 1_000 * SECOND];
    let taken = resets.map(|reset_at| ChargeRecord { reset_at, ..ChargeRecord::default() });
    let charge = |&units: &u64| Charge { units: units.into(), taken: taken.to_vec() };
    Operation::Settle {
        hold: [1; 16],
        actual: actual.into(),
        charges: charges.iter().map(charge).collect(),
    }
}

fn reserve(cost: u64, lasting: Micros) -> Operation {
    Operation::Reserve { cost: cost.into(), hold: [1; 16], lasting }
}

fn extend(cost: u64, lasting: Micros) -> Operation {
    Operation::Extend { hold: [1; 16], cost: cost.into(), lasting }
}

/// The units that an operation moved, and those of the hold.
fn moved(executed: &Execution) -> (u64, Option<u64>) {
    (executed.units, executed.held().map(|held| held.of(0)))
}

#[test]
fn a_reservation_is_a_take_and_its_surplus_comes_back_once() {
    let mut kept = burst_and_daily();
    assert_eq!(kept.execute(0, &reserve(4, SECOND)).units, 4);
    let refused =
        kept.execute(0, &Operation::Reserve { cost: 1.into(), hold: [2; 16], lasting: SECOND });
    assert_eq!((refused.units, refused.response.decision.status), (0, Status::Refused));
    let settled = kept.execute(0, &settle(1, &[4]));
    assert_eq!(moved(&settled), (3, Some(4)));
    assert_eq!(limits(&settled), (0, vec![(3, Some(0)), (5, Some(0))]));
    let before = kept.states.clone();
    for operation in [settle(0, &[4]), extend(1, SECOND)] {
        assert_eq!(moved(&kept.execute(0, &operation)), (0, Some(0)));
    }
    assert_eq!(kept.states, before);
}

#[test]
fn what_a_reservation_lacked_is_charged_as_far_as_it_fits() {
    let mut kept = burst_and_daily();
    kept.execute(0, &reserve(2, SECOND));
    kept.execute(0, &Operation::Block { lasting: SECOND });
    let settled = kept.execute(0, &settle(5, &[2]));
    assert_eq!(moved(&settled), (3, Some(2)));
    assert_eq!((limits(&settled).1[0].0, limits(&settled).1[1].0), (0, 1));
}

#[test]
fn from_its_end_on_a_hold_is_not_extended_or_renewed_and_its_surplus_is_spent() {
    let mut kept = burst_and_daily();
    kept.execute(0, &reserve(3, SECOND / 4));
    let before = kept.states.clone();
    let renew = Operation::Renew { hold: [1; 16], lasting: SECOND };
    for operation in [extend(1, SECOND), renew.clone()] {
        assert_eq!(kept.execute(SECOND / 4, &operation).units, 0);
    }
    let late = kept.clone().execute(SECOND / 4, &settle(1, &[3]));
    let told = SettledUnits { owed: 0.into(), is_late: true };
    assert_eq!((moved(&late), late.settled()), ((0, Some(3)), Some(&told)));
    // Nothing is known of it afterwards.
    let end = SECOND / 4 + LATE;
    assert_eq!(moved(&kept.clone().execute(end, &settle(9, &[3]))), (0, Some(0)));
    let late = kept.clone().execute(end - 1, &settle(9, &[3]));
    assert_eq!((moved(&late), late.settled().unwrap().is_late), ((6, Some(3)), true));
    assert_eq!(kept.states, before);
    assert_eq!(kept.execute(SECOND / 4 - 1, &renew).units, 1);
    assert_eq!(moved(&kept.execute(SECOND, &settle(0, &[3]))), (3, Some(3)));
}

#[test]
fn an_extension_is_a_take_under_the_same_hold() {
    let mut kept = burst_and_daily();
    kept.execute(0, &reserve(2, SECOND));
    let extended = kept.execute(0, &extend(1, 5 * SECOND));
    assert_eq!((moved(&extended), limits(&extended).1[1].0), ((1, Some(3)), 3));
    let refused = kept.execute(0, &extend(2, 90 * SECOND));
    assert_eq!(moved(&refused), (0, Some(3)), "a refusal changes nothing");
    assert_eq!(refused.response.decision.status, Status::Refused);
    let mut late = kept.clone();
    assert_eq!(moved(&late.execute(5 * SECOND, &settle(0, &[2, 1]))), (0, Some(3)));
    assert_eq!(moved(&late.execute(5 * SECOND, &settle(0, &[2, 1]))), (0, Some(0)), "once");
    assert_eq!(moved(&kept.execute(5 * SECOND - 1, &settle(0, &[2, 1]))), (3, Some(3)));
}

#[test]
fn a_surplus_is_refunded_to_the_latest_charges_first() {
    let mut kept = TestKey::of(vec![("one", window(9, SECOND)), ("two", window(99, 9 * SECOND))]);
    let at = |at: Micros| {
        [at + SECOND, 9 * SECOND]
            .map(|reset_at| ChargeRecord { at, reset_at, ..ChargeRecord::default() })
            .to_vec()
    };
    kept.execute(0, &reserve(4, 9 * SECOND));
    kept.execute(2 * SECOND, &extend(3, 9 * SECOND));
    let first = Charge { units: 4.into(), taken: at(0) };
    let second = Charge { units: 3.into(), taken: at(2 * SECOND) };
    let settle = |actual, charges: &[&Charge]| {
        let charges = charges.iter().copied().cloned().collect();
        Operation::Settle { hold: [1; 16], actual, charges }
    };
    // The window of the first charge is over under the first policy.
    let mut other = kept.clone();
    let settled = other.execute(2 * SECOND, &settle(2.into(), &[&first, &second]));
    assert_eq!(moved(&settled), (5, Some(7)));
    let remaining: Vec<_> = limits(&settled).1.iter().map(|limit| limit.0).collect();
    assert_eq!(remaining, [9, 97]);
    // A caller that does not know of the extension charges nothing twice, and gets back no more
    // than its own units.
    let settled = kept.clone().execute(2 * SECOND, &settle(6.into(), &[&first]));
    assert_eq!(moved(&settled), (1, Some(7)));
    let settled = kept.execute(2 * SECOND, &settle(0.into(), &[&first]));
    assert_eq!(moved(&settled), (4, Some(7)));
}

#[test]
fn a_reset_drops_the_holds() {
    let mut kept = burst_and_daily();
    kept.execute(0, &reserve(2, SECOND));
    kept.execute(0, &Operation::Reset);
    assert_eq!(moved(&kept.execute(0, &settle(0, &[2]))), (0, Some(0)));
}

#[test]
fn the_most_units_are_settled() {
    let most = Policy::FixedWindow(FixedWindow::new(MAX_SAFE, 1_000 * SECOND).unwrap());
    let mut kept = TestKey::of(vec![("one", most.clone()), ("two", most)]);
    kept.execute(0, &reserve(MAX_SAFE, SECOND));
    assert_eq!(moved(&kept.execute(0, &settle(0, &[MAX_SAFE]))), (MAX_SAFE, Some(MAX_SAFE)));
}
