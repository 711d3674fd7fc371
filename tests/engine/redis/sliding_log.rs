//! The sliding logs in Redis: equal to the embedded store and to the oracle, and cheap for other
//! clients of the server.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::{Algorithm as _, Preview};
use tollgate::key::Key;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::multi_policy;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::policy::{Policy, State};
use tollgate::redis::{CallBatch, CallError, KeyNames, Script};

use crate::algorithm::log_oracle::{LogOracle, LogSpec, any_logs, any_one};
use crate::laws::trace::{START, any_trace};
use crate::policy::specs::{DAY, HOUR, MILLI, SECOND};
use crate::redis::operations::taken;
use crate::redis::server::Server;
use crate::redis::twins::{STEPS, equal, lasting, proven};

const MOST: u64 = 100_000;

fn policies() -> Vec<Policy> {
    let specs = [
        LogSpec::one(10, HOUR, false),
        LogSpec::one(10, 5 * MILLI, false),
        LogSpec::one(10, HOUR, true),
        LogSpec::one(10, 50_000 * DAY, false),
        LogSpec::several(&[(10, HOUR), (20, DAY)], 1),
        LogSpec::several(&[(20, DAY), (10, HOUR)], 10 * SECOND),
    ];
    specs.map(LogSpec::policy).into()
}

fn batch(policy: &Policy, calls: &[(&str, u64)]) -> (CallBatch, KeyNames) {
    let names = KeyNames::new("api", &policy.clone().into());
    let mut batch = CallBatch::new();
    for (key, cost) in calls {
        batch.push(&names, Key::new(key).unwrap(), *cost);
    }
    (batch, names)
}

fn name(policy: &Policy, key: &str) -> Vec<u8> {
    KeyNames::new("api", &policy.clone().into()).of(Key::new(key).unwrap())
}

/// Calls with the server's clock.
fn run(
    server: &mut Server,
    policy: &Policy,
    calls: &[(&str, u64)],
) -> Vec<Result<Decision, CallError>> {
    server.decide(Script::limiter(), policy, &batch(policy, calls).0, &[])
}

fn take(server: &mut Server, policy: &Policy, key: &str, cost: u64) -> Decision {
    run(server, policy, &[(key, cost)]).remove(0).unwrap()
}

/// One call at a given time.
fn take_at(server: &mut Server, policy: &Policy, cost: u64, now: u64) -> Decision {
    let batch = batch(policy, &[("a", cost)]).0;
    let more = [String::new(), now.to_string()];
    server.decide(lasting(), policy, &batch, &more).remove(0).unwrap()
}

/// The entries and the expiry.
fn state(server: &mut Server, name: &[u8]) -> (Vec<Vec<u8>>, i64) {
    let entries = server.run(&[b"ZRANGE", name, b"0", b"-1", b"WITHSCORES"]);
    (entries, server.expiry(name))
}

fn is_allowed(status: Status) -> bool {
    matches!(status, Status::Allowed | Status::AllowedLast)
}

#[test]
fn in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_one(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, LogOracle::new, &specs, LogSpec::policy, &trace)
    });
}

#[test]
fn several_in_lua_equal_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_logs(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, LogOracle::new, &specs, LogSpec::policy, &trace)
    });
}

/// The numbers of every limit, of calls and of peeks, as the embedded store reports them.
#[test]
fn what_is_told_of_each_limit_and_what_a_peek_tells_equal_memory() {
    let any = prop_oneof![any_one(), any_logs()];
    let cases = (prop::collection::vec(any, 1..3), any_trace(100));
    proven(cases, |server, (specs, trace)| {
        let _: () = server.run(&[b"FLUSHALL"]);
        let mut states: HashMap<&str, State> = HashMap::new();
        let mut now = START;
        for step in trace {
            let spec = specs[step.choice % specs.len()];
            let policy = spec.policy();
            now = step.time.from(now, now, now);
            let cost = step.cost.of(policy.capacity());
            let (batch, _) = batch(&policy, &[("a", cost)]);
            let state = states.entry(policy.tag()).or_insert_with(|| policy.initial_state());
            let peek = [String::from("peek"), now.to_string()];
            let Preview { outcome, statuses, .. } = policy.preview(state, now, cost);
            let peeked = server.tell(lasting(), &policy, &batch, &peek).remove(0).unwrap();
            let named = policy.named_limits() > 0;
            prop_assert_eq!(
                peeked,
                multi_policy::Response::of(named, &statuses, now, cost, outcome)
            );
            let more = [String::new(), now.to_string()];
            let told = server.tell(lasting(), &policy, &batch, &more).remove(0).unwrap();
            prop_assert_eq!(told, multi_policy::take(&policy, state, now, cost));
        }
        Ok(())
    });
}

