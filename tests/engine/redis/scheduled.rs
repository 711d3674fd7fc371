//! Scheduled reservations: under rates of all kinds, in several versions, among all other
//! operations and with clock steps, the Lua script equals `execute` in every field.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, MAX_WAIT};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::multi_policy::Response;
use tollgate::policy::operation::{Operation, ScheduledReservations};
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{CallBatch, KeyNames};

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::meters;
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};
use crate::redis::operations::{KEYS, Model, in_memory, taken};
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

/// A policy of each kind, by number, with a limit; buckets may begin low.
fn rate(kind: usize, limit: u64, full: bool) -> Policy {
    let rate = RateSpec { units: limit, period: SECOND, burst: limit };
    match kind {
        0 => RateSpec { units: 7, period: SECOND, burst: limit }.gcra(),
        1 => RateSpec { units: limit, period: HOUR, burst: 3 }.gcra(),
        2 => leaky(RateSpec { units: 3, ..rate }),
        3 => BucketSpec { rate, initial: if full { limit } else { limit / 2 }, debt: limit % 3 }
            .continuous(),
        _ => BucketSpec { rate, initial: limit, debt: 2 }.continuous(),
    }
}

/// One to three rates, by one or two key dimensions, in two versions with different numbers.
fn any_versions() -> impl Strategy<Value = [PolicySet; 2]> {
    let named = (0..5_usize, 2_u64..20, 2_u64..20, 0..2_usize);
    prop::collection::vec(named, 1..4).prop_map(|kinds| {
        let first = kinds[0].3;
        let version = |full: bool| {
            let named = kinds.iter().zip(["a", "b", "c"]).map(|(kind, name)| NamedPolicy {
                name: name.into(),
                // Some versions differ only in the initial level of a bucket.
                policy: rate(kind.0, if full && kind.2 > 9 { kind.2 } else { kind.1 }, full),
                // The first key dimension that is used is number 0.
                key_dimension: usize::from(kind.3 != first),
            });
            PolicySet::multi(named.collect()).unwrap()
        };
        [version(false), version(true)]
    })
}

/// An operation, and the index of its numbers.
type Deed = (usize, usize);

/// A booking, and its keys.
type Booked = (Vec<Option<usize>>, ScheduledReservations);

fn operation(
    step: Step,
    (kind, number): Deed,
    policies: &PolicySet,
    told: &[Response],
    booked: &[Booked],
    steps_back: bool,
) -> Operation {
    let units = step.cost.of(policies.named()[0].policy.capacity()).max(1);
    let cost = || meters::chosen(policies, step.choice + number, units);
    let lasting = [0, 30_000, SECOND, 20 * SECOND][number % 4];
    match kind {
        0..=7 => {
            let max_wait = [MAX_WAIT, MAX_WAIT, 2 * MAX_WAIT, SECOND, 0][number % 5];
            Operation::Schedule { cost: cost(), max_wait }
        }
        8..=13 => {
            let booked = booked.iter().rev().nth(number / 4);
            Operation::CancelScheduled {
                scheduled: booked.map(|booked| booked.1.clone()).unwrap_or_default(),
            }
        }
        14 if !told.is_empty() => {
            let told = &told[told.len() - 1 - step.choice % 3 % told.len()];
            Operation::Refund {
                units: units.into(),
                taken: taken(policies, told, &units.into(), &0.into()),
            }
        }
        15 => Operation::TakeUpTo { units },
        16 => Operation::Penalize { units: cost() },
        17 if number == 0 => Operation::Reset,
        18 if !steps_back => Operation::Block { lasting },
        19 if !steps_back => Operation::Unblock,
        20 if !steps_back => {
            let own = |(index, named): (usize, &NamedPolicy)| {
                let other = (0..5)
                    .map(|kind| rate(kind, 2 + (units + 3 * lasting) % 9, units.is_multiple_of(2)));
                let mut other = other.filter(|other| other.tag() == named.policy.tag());
                (index != number).then(|| Arc::new(other.next().unwrap()))
            };
            let own = policies.named().iter().enumerate().map(own).collect();
            Operation::Override { policies: own, lasting }
        }
        21 if !steps_back => Operation::ClearOverride,
        _ => Operation::Take { cost: cost() },
    }
}

