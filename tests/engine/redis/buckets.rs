//! The buckets over Redis: equal to Rust and the oracles, alone and with other limiters in a flush.
//! Also the record of a key that begins low, and its TTL.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::Algorithm as _;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::algorithm::bucket_oracle::{ContinuousOracle, IntervalOracle};
use crate::algorithm::buckets::{BucketSpec, any_versions, leaky};
use crate::algorithm::window_oracle::RateOracle;
use crate::laws::trace::{Cost, Move, START, Step, any_trace};
use crate::policy::specs::{DAY, HOUR, RateSpec, SECOND, any_rate};
use crate::redis::flushes;
use crate::redis::server::Server;
use crate::redis::twins::{STEPS, equal, proven};

#[test]
fn leaky_bucket_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_rate(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| equal(server, RateOracle::new, &specs, leaky, &trace));
}

#[test]
fn continuous_buckets_in_lua_equal_rust_and_the_oracle() {
    let cases = (any_versions(1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, ContinuousOracle::new, &specs, BucketSpec::continuous, &trace)
    });
}

#[test]
fn interval_buckets_in_lua_equal_rust_and_the_oracle() {
    let cases = (any_versions(1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, IntervalOracle::new, &specs, BucketSpec::interval, &trace)
    });
}

fn bucket(units: u64, period: u64, capacity: u64, initial: u64, debt: u64) -> BucketSpec {
    BucketSpec { rate: RateSpec { units, period, burst: capacity }, initial, debt }
}

#[test]
fn buckets_that_go_together_are_decided_as_if_each_went_alone() {
    let policies = [
        bucket(7, SECOND, 3, 3, 0).continuous(),
        bucket(5, SECOND, 4, 1, 0).continuous(),
        RateSpec { units: 11, period: SECOND, burst: 20 }.gcra(),
        bucket(5, SECOND, 4, 4, 3).continuous(),
        bucket(2, SECOND / 3, 5, 5, 0).interval(),
        leaky(RateSpec { units: 3, period: SECOND, burst: 6 }),
        bucket(9, SECOND, 5, 0, 2).interval(),
        bucket(1, SECOND / 5, 20, 20, 4).interval(),
    ];
    flushes::proven(&policies.map(|policy| Arc::new(policy.into())));
}

fn names(policy: &Policy) -> KeyNames {
    KeyNames::new("api", &policy.clone().into())
}

fn name(policy: &Policy, key: &str) -> Vec<u8> {
    names(policy).of(Key::new(key).unwrap())
}

fn decide(
    server: &mut Server,
    policy: &Policy,
    calls: &[(&str, u64)],
    more: &[String],
) -> Vec<Decision> {
    let mut batch = CallBatch::new();
    for (key, cost) in calls {
        batch.push(&names(policy), Key::new(key).unwrap(), *cost);
    }
    let decisions = server.decide(Script::limiter(), policy, &batch, more);
    decisions.into_iter().map(Result::unwrap).collect()
}

fn take(server: &mut Server, policy: &Policy, key: &str, cost: u64) -> Decision {
    decide(server, policy, &[(key, cost)], &[]).remove(0)
}

/// The value and its expiry.
fn stored(server: &mut Server, policy: &Policy, key: &str) -> (Option<Vec<u8>>, i64) {
    let name = name(policy, key);
    (server.run(&[b"GET", &name]), server.expiry(&name))
}

fn begin_low() -> [Policy; 2] {
    let spec = bucket(1, HOUR, 10, 2, 0);
    [spec.continuous(), spec.interval()]
}

#[test]
fn a_refused_call_records_a_key_that_begins_low_at_first_sight_and_then_changes_nothing() {
    let mut server = Server::start();
    for policy in begin_low() {
        for (key, cost, status) in
            [("refused", 3, Status::Refused), ("impossible", 11, Status::Impossible)]
        {
            let seen = take(&mut server, &policy, key, cost);
            assert_eq!((seen.status, seen.remaining), (status, 2));
            let eight_hours_and_a_day = (8 * HOUR + DAY) / 1_000;
            assert_eq!(seen.reset_after_ms, eight_hours_and_a_day);
            let recorded = stored(&mut server, &policy, key);
            assert!(recorded.0.is_some());
            let ttl: i64 = server.run(&[b"PTTL", &name(&policy, key)]);
            let ttl = u64::try_from(ttl).unwrap();
            assert!(ttl > eight_hours_and_a_day - 1_000 && ttl < 2 * eight_hours_and_a_day);
            assert_eq!(take(&mut server, &policy, key, cost).status, status);
            assert_eq!(stored(&mut server, &policy, key), recorded);
        }
    }
}

#[test]
fn a_peek_of_a_key_never_seen_answers_as_if_it_were_seen_now_and_records_nothing() {
    let mut server = Server::start();
    for policy in begin_low() {
        let peeked = decide(&mut server, &policy, &[("a", 0)], &[String::from("peek")]).remove(0);
        assert_eq!((peeked.remaining, peeked.reset_after_ms), (2, 0));
        assert_eq!(stored(&mut server, &policy, "a").0, None);
    }
}

