//! The other side of the laws: a lone caller gets everything that is promised, to the microsecond.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, Outcome};
use tollgate::policy::{Policy, State};

use crate::laws::trace::START;
use crate::policy::specs::{RateSpec, any_rate, any_window};

pub(crate) fn admits(policy: &Policy, state: &mut State, now: u64) -> bool {
    policy.charge(state, now, 1) == Outcome::Admitted
}

pub(crate) fn burst_at_once(policy: &Policy, now: u64) -> (u64, State) {
    let mut state = policy.initial_state();
    let mut admitted = 0;
    while admits(policy, &mut state, now) {
        admitted += 1;
    }
    (admitted, state)
}

/// A unit takes a microsecond or longer, and the burst has room for the part of a unit by which a
/// caller with a clock of whole microseconds comes too late.
pub(crate) fn any_slow_rate() -> impl Strategy<Value = RateSpec> {
    any_rate().prop_filter("a unit takes a microsecond", |spec| {
        let no_parts = spec.period.is_multiple_of(spec.units);
        spec.period >= spec.units && (spec.burst > 1 || no_parts)
    })
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    // promise: lone-caller
    /// The burst immediately, then each further unit at the first microsecond at which it is due.
    #[test]
    fn a_lone_caller_gets_the_burst_and_every_unit_when_it_is_due(spec in any_slow_rate()) {
        for policy in [spec.gcra(), spec.token_bucket()] {
            let (admitted, mut state) = burst_at_once(&policy, START);
            prop_assert_eq!(admitted, spec.burst);
            for unit in 1..200_u128 {
                let due = (unit * u128::from(spec.period)).div_ceil(u128::from(spec.units));
                let due = START + u64::try_from(due).unwrap();
                prop_assert!(!admits(&policy, &mut state.clone(), due - 1), "unit {}", unit);
                prop_assert!(admits(&policy, &mut state, due), "unit {}", unit);
            }
        }
    }

    /// A rate may gain more than one unit per microsecond. A caller that calls every microsecond then
    /// gets all gained units, up to the burst.
    #[test]
    fn a_lone_caller_of_a_fast_rate_gets_what_is_due_each_microsecond(
        units in 1_000..1_000_000_u64,
        period in 1..1_000_u64,
        burst in 1..5_000_u64,
    ) {
        let spec = RateSpec { units, period, burst };
        for policy in [spec.gcra(), spec.token_bucket()] {
            let (admitted, mut state) = burst_at_once(&policy, START);
            prop_assert_eq!(admitted, burst);
            let mut parts = 0;
            for now in START + 1..START + 20 {
                parts = (parts + units).min(burst * period);
                prop_assert_eq!(policy.remaining(&state, now), parts / period);
                policy.charge(&mut state, now, parts / period);
                parts %= period;
            }
        }
    }

    #[test]
    fn a_lone_caller_gets_the_limit_in_every_window(spec in any_window()) {
        let policy = spec.policy();
        let mut now = START;
        let mut state = policy.initial_state();
        for _ in 0..5 {
            for unit in 0..spec.limit {
                prop_assert!(admits(&policy, &mut state, now), "unit {}", unit);
            }
            prop_assert!(!admits(&policy, &mut state, now));
            // Windows end at whole milliseconds.
            now = (now + spec.window).div_ceil(1_000) * 1_000;
            prop_assert!(!admits(&policy, &mut state.clone(), now - 1));
        }
    }

    #[test]
    fn the_whole_burst_can_be_taken_as_one_cost(rate in any_rate(), window in any_window()) {
        for policy in [rate.gcra(), rate.token_bucket(), window.policy()] {
            let mut state = policy.initial_state();
            prop_assert_eq!(policy.charge(&mut state, START, policy.capacity()), Outcome::Admitted);
            prop_assert_eq!(policy.remaining(&state, START), 0);
            prop_assert_eq!(burst_at_once(&policy, START).0, policy.capacity());
        }
    }
}
