//! Memory = Redis = oracle: the same traces through the Rust functions, the Lua twins on a real
//! server and the exact oracle, in batches of calls on few keys, with clock steps both ways, calls
//! around expiry, huge idle gaps, impossible costs and changed numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::key::Key;
use tollgate::policy::decision;
use tollgate::policy::{Policy, State};
use tollgate::redis::{CLOCK, CallBatch, KeyNames, Script};

use crate::algorithm::window_oracle::{Oracle, RateOracle, WindowOracle};
use crate::laws::trace::{START, Step, any_trace};
use crate::laws::twins::told;
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};
use crate::redis::Server;

/// 80 traces of 300 steps: 24,000 steps for each algorithm.
const TRACES: u32 = 80;
pub(crate) const STEPS: usize = 300;
const KEYS: usize = 4;

/// The replacement of a TTL: it stores the key's expiry in a hash, and returns a TTL that outlives
/// the test.
const EXPIRIES: &str = "
local function lasting(name, ttl)
  redis.call('HSET', 'expiries', name, string.format('%.0f', now + ttl * 1000))
  return '10000000000000'
end
local function left_of(name)
  local expires_at = redis.call('HGET', 'expiries', name)
  return expires_at and (expires_at - now) / 1000 or -2
end
";

/// The script with the time as its third argument, and with keys that outlive every trace. It is
/// made once, because editing and hashing it take longer than many calls.
pub(crate) fn lasting() -> &'static Script {
    static LASTING: LazyLock<Script> = LazyLock::new(|| {
        let script = Script::limiter();
        assert!(script.source().starts_with(CLOCK));
        let script = script.with_clock(&format!("local now = tonumber(ARGV[3])\n{EXPIRIES}"));
        script.edited(|source| {
            source
                .replace("call('PTTL', name)", "left_of(name)")
                .replace("name, text, 'PX', ttl", "name, text, 'PX', lasting(name, ttl)")
                .replace("'PX', ttl", "'PX', lasting(KEYS[key], ttl)")
                .replace("'PEXPIRE', name, ttl", "'PEXPIRE', name, lasting(name, ttl)")
                .replace(
                    "'PEXPIRE', KEYS[key], ttl",
                    "'PEXPIRE', KEYS[key], lasting(KEYS[key], ttl)",
                )
        })
    });
    &LASTING
}

/// Every key would live at least until its reset time: units that Redis drops too early are
/// admitted twice.
fn check_expiries<'a>(
    server: &mut Server,
    names: &KeyNames,
    states: impl Iterator<Item = (usize, &'a State)>,
    now: u64,
) -> TestCaseResult {
    let expiries: HashMap<Vec<u8>, u64> = server.run(&[b"HGETALL", b"expiries"]);
    for (key, state) in states.filter(|(_, state)| state.reset_at() > now) {
        let expires_at = expiries.get(&names.of(Key::new(&key.to_string()).unwrap()));
        let ends_at = state.reset_at();
        prop_assert!(
            expires_at.is_some_and(|at| *at >= ends_at),
            "{:?} of {}",
            expires_at,
            ends_at
        );
    }
    Ok(())
}

/// Up to eight calls at the same time.
fn batches(trace: &[Step]) -> impl Iterator<Item = &[Step]> {
    trace.chunk_by(|_, next| !next.choice.is_multiple_of(3))
}

/// Runs a trace through memory, Redis and the oracle.
pub(crate) fn equal<O: Oracle>(
    server: &mut Server,
    new_oracle: fn() -> O,
    specs: &[O::Spec],
    policy: impl Fn(O::Spec) -> Policy,
    trace: &[Step],
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let policies: Vec<Policy> = specs.iter().map(|&spec| policy(spec)).collect();
    let script = lasting();
    let names = KeyNames::new("twins", &policies[0].clone().into());
    let mut states: HashMap<usize, State> = HashMap::new();
    let mut oracles: HashMap<usize, O> = HashMap::new();
    let (mut now, mut reset_at, mut retry_at) = (START, START, START);
    for steps in batches(trace) {
        now = steps[0].time.from(now, reset_at, retry_at);
        let version = steps[0].choice / 16 % specs.len();
        let policy = &policies[version];
        let calls: Vec<_> = steps
            .iter()
            .map(|step| (step.choice % KEYS, step.cost.of(policy.capacity())))
            .collect();
        let mut batch = CallBatch::new();
        for (key, cost) in &calls {
            batch.push(&names, Key::new(&key.to_string()).unwrap(), *cost);
        }
        batch.set_optimistic(steps[0].choice % 2 == 0);
        let decisions = server.decide(script, policy, &batch, &[String::new(), now.to_string()]);
        for ((key, cost), decision) in calls.into_iter().zip(decisions) {
            let decision = decision.unwrap();
            let state = states.entry(key).or_insert_with(|| policy.initial_state());
            prop_assert_eq!(decision, decision::take(policy, state, now, cost), "memory");
            let oracle = oracles.entry(key).or_insert_with(new_oracle);
            prop_assert_eq!(told(decision), oracle.take(specs[version], now, cost), "oracle");
            (reset_at, retry_at) = (state.reset_at(), now + decision.retry_after_ms * 1_000);
        }
        check_expiries(server, &names, states.iter().map(|(key, state)| (*key, state)), now)?;
    }
    Ok(())
}

/// Runs the property with one server for all of its cases.
pub(crate) fn proven<S: Strategy>(
    cases: S,
    mut holds: impl FnMut(&mut Server, S::Value) -> TestCaseResult,
) {
    let server = std::cell::RefCell::new(Server::start());
    let holds = std::cell::RefCell::new(&mut holds);
    let mut runner = TestRunner::new(crate::cases::cases(TRACES));
    let outcome = runner.run(&cases, |case| holds.borrow_mut()(&mut server.borrow_mut(), case));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn gcra_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_rate(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, RateOracle::new, &specs, RateSpec::gcra, &trace)
    });
}

#[test]
fn token_bucket_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_rate(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, RateOracle::new, &specs, RateSpec::token_bucket, &trace)
    });
}

#[test]
fn fixed_window_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_window(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, WindowOracle::new, &specs, WindowSpec::policy, &trace)
    });
}
