//! The engine equals the oracle in every field, over random traces with clock steps both ways,
//! calls around expiry, idle gaps of years, impossible costs and changed numbers.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::policy::decision::{self, Decision, Status};
use tollgate::policy::{Policy, State};

use crate::algorithm::window_oracle::{Expected, Oracle, RateOracle, WindowOracle};
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};

/// 400 traces of 300 steps: 120,000 steps for each algorithm.
pub(crate) const TRACES: u32 = 400;
pub(crate) const STEPS: usize = 300;

/// The decision that an oracle can expect.
pub(crate) fn told(decision: Decision) -> Expected {
    // Of an admitted call it is the mark, which the oracles do not know.
    let is_allowed = matches!(decision.status, Status::Allowed | Status::AllowedLast);
    Expected {
        status: decision.status,
        limit: decision.capacity,
        remaining: decision.remaining,
        retry_after_ms: if is_allowed { 0 } else { decision.retry_after_ms },
        reset_after_ms: decision.reset_after_ms,
    }
}

/// Runs a trace through the engine and the oracle and compares every field. The numbers change
/// about every forty steps.
pub(crate) fn equals<O: Oracle>(
    mut oracle: O,
    specs: &[O::Spec],
    policy: impl Fn(O::Spec) -> Policy,
    trace: &[Step],
) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|&spec| policy(spec)).collect();
    let (mut current, mut now, mut retry_at) = (0, START, START);
    let mut state: State = policies[0].initial_state();
    for (index, step) in trace.iter().enumerate() {
        if step.choice == 0 {
            current = (current + 1) % specs.len();
        }
        now = step.time.from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policies[current].capacity());
        let decision = decision::take(&policies[current], &mut state, now, cost);
        let expected = oracle.take(specs[current], now, cost);
        prop_assert_eq!(told(decision), expected, "step {}: {:?} at {}", index, step, now);
        retry_at = now + decision.retry_after_ms * 1_000;
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    #[test]
    fn gcra_equals_the_oracle(
        specs in prop::collection::vec(any_rate(), 1..4),
        trace in any_trace(STEPS),
    ) {
        equals(RateOracle::new(), &specs, RateSpec::gcra, &trace)?;
    }

    #[test]
    fn token_bucket_equals_the_oracle(
        specs in prop::collection::vec(any_rate(), 1..4),
        trace in any_trace(STEPS),
    ) {
        equals(RateOracle::new(), &specs, RateSpec::token_bucket, &trace)?;
    }

    #[test]
    fn fixed_window_equals_the_oracle(
        specs in prop::collection::vec(any_window(), 1..4),
        trace in any_trace(STEPS),
    ) {
        equals(WindowOracle::new(), &specs, WindowSpec::policy, &trace)?;
    }
}