/// A log whose entries are keyed by timestamp loses counts. Here 64 calls are in one microsecond.
#[test]
fn calls_of_one_microsecond_all_count() {
    let mut server = Server::start();
    for policy in &policies() {
        let _: () = server.run(&[b"FLUSHALL"]);
        let decisions = run(&mut server, policy, &[("hot", 1); 64]);
        let statuses: Vec<_> = decisions.into_iter().map(|one| one.unwrap().status).collect();
        assert_eq!(statuses.iter().filter(|status| is_allowed(**status)).count(), 10, "{policy:?}");
        assert_eq!(statuses[9], Status::AllowedLast);
    }
    let thousand = LogSpec::one(1_000, HOUR, false).policy();
    for _ in 0..10 {
        run(&mut server, &thousand, &[("hot", 1); 100]);
    }
    let entries: u64 = server.run(&[b"ZCARD", &name(&thousand, "hot")]);
    assert_eq!((entries, take(&mut server, &thousand, "hot", 1).status), (1_000, Status::Refused));
}

#[test]
fn refused_attempts_are_written_down_only_if_asked_for() {
    let mut server = Server::start();
    for (count_refused, entries) in [(false, 1), (true, 4)] {
        let policy = LogSpec::one(3, HOUR, count_refused).policy();
        take(&mut server, &policy, "a", 3);
        for _ in 0..3 {
            assert_eq!(take(&mut server, &policy, "a", 1).status, Status::Refused);
            assert_eq!(take(&mut server, &policy, "a", 4).status, Status::Impossible);
        }
        let cards: u64 = server.run(&[b"ZCARD", &name(&policy, "a")]);
        assert_eq!(cards, entries);
        let _: () = server.run(&[b"FLUSHALL"]);
    }
}

#[test]
fn what_cannot_be_read_fails_for_its_own_caller_and_is_left_as_it_was() {
    let mut server = Server::start();
    let garbage: [&[&[u8]]; 7] = [
        &[b"SET", b"text"],
        &[b"RPUSH", b"x"],
        &[b"ZADD", b"5", b"garbage"],
        &[b"ZADD", b"5", &[0; 12]],
        &[b"ZADD", b"5.5", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 99]],
        &[b"ZADD", b"5", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 201]],
        &[b"ZADD", b"5", &[0xff; 23]],
    ];
    for policy in policies() {
        for words in garbage {
            let _: () = server.run(&[b"FLUSHALL"]);
            let foreign = name(&policy, "foreign");
            let mut command = vec![words[0], &foreign];
            command.extend(&words[1..]);
            let _: redis::Value = server.run(&command);
            let before: Vec<u8> = server.run(&[b"DUMP", &foreign]);
            let calls = [("a", 1), ("foreign", 1), ("b", 1), ("foreign", 2)];
            let decisions = run(&mut server, &policy, &calls);
            assert!(decisions[0].is_ok() && decisions[2].is_ok());
            assert_eq!(decisions[1], Err(CallError::Unreadable), "{words:?}");
            assert_eq!(decisions[3], Err(CallError::Unreadable), "{words:?}");
            let after: Vec<u8> = server.run(&[b"DUMP", &foreign]);
            assert_eq!(after, before);
        }
    }
}

#[test]
fn a_key_that_redis_refuses_to_write_says_why_and_is_not_charged() {
    let mut server = Server::start();
    let hour = |policy: &Policy| take(&mut Server::start(), policy, "x", 1).reset_after_ms > 1_000;
    for policy in policies().into_iter().filter(hour) {
        let calls = [("a", 1), ("b", 1), ("a", 1)];
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        for decision in run(&mut server, &policy, &calls) {
            let Err(CallError::Unwritten(why)) = decision else {
                panic!("{decision:?} without memory");
            };
            assert!(why.contains("OOM"), "{why}");
        }
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
        let remaining =
            run(&mut server, &policy, &calls).into_iter().map(|one| one.unwrap().remaining);
        assert_eq!(remaining.collect::<Vec<_>>(), [9, 9, 8]);
        let _: () = server.run(&[b"FLUSHALL"]);
    }
}

