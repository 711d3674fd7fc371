//! Both laws by policy, for calls whose costs are by policy: no policy admits more of its own units than
//! alone, and none loses units to calls that another one refuses.

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, Outcome};
use tollgate::policy::decision::Status;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{MAX_POLICIES, NamedPolicy, PolicySet};
use tollgate::policy::units::Units;
use tollgate::policy::{Policy, State};

use crate::laws::max_admission::{STEPS, TRACES, most_in_any_opened_window};
use crate::laws::min_admission::any_slow_rate;
use crate::laws::trace::{Admitted, START, Step, any_trace, excess_over_rate};
use crate::policy::meters;
use crate::policy::mix::any_pair;
use crate::policy::multi_policy::{Kept, on, reset_at, unused};
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};

fn set(policies: impl IntoIterator<Item = Policy>) -> PolicySet {
    let named = policies.into_iter().enumerate().map(|(number, policy)| NamedPolicy {
        name: number.to_string().into(),
        policy,
        key_dimension: 0,
    });
    PolicySet::multi(named.collect()).unwrap()
}

fn take(policies: &PolicySet, kept: &mut [Kept], now: u64, cost: &Units) -> Execution {
    on(policies, kept, |_| true, now, &Operation::Take { cost: cost.clone() })
}

fn is_allowed(executed: &Execution) -> bool {
    matches!(executed.response.decision.status, Status::Allowed | Status::AllowedLast)
}

/// Runs a trace of calls with costs by policy, and shows each call to `see`: its time, its cost and
/// whether it was admitted.
fn run(
    policies: &PolicySet,
    trace: &[Step],
    mut see: impl FnMut(u64, &Units, bool, &[Kept]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (mut kept, mut now, mut retry_at) = (unused(policies), START, START);
    for (index, step) in trace.iter().enumerate() {
        now = step.time.onward_from(now, reset_at(&kept), retry_at);
        let cost = meters::by_policy(policies, 64 * index + step.choice, step.cost.of(8));
        let executed = take(policies, &mut kept, now, &cost);
        retry_at = executed.response.decision.retry_at;
        see(now, &cost, is_allowed(&executed), &kept)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    #[test]
    fn no_policy_admits_more_of_its_units_than_its_law(
        rates in prop::collection::vec(any_rate(), 1..4),
        windows in prop::collection::vec(any_window(), 1..4),
        trace in any_trace(STEPS),
    ) {
        let policies = rates.iter().map(|spec: &RateSpec| spec.gcra());
        let policies = set(policies.chain(windows.iter().map(|spec: &WindowSpec| spec.policy())));
        let mut admitted: Vec<Vec<Admitted>> = vec![Vec::new(); policies.named().len()];
        run(&policies, &trace, |at, costs, is_admitted, _| {
            for (number, admitted) in admitted.iter_mut().enumerate() {
                let cost = costs.of(number);
                if is_admitted && cost > 0 {
                    admitted.push(Admitted { at, cost });
                }
            }
            Ok(())
        })?;
        let (of_rates, of_windows) = admitted.split_at(rates.len());
        for (spec, admitted) in rates.iter().zip(of_rates) {
            let excess = excess_over_rate(admitted, spec.units, spec.period, spec.burst);
            prop_assert!(excess.is_none(), "{:?}: {:?}", spec, excess);
        }
        for (spec, admitted) in windows.iter().zip(of_windows) {
            prop_assert!(most_in_any_opened_window(admitted, spec.window) <= spec.limit);
        }
    }

    /// A call is admitted exactly if each policy alone would admit its own cost, where it has been charged
    /// its own units of the admitted calls and nothing else.
    #[test]
    fn a_policy_loses_no_units_to_calls_that_others_refuse(
        pairs in prop::collection::vec(any_pair(), 1..=MAX_POLICIES),
        trace in any_trace(STEPS),
    ) {
        let policies = set(pairs.iter().map(|pair| pair.0.policy()));
        let all = || policies.named().iter().map(|named| &named.policy).enumerate();
        let mut alone: Vec<State> = all().map(|(_, policy)| policy.initial_state()).collect();
        run(&policies, &trace, |now, costs, is_admitted, kept| {
            let mut tried = alone.clone();
            let admits = |(number, policy): (usize, &Policy)| match costs.of(number) {
                0 => true,
                cost => policy.charge(&mut tried[number], now, cost) == Outcome::Admitted,
            };
            // Every policy is asked: also that behind one that refuses.
            let admits: Vec<_> = all().map(admits).collect();
            prop_assert_eq!(is_admitted, admits.iter().all(|&admits| admits));
            for (number, policy) in all() {
                if is_admitted {
                    alone[number] = tried[number].clone();
                } else if costs.of(number) > 0 {
                    policy.normalize(&mut alone[number], now);
                }
                let (own, joint) = (&alone[number], &kept[number].0);
                prop_assert_eq!(policy.remaining(own, now), policy.remaining(joint, now));
            }
            Ok(())
        })?;
    }

    /// A lone caller gets everything at once, and then each unit when it is due under its policy, while the
    /// others have nothing left.
    #[test]
    fn a_lone_caller_gets_the_units_of_each_policy(
        rate in any_slow_rate(),
        window in any_window(),
    ) {
        let policies = set([rate.gcra(), window.policy()]);
        let mut kept = unused(&policies);
        let whole = Units::from([rate.burst, window.limit]);
        prop_assert!(is_allowed(&take(&policies, &mut kept, START, &whole)));
        let unit = Units::from([1, 0]);
        prop_assert!(!is_allowed(&take(&policies, &mut kept, START, &unit)));
        for number in 1..50_u128 {
            let due = (number * u128::from(rate.period)).div_ceil(u128::from(rate.units));
            let due = START + u64::try_from(due).unwrap();
            prop_assert!(!is_allowed(&take(&policies, &mut kept.clone(), due - 1, &unit)));
            prop_assert!(is_allowed(&take(&policies, &mut kept, due, &unit)));
        }
        // Windows end at whole milliseconds.
        let ended = (START + window.window).div_ceil(1_000) * 1_000;
        let window_alone = Units::from([0, window.limit]);
        prop_assert!(!is_allowed(&take(&policies, &mut kept.clone(), ended - 1, &window_alone)));
        prop_assert!(is_allowed(&take(&policies, &mut kept, ended, &window_alone)));
    }
}
