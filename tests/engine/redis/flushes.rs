//! The calls of several limiters in one flush are decided as if each call were sent alone.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use redis::Value as RedisReply;
use tollgate::algorithm::{Algorithm as _, SlidingLog};
use tollgate::key::Key;
use tollgate::policy::decision::{self, Decision};
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::policy::units::Units;
use tollgate::policy::{Policy, State};
use tollgate::redis::{CallBatch, CallFailure, Flush, KeyNames, ScriptCall, ScriptResult};

use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::laws::trace::START;
use crate::policy::multi_policy::{on, unused};
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};
use crate::redis::server::{Server, value};
use crate::redis::twins::lasting;

const KEYS: usize = 3;

fn policies() -> Vec<Arc<PolicySet>> {
    let rate = |units, period, burst| RateSpec { units, period, burst };
    let window = |limit, window| WindowSpec { limit, window }.policy();
    let policies = vec![
        rate(7, SECOND, 3).gcra(),
        window(4, SECOND),
        rate(1_001, SECOND, 20).gcra(),
        rate(5, SECOND, 5).token_bucket(),
        window(20_000, HOUR),
        window(2, 10_000),
        CounterSpec { limit: 5, window_ms: 1_000 }.policy(),
        SlidingSpec { limit: 6, window: SECOND, buckets: 10 }.list(),
        SlidingSpec { limit: 900, window: 60_000, buckets: 100 }.list(),
        SlidingSpec { limit: 6, window: SECOND, buckets: 5 }.hash(),
        Policy::SlidingLog(SlidingLog::new(7, SECOND, false).unwrap()),
        CounterSpec { limit: 900, window_ms: 60 }.policy(),
    ];
    policies.into_iter().map(|policy| Arc::new(policy.into())).collect()
}

/// One call: its limiter, its key and its cost.
type Step = (usize, usize, u64);

/// The time since the flush before, and the calls.
fn any_round(limiters: usize) -> impl Strategy<Value = (u64, Vec<Step>)> {
    let cost = prop_oneof![8 => Just(1_u64), 1 => 2_u64..25];
    let step = (0..limiters, 0..KEYS, cost);
    (0_u64..400_000, prop::collection::vec(step, 1..40))
}

pub(super) fn run(server: &mut Server, job: &ScriptCall, now: u64) -> ScriptResult {
    let mut command = redis::cmd("EVAL");
    command.arg(lasting().source()).arg(job.keys.len());
    for name in job.keys.iter() {
        command.arg(name);
    }
    command.arg(&job.arguments[0]).arg("").arg(now.to_string());
    match command.query(&mut server.connection).unwrap() {
        RedisReply::Array(values) => Ok(values.into_iter().map(value).collect()),
        other => panic!("a script returns a list, not {other:?}"),
    }
}

fn holds(
    server: &mut Server,
    policies: &[Arc<PolicySet>],
    rounds: &[(u64, Vec<Step>)],
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let mut states: HashMap<(usize, usize), State> = HashMap::new();
    let mut now = START;
    for (pause, steps) in rounds {
        now += pause;
        let (mut round, mut expected) = (Flush::default(), Vec::<Decision>::new());
        for (limiter, policies) in policies.iter().enumerate() {
            let policy = policies.alone().unwrap();
            let names = KeyNames::new(&format!("limiter-{limiter}"), policies);
            let mut batch = CallBatch::new();
            for &(_, key, cost) in steps.iter().filter(|step| step.0 == limiter) {
                batch.push(&names, Key::new(&format!("key {key}")).unwrap(), cost);
                let state = states.entry((limiter, key)).or_insert_with(|| policy.initial_state());
                expected.push(decision::take(policy, state, now, cost));
            }
            if !batch.is_empty() {
                round.push(Arc::clone(policies), batch);
            }
        }
        let jobs = round.script_calls();
        prop_assert_eq!(jobs.len(), 1);
        let answers: Vec<_> = jobs.iter().map(|job| run(server, job, now)).collect();
        let mut decisions: Vec<Result<Decision, CallFailure>> = Vec::new();
        round.complete(&answers, |one| decisions.push(one.map(|one| one.response.decision)));
        let expected: Vec<_> = expected.into_iter().map(Ok).collect();
        prop_assert_eq!(decisions, expected);
    }
    Ok(())
}

/// Random flushes of calls on limiters of these policies.
pub(super) fn proven(policies: &[Arc<PolicySet>]) {
    let server = std::cell::RefCell::new(Server::start());
    let mut runner = TestRunner::new(crate::cases::cases(40));
    let rounds = prop::collection::vec(any_round(policies.len()), 1..30);
    let outcome = runner.run(&rounds, |rounds| holds(&mut server.borrow_mut(), policies, &rounds));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn limiters_that_go_together_are_decided_as_if_each_went_alone() {
    proven(&policies());
}

/// Several policies that all have a fast path: windows with a packed and an unpacked count among them.
fn joint_policies() -> PolicySet {
    let rate = |units, burst| RateSpec { units, period: SECOND, burst };
    let policies = [
        rate(7, 30).gcra(),
        WindowSpec { limit: 40, window: SECOND }.policy(),
        WindowSpec { limit: 20_000, window: HOUR }.policy(),
        CounterSpec { limit: 50, window_ms: 1_000 }.policy(),
        rate(5, 25).token_bucket(),
    ];
    let named = policies.into_iter().enumerate().map(|(number, policy)| NamedPolicy {
        name: number.to_string().into(),
        policy,
        key_dimension: 0,
    });
    PolicySet::multi(named.collect()).unwrap()
}

/// Calls with a cost for each policy, on several keys. Some have one cost for all policies, and some
/// have no cost under a policy.
#[test]
fn calls_with_costs_by_policy_are_decided_as_if_each_went_alone() {
    let policies = joint_policies();
    let names = KeyNames::new("joint", &policies);
    let own = prop_oneof![6 => 1_u64..8, 1 => 0_u64..2, 1 => 8_u64..60];
    let cost = prop_oneof![
        4 => prop::collection::vec(own, policies.named().len()).prop_map(Units::from),
        1 => (1_u64..3).prop_map(Units::from),
    ];
    let flush = (0_u64..400_000, prop::collection::vec((0..KEYS, cost), 1..6));
    let server = std::cell::RefCell::new(Server::start());
    let outcome = TestRunner::new(crate::cases::cases(60)).run(
        &prop::collection::vec(flush, 1..30),
        |flushes| {
            let server = &mut *server.borrow_mut();
            let _: () = server.run(&[b"FLUSHALL"]);
            let mut kept = [(); KEYS].map(|()| unused(&policies));
            let mut now = START;
            for (pause, calls) in flushes {
                now += pause;
                let (mut batch, mut flush) = (CallBatch::new(), Flush::default());
                let mut expected = Vec::new();
                for (key, cost) in calls {
                    let take = Operation::Take { cost };
                    expected.push(Ok(on(&policies, &mut kept[key], |_| true, now, &take)));
                    let key = format!("key {key}");
                    batch.push_operation(&names, &[Key::new(&key).ok()], None, take);
                }
                flush.push(Arc::new(policies.clone()), batch);
                let jobs = flush.script_calls();
                let answers: Vec<_> = jobs.iter().map(|job| run(server, job, now)).collect();
                let mut executed: Vec<Result<Execution, CallFailure>> = Vec::new();
                flush.complete(&answers, |one| executed.push(one));
                prop_assert_eq!(executed, expected);
            }
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