/// Without permission to set a TTL nothing is written: no key is left without a TTL.
#[test]
fn a_key_whose_ttl_cannot_be_set_is_not_charged() {
    let mut server = Server::start();
    for policy in [LogSpec::one(10, HOUR, false), LogSpec::several(&[(10, HOUR)], SECOND)] {
        let policy = policy.policy();
        take(&mut server, &policy, "old", 1);
        let _: () = server.run(&[b"PERSIST", &name(&policy, "old")]);
        let old = state(&mut server, &name(&policy, "old"));
        let _: () = server.run(&[b"ACL", b"SETUSER", b"default", b"-pexpire"]);
        for decision in run(&mut server, &policy, &[("new", 1), ("old", 1)]) {
            assert!(matches!(decision, Err(CallError::Unwritten(_))), "{decision:?}");
        }
        let _: () = server.run(&[b"ACL", b"SETUSER", b"default", b"+pexpire"]);
        let exists: i64 = server.run(&[b"EXISTS", &name(&policy, "new")]);
        assert_eq!(exists, 0);
        assert_eq!(state(&mut server, &name(&policy, "old")), old);
        take(&mut server, &policy, "old", 1);
        assert!(
            state(&mut server, &name(&policy, "old")).1 > 0,
            "a key that lost its TTL gets one"
        );
    }
}

#[test]
fn every_key_outlives_its_reset_and_not_by_much() {
    let mut server = Server::start();
    for policy in policies() {
        let _: () = server.run(&[b"FLUSHALL"]);
        for _ in 0..12 {
            let decision = take(&mut server, &policy, "a", 1);
            let ttl: i64 = server.run(&[b"PTTL", &name(&policy, "a")]);
            let reset = i64::try_from(decision.reset_after_ms).unwrap();
            assert!(ttl >= reset - 50, "{policy:?}: {ttl} for {reset}");
            // The reset time is rounded up by less than a quarter, and the TTL is an eighth longer.
            let most = reset + reset * 13 / 32 + 1_002;
            assert!(ttl > 0 && ttl <= most, "{policy:?}: {ttl} for {reset}");
        }
    }
}

#[test]
fn a_shorter_window_does_not_shorten_a_ttl() {
    let mut server = Server::start();
    let [long, short] = [HOUR, SECOND].map(|window| LogSpec::one(9, window, false).policy());
    take(&mut server, &long, "a", 5);
    take(&mut server, &short, "a", 1);
    let ttl: i64 = server.run(&[b"PTTL", &name(&long, "a")]);
    assert!(ttl > 3_599_000, "{ttl}");
    assert_eq!(take(&mut server, &long, "a", 3).status, Status::AllowedLast);
}

#[test]
fn a_refused_call_and_a_peek_leave_value_and_ttl_as_they_were() {
    let mut server = Server::start();
    for (index, policy) in policies().into_iter().enumerate() {
        let key = format!("key {index}");
        let name = name(&policy, &key);
        let reset = take(&mut server, &policy, &key, 10).reset_after_ms;
        let before = state(&mut server, &name);
        let peeks = batch(&policy, &[(&key, 1), (&key, 0), ("never used", 1)]).0;
        let peeked = server.decide(Script::limiter(), &policy, &peeks, &["peek".into()]);
        let after = state(&mut server, &name);
        assert!(after == before || after.0.is_empty(), "{policy:?}");
        let exists: i64 = server.run(&[b"EXISTS", &self::name(&policy, "never used")]);
        assert_eq!((exists, peeked[2].as_ref().unwrap().remaining), (0, 10));
        // The shortest policy may have expired; a policy may count refused calls.
        if reset > 1_000 && index != 2 {
            assert_eq!(peeked[0].as_ref().unwrap().status, Status::Refused);
            for cost in [1, 10, 11] {
                assert!(!is_allowed(take(&mut server, &policy, &key, cost).status));
                assert_eq!(state(&mut server, &name), before, "{policy:?}");
            }
        }
    }
}

#[test]
fn deleting_a_settled_key_changes_no_decision() {
    let mut server = Server::start();
    for policy in [
        LogSpec::one(3, 100 * MILLI, false),
        LogSpec::one(3, 100 * MILLI, true),
        LogSpec::several(&[(3, 50 * MILLI), (5, 100 * MILLI)], 20 * MILLI),
    ] {
        let policy = policy.policy();
        let decision = take(&mut server, &policy, "kept", 3);
        take(&mut server, &policy, "deleted", 3);
        thread::sleep(Duration::from_millis(decision.reset_after_ms + 5));
        let _: i64 = server.run(&[b"DEL", &name(&policy, "deleted")]);
        let [kept, deleted] = ["kept", "deleted"].map(|key| take(&mut server, &policy, key, 2));
        assert_eq!((kept.status, kept.remaining), (deleted.status, deleted.remaining));
        assert_eq!(kept.status, Status::Allowed);
    }
}

