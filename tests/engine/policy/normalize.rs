//! The three steps of a charge, for decisions under several policies: a state is normalized, each
//! policy returns the outcome of the cost, and the cost is charged if all policies admit it.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, KeyState as _, Outcome};

use crate::laws::trace::{START, any_trace};
use crate::policy::every_policy::any_policies;

const TRACES: u32 = 1_500;
const STEPS: usize = 120;

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    /// With clock steps both ways, and numbers that change from call to call.
    #[test]
    fn to_meet_to_ask_and_to_charge_is_a_charge(
        policies in any_policies(),
        trace in any_trace(STEPS),
    ) {
        let (mut now, mut retry_at) = (START, START);
        let mut state = policies[0].initial_state();
        for step in &trace {
            let policy = &policies[step.choice % policies.len()];
            now = step.time.from(now, state.reset_at(), retry_at);
            let cost = step.cost.of(policy.capacity());
            let mut met = state.clone();
            policy.normalize(&mut met, now);
            let mut again = met.clone();
            policy.normalize(&mut again, now);
            prop_assert_eq!(&again, &met, "met twice at {}", now);
            let asked = policy.outcome(&met, now, cost);
            prop_assert_eq!(policy.outcome(&met, now, 0), Outcome::Admitted);

            let outcome = policy.charge(&mut state, now, cost);
            prop_assert_eq!(asked, outcome, "{} at {}", cost, now);
            if outcome == Outcome::Admitted || policy.counts_refused() {
                prop_assert_eq!(policy.charge(&mut met, now, cost), outcome);
            }
            prop_assert_eq!(&met, &state, "{} at {}: {:?}", cost, now, outcome);
            if outcome == Outcome::Refused {
                retry_at = policy.retry_at(&state, now, cost);
            }
        }
    }

    /// So a binary search finds the largest cost that fits, also under several policies.
    #[test]
    fn what_remains_is_the_largest_cost_whose_outcome_is_admitted(
        policies in any_policies(),
        trace in any_trace(STEPS),
        ask in 0_f64..1.0,
    ) {
        let (mut now, mut retry_at) = (START, START);
        let mut state = policies[0].initial_state();
        for step in &trace {
            let policy = &policies[step.choice % policies.len()];
            now = step.time.from(now, state.reset_at(), retry_at);
            policy.normalize(&mut state, now);
            let remaining = policy.remaining(&state, now);
            let admits = |cost| policy.outcome(&state, now, cost) == Outcome::Admitted;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "any cost will do")]
            let less = (remaining as f64 * ask) as u64;
            prop_assert!(admits(less.min(remaining)) && admits(remaining));
            prop_assert!(!admits(remaining + 1) && !admits(remaining + 2 + less));
            let cost = step.cost.of(policy.capacity());
            if policy.charge(&mut state, now, cost) == Outcome::Refused {
                retry_at = policy.retry_at(&state, now, cost);
            }
        }
    }
}