fn equal(
    server: &mut Server,
    versions: &[PolicySet; 2],
    trace: &[(Step, Deed)],
    steps_back: bool,
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let script = lasting();
    let names = KeyNames::new("twins", &versions[0]);
    let (mut model, mut told, mut booked) =
        (Model::default(), Vec::<Response>::new(), Vec::<Booked>::new());
    let mut log: Vec<String> = Vec::new();
    let (mut now, mut reset_at, mut retry_at) = (START, START, START);
    for steps in trace.chunk_by(|_, (next, _)| !next.choice.is_multiple_of(3)) {
        let (first, (_, version)) = steps[0];
        now = match steps_back {
            true => first.time.from(now, reset_at, retry_at),
            false => first.time.onward_from(now, reset_at, retry_at),
        };
        let policies = &versions[usize::from(version == 0)];
        let (mut batch, mut expected) = (CallBatch::new(), Vec::new());
        for &(step, deed) in steps {
            let asked = operation(step, deed, policies, &told, &booked, steps_back);
            let mut keys: Vec<_> = (0..policies.key_dimensions())
                .map(|key_dimension| Some((step.choice >> key_dimension) % KEYS))
                .collect();
            if let Operation::CancelScheduled { .. } = asked
                && deed.1 % 4 > 0
                && let Some((of, _)) = booked.iter().rev().nth(deed.1 / 4)
            {
                keys.clone_from(of);
            }
            let books =
                matches!(asked, Operation::Schedule { .. } | Operation::CancelScheduled { .. });
            let whole = policies.key_dimensions() > 1 && keys.iter().all(Option::is_some);
            if books && deed.1 == 7 && whole {
                keys[step.choice / 16 % 2] = None;
            }
            let texts: Vec<_> = keys.iter().map(|key| key.map(|key| key.to_string())).collect();
            let named =
                texts.iter().map(|text| text.as_deref().map(|text| Key::new(text).unwrap()));
            let named: Vec<_> = named.collect();
            batch.push_operation(&names, &named, None, asked.clone());
            let executed = in_memory(&mut model, policies, &keys, now, &asked);
            if !executed.scheduled.is_empty() {
                booked.push((keys.clone(), executed.scheduled.clone()));
            }
            if matches!(asked, Operation::Take { .. } | Operation::Schedule { .. }) {
                told.push(executed.response.clone());
            }
            let millis = |after: u64| now + after * 1_000;
            retry_at = millis(executed.response.decision.retry_after_ms) + executed.units % 2;
            reset_at = millis(executed.response.decision.reset_after_ms);
            let (decision, units) = (executed.response.decision, executed.units);
            log.push(format!("{now}: {keys:?} {asked:?}: {decision:?} {units}"));
            expected.push((asked, executed));
        }
        let more = [String::new(), now.to_string()];
        let executed = server.execute(script, policies, &batch, &more);
        for (one, (asked, expected)) in executed.into_iter().zip(expected) {
            let last = &log[log.len().saturating_sub(12)..];
            prop_assert_eq!(one, Ok(expected), "{:?} at {}, after {:#?}", asked, now, last);
        }
    }
    Ok(())
}

fn any_steps() -> impl Strategy<Value = Vec<(Step, Deed)>> {
    let deeds = prop::collection::vec((0..28_usize, 0..8_usize), 200);
    (any_trace(200), deeds).prop_map(|(trace, deeds)| trace.into_iter().zip(deeds).collect())
}

#[test]
fn bookings_in_lua_equal_rust() {
    let cases = (any_versions(), any_steps());
    proven(cases, |server, (versions, trace)| equal(server, &versions, &trace, false));
}

#[test]
fn bookings_in_lua_equal_rust_also_when_the_clock_steps_back() {
    let cases = (any_versions(), any_steps());
    proven(cases, |server, (versions, trace)| equal(server, &versions, &trace, true));
}

#[test]
fn nothing_is_booked_under_what_is_no_rate() {
    let mut server = Server::start();
    let policies = [rate(0, 5, true), WindowSpec { limit: 5, window: SECOND }.policy()];
    let named = policies.into_iter().zip(["a", "b"]).map(|(policy, name)| NamedPolicy {
        name: name.into(),
        policy,
        key_dimension: 0,
    });
    let policies = PolicySet::multi(named.collect()).unwrap();
    let names = KeyNames::new("twins", &policies);
    let mut model = Model::default();
    let mut batch = CallBatch::new();
    let keys = [Some(Key::new("0").unwrap())];
    let asked = [
        Operation::Schedule { cost: 1.into(), max_wait: SECOND },
        Operation::Take { cost: 2.into() },
    ];
    for asked in &asked {
        batch.push_operation(&names, &keys, None, asked.clone());
    }
    let more = [String::new(), START.to_string()];
    let executed = server.execute(lasting(), &policies, &batch, &more);
    for (one, asked) in executed.into_iter().zip(&asked) {
        assert_eq!(one, Ok(in_memory(&mut model, &policies, &[Some(0)], START, asked)));
    }
}