#[test]
fn one_call_removes_no_more_than_a_hundred_of_100_000_entries_that_expire_at_once() {
    let mut server = Server::start();
    let policy = LogSpec::one(MOST, SECOND, false).policy();
    let fill = batch(&policy, &[("a", 1); 1_000]).0;
    for _ in 0..MOST / 1_000 {
        server.decide(lasting(), &policy, &fill, &[String::new(), START.to_string()]);
    }
    assert_eq!(take_at(&mut server, &policy, 1, START + SECOND - 1).status, Status::Refused);
    let key = name(&policy, "a");
    for call in 1..=40 {
        let decision = take_at(&mut server, &policy, 1, START + SECOND);
        assert_eq!((decision.status, decision.remaining), (Status::Allowed, MOST - call));
        let entries: u64 = server.run(&[b"ZCARD", &key]);
        assert_eq!(entries, MOST + call - 100 * (call / 16));
    }
    // The retry time of many units is found by rank.
    take_at(&mut server, &policy, 5, START + SECOND + 9);
    take_at(&mut server, &policy, MOST - 45, START + SECOND + 10);
    let refused = take_at(&mut server, &policy, 25, START + SECOND + 11);
    assert_eq!((refused.status, refused.retry_after_ms), (Status::Refused, 1_000));
}

/// A call that pushes out 100,000 entries at once does not have to remove them all.
#[test]
fn pushing_out_removes_no_more_than_a_hundred_entries_either() {
    let mut server = Server::start();
    let policy = LogSpec::one(5_000, HOUR, true).policy();
    let fill = batch(&policy, &[("a", 1); 1_000]).0;
    for _ in 0..5 {
        server.decide(lasting(), &policy, &fill, &[String::new(), START.to_string()]);
    }
    let mut state = policy.initial_state();
    for _ in 0..5_000 {
        policy.charge(&mut state, START, 1);
    }
    for call in 1..=60 {
        let now = START + call;
        let told = take_at(&mut server, &policy, 5_000, now);
        assert_eq!(multi_policy::take(&policy, &mut state, now, 5_000), told.into());
        let entries: u64 = server.run(&[b"ZCARD", &name(&policy, "a")]);
        let State::Log(log) = &state else { panic!("{state:?} is not a log") };
        assert_eq!(entries, u64::try_from(log.entries()).unwrap());
        assert!(entries >= 5_000_u64.saturating_sub(99 * call), "{entries}");
    }
}

#[test]
fn cumulative_numbers_begin_anew_before_they_lose_their_last_bit() {
    let mut server = Server::start();
    let policy = LogSpec::one(10, 100, false).policy();
    let mut member = vec![0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 6, 19];
    let key = name(&policy, "a");
    let _: () = server.run(&[b"ZADD", &key, START.to_string().as_bytes(), &member]);
    assert_eq!(take_at(&mut server, &policy, 2, START + 50).remaining, 2);
    let entries: u64 = server.run(&[b"ZCARD", &key]);
    assert_eq!(entries, 2);
    assert_eq!(take_at(&mut server, &policy, 2, START + 60).remaining, 0);
    assert_eq!(take_at(&mut server, &policy, 1, START + 60).status, Status::Refused);
    member = server.run::<Vec<Vec<u8>>>(&[b"ZRANGE", &key, b"0", b"0"]).remove(0);
    assert_eq!(
        member,
        [0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 19],
        "the units that count move to that time"
    );
    assert_eq!(take_at(&mut server, &policy, 1, START + 159).status, Status::Refused);
    assert_eq!(take_at(&mut server, &policy, 10, START + 160).status, Status::AllowedLast);
}

/// A set without members is deleted, and made anew without a TTL.
#[test]
fn a_refund_that_writes_all_entries_anew_leaves_the_key_its_ttl() {
    let mut server = Server::start();
    let policy = LogSpec::one(9, HOUR, false).policy();
    let (policies, key) = (PolicySet::single(policy.clone()), name(&policy, "a"));
    let names = KeyNames::new("api", &policies);
    let mut execute = |operation| {
        let mut batch = CallBatch::new();
        batch.push_operation(&names, &[Some(Key::new("a").unwrap())], None, operation);
        let executed = server.execute(Script::limiter(), &policies, &batch, &[]).remove(0).unwrap();
        (executed, server.run::<i64>(&[b"PTTL", &key]))
    };
    let (first, ttl) = execute(Operation::Take { cost: 2.into() });
    execute(Operation::Take { cost: 1.into() });
    let taken = taken(&policies, &first.response, &2.into(), &1.into());
    let (refunded, left) = execute(Operation::Refund { units: 1.into(), taken });
    assert_eq!((refunded.units, refunded.response.decision.remaining), (1, 7));
    assert!((ttl - 60_000..=ttl).contains(&left), "{left} of {ttl}");
}
