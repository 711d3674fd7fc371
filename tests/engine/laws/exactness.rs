//! Decisions are exact: the times they report are correct, and a refusal changes nothing.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::policy::decision::{self, Decision, Status};
use tollgate::policy::{Policy, State};

use crate::laws;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};

pub(crate) const STEPS: usize = 100;

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        any_rate().prop_map(RateSpec::gcra),
        any_rate().prop_map(RateSpec::token_bucket),
        any_window().prop_map(WindowSpec::policy),
    ]
}

/// Runs a trace and passes every decision to `check`, with the states before and after it.
fn each_decision(
    policies: &[Policy],
    trace: &[Step],
    mut check: impl FnMut(&Policy, &State, &State, u64, Decision) -> TestCaseResult,
) -> TestCaseResult {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policies[0].initial_state();
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        let before = state.clone();
        let decision = decision::take(policy, &mut state, now, cost);
        retry_at = now + decision.retry_after_ms * 1_000;
        check(policy, &before, &state, cost, decision)?;
    }
    Ok(())
}

fn would_admit(policy: &Policy, state: &State, now: u64, cost: u64) -> bool {
    let status = decision::take(policy, &mut state.clone(), now, cost).status;
    matches!(status, Status::Allowed | Status::AllowedLast)
}

/// Also after a change of numbers: the policies take turns.
pub(crate) fn retry_after_is_exact(policies: &[Policy], trace: &[Step]) -> TestCaseResult {
    each_decision(policies, trace, |policy, _, after, cost, decision| {
        if decision.status == Status::Refused {
            let retry_at = decision.at + decision.retry_after_ms * 1_000;
            prop_assert!(decision.retry_after_ms > 0);
            prop_assert!(would_admit(policy, after, retry_at, cost));
            prop_assert!(!would_admit(policy, after, retry_at - 1_000, cost));
            let exactly = policy.retry_at(after, decision.at, cost);
            prop_assert_eq!(decision.retry_at, exactly);
        }
        Ok(())
    })
}

/// Everything that a decision reports about one policy is correct, and a call that is not admitted
/// changes nothing.
pub(crate) fn is_exact(policy: &Policy, trace: &[Step]) -> TestCaseResult {
    remaining_is_the_largest_cost_that_would_be_admitted(policy, trace)?;
    the_next_unit_comes_when_it_is_told(policy, trace)?;
    after_the_reset_a_key_is_as_if_never_used(policy, trace)?;
    a_refused_call_changes_nothing(policy, trace)?;
    a_peek_answers_what_take_then_does(policy, trace)?;
    dropping_what_is_settled_changes_no_decision(policy, trace)
}

pub(crate) fn remaining_is_the_largest_cost_that_would_be_admitted(
    policy: &Policy,
    trace: &[Step],
) -> TestCaseResult {
    each_decision(std::slice::from_ref(policy), trace, |policy, _, after, _, decision| {
        let Decision { at, remaining, .. } = decision;
        prop_assert!(remaining == 0 || would_admit(policy, after, at, remaining));
        prop_assert!(!would_admit(policy, after, at, remaining + 1));
        Ok(())
    })
}

pub(crate) fn the_next_unit_comes_when_it_is_told(
    policy: &Policy,
    trace: &[Step],
) -> TestCaseResult {
    each_decision(std::slice::from_ref(policy), trace, |policy, _, after, _, decision| {
        let Decision { at, remaining, next_after_ms, .. } = decision;
        let next_at = at + next_after_ms * 1_000;
        prop_assert_eq!(next_after_ms == 0, remaining > 0);
        prop_assert!(would_admit(policy, after, next_at, 1));
        prop_assert!(next_after_ms == 0 || !would_admit(policy, after, next_at - 1_000, 1));
        Ok(())
    })
}

pub(crate) fn after_the_reset_a_key_is_as_if_never_used(
    policy: &Policy,
    trace: &[Step],
) -> TestCaseResult {
    each_decision(std::slice::from_ref(policy), trace, |policy, _, after, _, decision| {
        let reset_at = decision.at + decision.reset_after_ms * 1_000;
        let then = laws::peek(policy, after, reset_at, 0);
        prop_assert_eq!(then, laws::peek(policy, &policy.initial_state(), reset_at, 0));
        let exactly = policy.reset_at(after, decision.at).max(decision.at);
        prop_assert_eq!(decision.reset_at, exactly);
        if decision.reset_after_ms > 0 {
            let earlier = laws::peek(policy, after, reset_at - 1_000, 0);
            prop_assert!(earlier.reset_after_ms > 0);
        }
        Ok(())
    })
}

pub(crate) fn a_refused_call_changes_nothing(policy: &Policy, trace: &[Step]) -> TestCaseResult {
    each_decision(std::slice::from_ref(policy), trace, |policy, before, after, _, decision| {
        let refused = matches!(decision.status, Status::Refused | Status::Impossible);
        // A state may be dropped after its reset time.
        let is_dropped = before.reset_at() <= decision.at && *after == policy.initial_state();
        prop_assert_eq!(refused, before == after || is_dropped);
        Ok(())
    })
}

pub(crate) fn a_peek_answers_what_take_then_does(
    policy: &Policy,
    trace: &[Step],
) -> TestCaseResult {
    each_decision(std::slice::from_ref(policy), trace, |policy, before, _, cost, decision| {
        let peeked = laws::peek(policy, before, decision.at, cost);
        prop_assert_eq!(peeked.status, decision.status);
        prop_assert_eq!(peeked.retry_after_ms, decision.retry_after_ms);
        let as_it_stands = laws::peek(policy, before, decision.at, 0);
        prop_assert_eq!(peeked.remaining, as_it_stands.remaining);
        prop_assert_eq!(peeked.reset_after_ms, as_it_stands.reset_after_ms);
        Ok(())
    })
}

/// Expiry is only garbage collection: dropping a state after its reset time changes no decision.
pub(crate) fn dropping_what_is_settled_changes_no_decision(
    policy: &Policy,
    trace: &[Step],
) -> TestCaseResult {
    let mut swept = policy.initial_state();
    each_decision(std::slice::from_ref(policy), trace, |policy, _, _, cost, decision| {
        if swept.reset_at() <= decision.at {
            swept = policy.initial_state();
        }
        let same = decision::take(policy, &mut swept, decision.at, cost);
        prop_assert_eq!(same, decision);
        Ok(())
    })
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn retries_of_rates_are_exact(
        specs in (any_rate(), any_rate()),
        trace in any_trace(STEPS),
    ) {
        retry_after_is_exact(&[specs.0.gcra(), specs.1.gcra()], &trace)?;
    }

    // promise: retry-is-exact
    #[test]
    fn retries_of_windows_are_exact(
        specs in (any_window(), any_window()),
        trace in any_trace(STEPS),
    ) {
        retry_after_is_exact(&[specs.0.policy(), specs.1.policy()], &trace)?;
    }

    #[test]
    fn rates_and_windows_are_honest(policy in any_policy(), trace in any_trace(STEPS)) {
        is_exact(&policy, &trace)?;
    }
}
