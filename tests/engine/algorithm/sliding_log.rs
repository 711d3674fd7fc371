//! The sliding logs: their laws, the exactness of their decisions, and their equality with the
//! oracle.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::policy::decision::Status;
use tollgate::policy::multi_policy;
use tollgate::policy::{Policy, State};

use crate::algorithm::log_oracle::{
    LogOracle, LogSpec, any_counting_log, any_log, any_logs, any_one,
};
use crate::laws;
use crate::laws::exactness;
use crate::laws::max_admission;
use crate::laws::min_admission::{admits, burst_at_once};
use crate::laws::trace::{START, Step, any_trace, most_in_any_window};
use crate::laws::twins;

fn law(specs: &[LogSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.policy()).collect();
    let admitted = max_admission::admitted(&policies, trace);
    if let [spec] = specs {
        for &(limit, window) in spec.limits() {
            prop_assert!(most_in_any_window(&admitted, window) <= limit);
        }
    }
    let window = specs.iter().map(LogSpec::longest).min().unwrap();
    let limit = specs.iter().map(LogSpec::most).max().unwrap();
    prop_assert!(most_in_any_window(&admitted, window) <= limit);
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(max_admission::TRACES))]

    #[test]
    fn admits_at_most_the_limit_in_any_window(
        spec in any_one(),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&[spec], &trace)?;
    }

    #[test]
    fn several_admit_at_most_each_limit_in_any_of_its_windows(
        spec in any_logs(),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&[spec], &trace)?;
    }

    /// Versions of a policy, in turn on one key, call by call; some count refused calls.
    #[test]
    fn mixed_logs_admit_at_most_the_larger_limit_in_any_shorter_window(
        specs in prop::collection::vec(any_one(), 2..5),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&specs, &trace)?;
    }

    #[test]
    fn mixed_several_admit_at_most_the_larger_limit_in_any_shorter_window(
        specs in prop::collection::vec(any_logs(), 2..5),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&specs, &trace)?;
    }

    #[test]
    fn a_lone_caller_gets_the_limit_at_once_and_each_unit_back_after_a_window(
        spec in any_one(),
        gaps in prop::collection::vec(0..1_000_u64, 1..50),
    ) {
        let (limit, window) = spec.limits[0];
        let policy = spec.policy();
        prop_assert_eq!(burst_at_once(&policy, START).0, limit);
        let (mut state, mut now, mut due) = (policy.initial_state(), START, Vec::new());
        for gap in gaps {
            now += gap % window;
            if u64::try_from(due.len()).unwrap() < limit {
                prop_assert!(admits(&policy, &mut state, now));
                due.push(now + window);
            }
        }
        if !spec.count_refused && u64::try_from(due.len()).unwrap() == limit {
            for due in due {
                prop_assert!(due <= now || !admits(&policy, &mut state.clone(), due - 1));
                now = now.max(due);
                prop_assert!(admits(&policy, &mut state, now));
            }
        }
    }

    /// With a precision, each unit comes back at most one precision later.
    #[test]
    fn a_lone_caller_of_several_gets_the_smallest_limit_and_waits_a_precision_longer(
        spec in any_logs(),
        late in 0..1_000_000_u64,
    ) {
        let policy = spec.policy();
        let now = START + late;
        let (admitted, state) = burst_at_once(&policy, now);
        let &(limit, window) = spec.limits().iter().min().unwrap();
        prop_assert_eq!(admitted, limit);
        prop_assert!(!admits(&policy, &mut state.clone(), now + window - 1));
        prop_assert!(admits(&policy, &mut state.clone(), now + window + spec.precision - 1));
        let rounded = now.div_ceil(spec.precision) * spec.precision;
        prop_assert!(!admits(&policy, &mut state.clone(), rounded + window - 1));
        prop_assert!(admits(&policy, &mut state.clone(), rounded + window));
    }

    #[test]
    fn is_exact(spec in any_log(), trace in any_trace(exactness::STEPS)) {
        exactness::is_exact(&spec.policy(), &trace)?;
    }

    // promise: retry-after-new-numbers
    #[test]
    fn retries_are_exact_after_a_change_of_numbers(
        specs in (any_one(), any_one()),
        trace in any_trace(exactness::STEPS),
    ) {
        exactness::retry_after_is_exact(&[specs.0.policy(), specs.1.policy()], &trace)?;
    }

    #[test]
    fn retries_of_several_are_exact_after_a_change_of_numbers(
        specs in (any_logs(), any_logs()),
        trace in any_trace(exactness::STEPS),
    ) {
        exactness::retry_after_is_exact(&[specs.0.policy(), specs.1.policy()], &trace)?;
    }

    #[test]
    fn is_exact_counting_refused(spec in any_counting_log(), trace in any_trace(exactness::STEPS)) {
        let policy = spec.policy();
        exactness::remaining_is_the_largest_cost_that_would_be_admitted(&policy, &trace)?;
        exactness::after_the_reset_a_key_is_as_if_never_used(&policy, &trace)?;
        exactness::a_peek_answers_what_take_then_does(&policy, &trace)?;
        exactness::dropping_what_is_settled_changes_no_decision(&policy, &trace)?;
    }

    /// Refused calls use up the limit; impossible calls are not recorded.
    #[test]
    fn refused_attempts_count_and_impossible_ones_do_not(
        spec in any_counting_log(),
        trace in any_trace(exactness::STEPS),
    ) {
        let (policy, limit) = (spec.policy(), spec.limits[0].0);
        let (mut state, mut now) = (policy.initial_state(), START);
        for step in trace {
            now = step.time.onward_from(now, now, now);
            let (cost, before) = (step.cost.of(limit), state.clone());
            let left = policy.remaining(&state, now);
            let told = multi_policy::take(&policy, &mut state, now, cost).decision;
            // A state may be dropped after its reset time.
            let is_dropped = before.reset_at() <= now && state == policy.initial_state();
            prop_assert_eq!(told.status == Status::Impossible, before == state || is_dropped);
            if told.status != Status::Impossible {
                prop_assert_eq!(told.remaining, left.saturating_sub(cost) * u64::from(cost <= left));
            }
            if let State::Log(log) = &state {
                prop_assert!(u64::try_from(log.entries()).unwrap() <= limit + 16);
            }
        }
    }

    #[test]
    fn several_are_honest(spec in any_logs(), trace in any_trace(exactness::STEPS)) {
        let policy = spec.policy();
        exactness::after_the_reset_a_key_is_as_if_never_used(&policy, &trace)?;
        exactness::a_refused_call_changes_nothing(&policy, &trace)?;
        exactness::dropping_what_is_settled_changes_no_decision(&policy, &trace)?;
    }

    /// The smallest remainder of all limits is admitted, and each limit reports its own retry and
    /// reset times.
    #[test]
    fn all_that_several_limits_tell_is_so(
        spec in any_logs(),
        trace in any_trace(exactness::STEPS),
    ) {
        let policy = spec.policy();
        let (mut state, mut now) = (policy.initial_state(), START);
        for step in trace {
            now = step.time.onward_from(now, now, now);
            let cost = step.cost.of(policy.capacity());
            let told = multi_policy::take(&policy, &mut state, now, cost);
            let limits = told.limits.unwrap().limits;
            let left = limits.iter().map(|one| one.remaining).min().unwrap();
            let fits = |cost, now| laws::peek_response(&policy, &state, now, cost).decision.status;
            let allows = |status| matches!(status, Status::Allowed | Status::AllowedLast);
            prop_assert!(left == 0 || allows(fits(left, now)));
            prop_assert!(!allows(fits(left + 1, now)));
            if let State::Log(log) = &state && spec.precision > 1 {
                let most = spec.longest() / spec.precision + 2;
                prop_assert!(u64::try_from(log.entries()).unwrap() <= most);
            }
        }
    }

    /// A peek copies nothing, and reports the same as a charge on a copy.
    #[test]
    fn a_peek_of_several_tells_each_limit_as_it_stands(
        spec in any_logs(),
        trace in any_trace(exactness::STEPS),
    ) {
        let policy = spec.policy();
        let (mut state, mut now) = (policy.initial_state(), START);
        for step in trace {
            now = step.time.from(now, now, now);
            let cost = step.cost.of(policy.capacity());
            let (before, at) = (state.clone(), now);
            let peeked = laws::peek_response(&policy, &state, now, cost);
            prop_assert_eq!(&before, &state);
            let mut copy = state.clone();
            let stands = multi_policy::take(&policy, &mut copy, now, 0).limits.unwrap();
            let would = multi_policy::take(&policy, &mut state, now, cost);
            prop_assert_eq!(peeked.decision.status, would.decision.status);
            prop_assert_eq!(peeked.decision.at, at);
            if !matches!(would.decision.status, Status::Allowed | Status::AllowedLast) {
                prop_assert_eq!(peeked.decision.retry_after_ms, would.decision.retry_after_ms);
            }
            let (peeked, would) = (peeked.limits.unwrap(), would.limits.unwrap());
            for ((peeked, stands), would) in peeked.limits.iter().zip(&stands.limits).zip(&would.limits) {
                prop_assert_eq!(peeked.remaining, stands.remaining);
                prop_assert_eq!(peeked.reset_after_ms, stands.reset_after_ms);
                prop_assert_eq!(peeked.next_after_ms, stands.next_after_ms);
                prop_assert_eq!(peeked.retry_after_ms, would.retry_after_ms);
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(twins::TRACES))]

    #[test]
    fn equals_the_oracle(
        specs in prop::collection::vec(any_one(), 1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(LogOracle::new(), &specs, LogSpec::policy, &trace)?;
    }

    #[test]
    fn several_equal_the_oracle(
        specs in prop::collection::vec(any_logs(), 1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(LogOracle::new(), &specs, LogSpec::policy, &trace)?;
    }

    #[test]
    fn several_tell_what_the_oracle_tells_of_each(
        spec in any_logs(),
        trace in any_trace(twins::STEPS),
    ) {
        let (policy, mut oracle) = (spec.policy(), LogOracle::new());
        let (mut state, mut now) = (policy.initial_state(), START);
        for step in trace {
            now = step.time.from(now, now, now);
            let cost = step.cost.of(policy.capacity());
            let told = multi_policy::take(&policy, &mut state, now, cost);
            let mut limits = *told.limits.unwrap();
            limits.limits.iter_mut().for_each(|limit| (limit.mark, limit.next_after_ms) = (0, 0));
            prop_assert_eq!(limits, oracle.take_all(spec, now, cost).1);
        }
    }
}