/// The fast path of the scripts writes in place: the TTL stays, and is long enough.
#[test]
fn units_of_a_key_that_begins_low_are_charged_in_place() {
    let mut server = Server::start();
    for policy in begin_low() {
        take(&mut server, &policy, "a", 11);
        let before = stored(&mut server, &policy, "a");
        for left in [1, 0] {
            let decision = take(&mut server, &policy, "a", 1);
            assert_eq!(
                (decision.remaining, decision.status),
                match left {
                    0 => (0, Status::AllowedLast),
                    _ => (left, Status::Allowed),
                }
            );
        }
        assert_eq!(take(&mut server, &policy, "a", 1).status, Status::Refused);
        let after = stored(&mut server, &policy, "a");
        assert_ne!(after.0, before.0);
        let reset = take(&mut server, &policy, "a", 1).reset_after_ms;
        let ttl: i64 = server.run(&[b"PTTL", &name(&policy, "a")]);
        assert!(u64::try_from(ttl).unwrap() >= reset, "{ttl} for {reset}");
    }
}

/// The script takes its time as an argument, and counts TTLs from the start of the trace.
fn with_ttls_from_start() -> Script {
    let script = Script::limiter().with_clock("local now = tonumber(ARGV[3])\n");
    let ttl = format!("ttl + 1000000 + math.floor((now - {START}) / 1000)");
    let ttl = format!("'PX', string.format('%.0f', {ttl})");
    script.edited(|source| source.replace("'PX', ttl", &ttl))
}

/// After each call of a trace on one key, by policies in turn, the key lives long enough.
fn lives_until_settled(server: &mut Server, policies: &[Policy], trace: &[Step]) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let (script, began) = (with_ttls_from_start(), Instant::now());
    let (mut now, mut reset_at, mut retry_at) = (START, START, START);
    for step in trace {
        now = step.time.onward_from(now, reset_at, retry_at);
        let policy = &policies[step.choice % policies.len()];
        let mut batch = CallBatch::new();
        batch.push(&names(policy), Key::new("a").unwrap(), step.cost.of(policy.capacity()));
        let more = [String::new(), now.to_string()];
        let decision = server.decide(&script, policy, &batch, &more).remove(0).unwrap();
        let Decision { reset_after_ms, retry_after_ms, .. } = decision;
        (reset_at, retry_at) = (now + reset_after_ms * 1_000, now + retry_after_ms * 1_000);
        let ttl: i64 = server.run(&[b"PTTL", &name(policy, "a")]);
        let lived = i64::try_from(began.elapsed().as_millis()).unwrap();
        let needed = i64::try_from((reset_at - START) / 1_000).unwrap();
        prop_assert!(
            reset_after_ms == 0 || ttl - 1_000_000 + lived >= needed,
            "{} of {}",
            ttl,
            needed
        );
    }
    Ok(())
}

#[test]
fn every_key_lives_until_it_is_settled() {
    let cases = (any_versions(1..3), any::<bool>(), any_trace(100));
    proven(cases, |server, (specs, continuous, trace)| {
        let policy =
            |spec: &BucketSpec| if continuous { spec.continuous() } else { spec.interval() };
        let policies: Vec<Policy> = specs.iter().map(policy).collect();
        lives_until_settled(server, &policies, &trace)
    });
}

/// A caller that takes each unit when it is due: most values are changed in place.
#[test]
fn a_key_that_is_never_full_lives_on() {
    let mut server = Server::start();
    let step = |cost| Step { time: Move::Forward(SECOND / 2), cost, choice: 0 };
    let mut trace = vec![step(Cost::LimitLess(1))];
    trace.extend([step(Cost::Units(1)); 200]);
    for initial in [10, 9] {
        let spec = bucket(1, SECOND / 2, 10, initial, 0);
        for policy in [spec.continuous(), spec.interval()] {
            lives_until_settled(&mut server, &[policy], &trace).unwrap();
        }
    }
}

/// A deploy that lowers the initial level: a stored key is kept a day longer than before.
#[test]
fn a_refused_call_keeps_longer_what_a_bucket_that_begins_full_wrote() {
    let mut server = Server::start();
    let (full, low) = (bucket(1, HOUR, 10, 10, 0), bucket(1, HOUR, 10, 2, 0));
    for (full, low) in [(full.continuous(), low.continuous()), (full.interval(), low.interval())] {
        take(&mut server, &full, "a", 9);
        let ttl_before: i64 = server.run(&[b"PTTL", &name(&low, "a")]);
        let refused = take(&mut server, &low, "a", 9);
        assert_eq!((refused.status, refused.remaining), (Status::Refused, 1));
        assert!(refused.reset_after_ms > DAY / 1_000);
        let ttl: i64 = server.run(&[b"PTTL", &name(&low, "a")]);
        assert!(ttl > ttl_before + i64::try_from(DAY / 2_000).unwrap());
        let recorded = stored(&mut server, &low, "a");
        take(&mut server, &low, "a", 9);
        assert_eq!(stored(&mut server, &low, "a"), recorded);
        take(&mut server, &full, "a", 9);
        assert_eq!(stored(&mut server, &low, "a"), recorded, "the other policy refused");
    }
}

#[test]
fn a_value_is_forty_bytes_and_one_more_if_it_lingers() {
    let mut server = Server::start();
    let full = bucket(1, HOUR, 10, 10, 3);
    for policy in [full.continuous(), full.interval()] {
        take(&mut server, &policy, "a", 1);
        take(&mut server, &policy, "a", 1);
        assert_eq!(stored(&mut server, &policy, "a").0.unwrap().len(), 40);
    }
    for policy in begin_low() {
        take(&mut server, &policy, "b", 1);
        assert_eq!(stored(&mut server, &policy, "b").0.unwrap().len(), 41);
    }
}
