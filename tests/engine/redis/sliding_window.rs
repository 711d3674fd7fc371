//! The sliding window over Redis, with its buckets in a list and in a hash.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, KeyState as _};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{self, Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::algorithm::sliding_window::{
    SlidingOracle, SlidingSpec, any_close, any_dense_trace, any_sliding,
};
use crate::laws;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{DAY, HOUR, MILLI, SECOND};
use crate::redis::cluster::nodes::until;
use crate::redis::server::Server;
use crate::redis::twins::{STEPS, equal, lasting, proven};

const LAYOUTS: [fn(SlidingSpec) -> Policy; 2] = [SlidingSpec::list, SlidingSpec::hash];

#[test]
fn a_list_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_sliding(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, SlidingOracle::new, &specs, SlidingSpec::list, &trace)
    });
}

#[test]
fn a_hash_in_lua_equals_rust_and_the_oracle() {
    let cases = (prop::collection::vec(any_sliding(), 1..4), any_trace(STEPS));
    proven(cases, |server, (specs, trace)| {
        equal(server, SlidingOracle::new, &specs, SlidingSpec::hash, &trace)
    });
}

/// Calls so close together that windows contain many of them.
#[test]
fn both_layouts_equal_rust_and_the_oracle_in_dense_traces() {
    let cases = (prop::collection::vec(any_close(), 1..4), any_dense_trace());
    proven(cases, |server, (specs, trace)| {
        LAYOUTS
            .iter()
            .try_for_each(|layout| equal(server, SlidingOracle::new, &specs, *layout, &trace))
    });
}

fn names(policy: &Policy) -> KeyNames {
    KeyNames::new("api", &policy.clone().into())
}

fn name(policy: &Policy, key: &str) -> Vec<u8> {
    names(policy).of(Key::new(key).unwrap())
}

fn batch(policy: &Policy, key: &str, cost: u64) -> CallBatch {
    let mut batch = CallBatch::new();
    batch.push(&names(policy), Key::new(key).unwrap(), cost);
    batch
}

fn take(server: &mut Server, policy: &Policy, key: &str, cost: u64) -> Decision {
    let batch = batch(policy, key, cost);
    server.decide(Script::limiter(), policy, &batch, &[]).remove(0).unwrap()
}

/// A call at a time set by the test.
fn take_at(server: &mut Server, policy: &Policy, now: u64, cost: u64) -> Decision {
    let batch = batch(policy, "a", cost);
    let more = [String::new(), now.to_string()];
    server.decide(lasting(), policy, &batch, &more).remove(0).unwrap()
}

/// The result of a peek. The clock is the script's own unless a time is given.
fn peek(server: &mut Server, policy: &Policy, now: Option<u64>, cost: u64) -> Decision {
    let mut batch = CallBatch::new();
    let (names, key) = (KeyNames::new("api", &policy.clone().into()), Key::new("a").unwrap());
    batch.push_operation(&names, &[Some(key)], None, Operation::Peek { cost: cost.into() });
    let script = now.map_or(Script::limiter(), |_| lasting());
    let more = [String::from("peek"), now.unwrap_or(0).to_string()];
    server.decide(script, policy, &batch, &more).remove(0).unwrap()
}

/// Value and expiry of a key, in a form that shows any change of either.
fn stored(server: &mut Server, policy: &Policy, key: &str) -> (Option<Vec<u8>>, i64) {
    let name = name(policy, key);
    let value = server.run(&[b"DUMP", &name]);
    (value, server.expiry(&name))
}

/// Peeks between the calls of a trace, of the call before and of no units.
fn peeks_equal(
    server: &mut Server,
    specs: &[SlidingSpec],
    layout: fn(SlidingSpec) -> Policy,
    trace: &[Step],
) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let (mut now, mut retry_at) = (START, START);
    let mut state = layout(specs[0]).initial_state();
    for step in trace {
        let policy = layout(specs[step.choice % specs.len()]);
        now = step.time.from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        let before = stored(server, &policy, "a");
        for cost in [cost, 0, 1] {
            let peeked = peek(server, &policy, Some(now), cost);
            prop_assert_eq!(peeked, laws::peek(&policy, &state, now, cost), "cost {}", cost);
        }
        prop_assert_eq!(stored(server, &policy, "a"), before);
        let decision = take_at(server, &policy, now, cost);
        prop_assert_eq!(decision, decision::take(&policy, &mut state, now, cost));
        retry_at = now + decision.retry_after_ms * 1_000;
    }
    Ok(())
}

#[test]
fn a_peek_tells_what_take_would_and_changes_nothing() {
    let cases = (prop::collection::vec(any_close(), 1..3), any_dense_trace());
    proven(cases, |server, (specs, trace)| {
        LAYOUTS.iter().try_for_each(|layout| peeks_equal(server, &specs, *layout, &trace[..60]))
    });
}

fn policies() -> Vec<Policy> {
    let specs = [
        SlidingSpec { limit: 10, window: HOUR, buckets: 10 },
        SlidingSpec { limit: 10, window: 5 * MILLI, buckets: 1 },
        SlidingSpec { limit: 10_000, window: SECOND, buckets: 1_000 },
        SlidingSpec { limit: 10, window: 10_000 * DAY, buckets: 3 },
    ];
    LAYOUTS.iter().flat_map(|layout| specs.map(layout)).collect()
}

#[test]
fn every_key_outlives_its_reset_and_dies_within_three_times_the_horizon() {
    let mut server = Server::start();
    for policy in policies() {
        let _: () = server.run(&[b"FLUSHALL"]);
        let horizon_ms = take(&mut server, &policy, "full", policy.capacity()).reset_after_ms;
        let most = i64::try_from(3 * horizon_ms.max(1_000)).unwrap() + 1;
        for _ in 0..12 {
            let decision = take(&mut server, &policy, "a", 1);
            let ttl: i64 = server.run(&[b"PTTL", &name(&policy, "a")]);
            let reset = i64::try_from(decision.reset_after_ms).unwrap();
            assert!(ttl >= reset && ttl > 0, "{policy:?}: {ttl} for {reset}");
            assert!(ttl <= most, "{policy:?}: {ttl} of {most}");
        }
    }
}

/// Also if the TTL is set only once in a window, and by versions in turn.
#[test]
fn a_ttl_always_reaches_beyond_the_reset() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        for windows in [&[200][..], &[200, 900, 350, 200]] {
            let _: () = server.run(&[b"FLUSHALL"]);
            for call in 0..120_usize {
                let window = windows[call % windows.len()] * MILLI;
                let policy = layout(SlidingSpec { limit: 1_000, window, buckets: 7 });
                // Steps of a second would hide TTLs that are too short.
                let script = Script::limiter()
                    .edited(|source| source.replace("MIN_TTL_STEP = 1000000", "MIN_TTL_STEP = 1"));
                let batch = batch(&policy, "a", 1);
                let decision = server.decide(&script, &policy, &batch, &[]).remove(0).unwrap();
                assert_ne!(decision.status, Status::Refused);
                let expires = server.expiry(&name(&policy, "a"));
                let reset_at = decision.at / 1_000 + decision.reset_after_ms;
                assert!(expires >= i64::try_from(reset_at).unwrap(), "{expires} for {reset_at}");
                thread::sleep(Duration::from_millis(7));
            }
        }
    }
}

#[test]
fn a_refused_call_leaves_value_and_ttl_as_they_were() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let policy = layout(SlidingSpec { limit: 10, window: HOUR, buckets: 10 });
        let _: () = server.run(&[b"FLUSHALL"]);
        take(&mut server, &policy, "a", 1);
        take(&mut server, &policy, "a", 9);
        let before = stored(&mut server, &policy, "a");
        for (cost, status) in
            [(10, Status::Refused), (1, Status::Refused), (11, Status::Impossible)]
        {
            assert_eq!(take(&mut server, &policy, "a", cost).status, status);
            assert_eq!(peek(&mut server, &policy, None, cost).status, status);
            assert_eq!(stored(&mut server, &policy, "a"), before);
        }
        assert_eq!(take(&mut server, &policy, "new", 11).status, Status::Impossible);
        let keys: i64 = server.run(&[b"EXISTS", &name(&policy, "new")]);
        assert_eq!(keys, 0);
    }
}

#[test]
fn deleting_a_settled_key_changes_no_decision() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let policy = layout(SlidingSpec { limit: 3, window: 100 * MILLI, buckets: 5 });
        let decision = take(&mut server, &policy, "kept", 3);
        take(&mut server, &policy, "deleted", 3);
        // A slow machine may come back after the TTL.
        let kept: i64 = server.run(&[b"PERSIST", &name(&policy, "kept")]);
        assert_eq!(kept, 1, "the key has a TTL");
        thread::sleep(Duration::from_millis(decision.reset_after_ms + 25));
        let _: i64 = server.run(&[b"DEL", &name(&policy, "deleted")]);
        let [kept, deleted] = ["kept", "deleted"].map(|key| take(&mut server, &policy, key, 2));
        assert_eq!((kept.status, kept.remaining), (deleted.status, deleted.remaining));
        assert_eq!(kept.status, Status::Allowed);
    }
}

/// A repair is written even if the call is refused. Otherwise a clock that jumps far ahead and back
/// would lock the key until that time.
#[test]
fn a_repair_is_kept_when_the_call_is_refused() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let policy = layout(SlidingSpec { limit: 10, window: SECOND, buckets: 10 });
        take_at(&mut server, &policy, START + DAY, 10);
        let refused = take_at(&mut server, &policy, START, 1);
        assert_eq!((refused.status, refused.retry_after_ms), (Status::Refused, 1_100));
        let again = take_at(&mut server, &policy, START + SECOND, 1);
        assert_eq!((again.status, again.retry_after_ms), (Status::Refused, 100));
        let after = take_at(&mut server, &policy, START + 1_100 * MILLI, 10);
        assert_eq!(after.status, Status::AllowedLast);
    }
}

/// The numbers of the elements that have not expired.
fn elements(server: &mut Server, policy: &Policy) -> Vec<[u64; 4]> {
    let values: Vec<Vec<u8>> = server.run(&[b"LRANGE", &name(policy, "a"), b"0", b"-1"]);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers")]
    let numbers = |value: Vec<u8>| {
        let doubles: Vec<_> =
            value.as_chunks().0.iter().map(|bytes| f64::from_be_bytes(*bytes) as u64).collect();
        doubles.try_into().unwrap()
    };
    let gone = values.last().map_or(0, |newest| u16::from_be_bytes([newest[32], newest[33]]));
    values.into_iter().skip(usize::from(gone)).map(numbers).collect()
}

/// A published design kept the buckets and their running total in one list, and deleted expired
/// buckets by value. So a bucket as large as the total deleted the total as well.
#[test]
fn a_bucket_as_large_as_the_total_does_not_take_the_total_along() {
    let mut server = Server::start();
    let policy = SlidingSpec { limit: 10, window: SECOND, buckets: 10 }.list();
    let _: () = server.run(&[b"FLUSHALL"]);
    // Equal buckets; the last is as large as the total will be when all others have expired.
    for bucket in 0..5 {
        take_at(&mut server, &policy, START + bucket * 100 * MILLI, 2);
    }
    for bucket in 11..15 {
        let now = START + bucket * 100 * MILLI;
        assert_eq!(take_at(&mut server, &policy, now, 2).status, Status::AllowedLast);
        assert_eq!(take_at(&mut server, &policy, now, 1).status, Status::Refused);
        assert_eq!(elements(&mut server, &policy).len(), 5);
    }
    let total_alone = take_at(&mut server, &policy, START + 24 * 100 * MILLI, 2);
    assert_eq!(total_alone.remaining, 8 - 2);
    assert_eq!(take_at(&mut server, &policy, START + 24 * 100 * MILLI, 7).status, Status::Refused);
}

/// A published design dropped one expired bucket per request.
#[test]
fn all_expired_buckets_are_dropped_by_one_call() {
    let mut server = Server::start();
    for (layout, length) in LAYOUTS.into_iter().zip([b"LLEN", b"HLEN"]) {
        let policy = layout(SlidingSpec { limit: 1_000, window: SECOND, buckets: 1_000 });
        let _: () = server.run(&[b"FLUSHALL"]);
        for bucket in 0..1_000 {
            take_at(&mut server, &policy, START + bucket * MILLI, 1);
        }
        let refused = take_at(&mut server, &policy, START + 999 * MILLI, 1);
        assert_eq!((refused.status, refused.retry_after_ms), (Status::Refused, 2));
        let refused = take_at(&mut server, &policy, START + 999 * MILLI, 700);
        assert_eq!(refused.retry_after_ms, 701);
        let later = take_at(&mut server, &policy, START + 1_900 * MILLI, 1);
        assert_eq!(later.remaining, 1_000 - 100 - 1);
        let left: u64 = server.run(&[length, &name(&policy, "a")]);
        assert_eq!(left, 101 + u64::from(length == b"HLEN"));
    }
}

/// A published design counted as many buckets as the window has, and so admitted twice the limit.
#[test]
fn the_partly_covered_bucket_counts_in_full() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let policy = layout(SlidingSpec { limit: 10, window: SECOND, buckets: 10 });
        let _: () = server.run(&[b"FLUSHALL"]);
        let last_of_bucket = START + 100 * MILLI - 1;
        assert_eq!(take_at(&mut server, &policy, last_of_bucket, 10).status, Status::AllowedLast);
        // Ten buckets later the first call is no longer in the tenth bucket, but still in the
        // window.
        for now in [last_of_bucket + SECOND - 1, last_of_bucket + SECOND] {
            assert_eq!(take_at(&mut server, &policy, now, 1).status, Status::Refused);
        }
        let now = last_of_bucket + SECOND + 1;
        assert_eq!(take_at(&mut server, &policy, now, 10).status, Status::AllowedLast);
    }
}

#[test]
fn running_totals_begin_anew_before_they_pass_what_a_double_holds() {
    let mut server = Server::start();
    let limit = (1 << 53) - 1;
    let policy = SlidingSpec { limit, window: SECOND, buckets: 4 }.list();
    let mut state = policy.initial_state();
    let mut restarts = 0;
    let mut last = 0;
    for call in 0..400 {
        let now = START + call * 130 * MILLI;
        let cost = limit / 9 + call;
        let decision = take_at(&mut server, &policy, now, cost);
        assert_eq!(decision, decision::take(&policy, &mut state, now, cost), "call {call}");
        let newest = elements(&mut server, &policy).pop().unwrap();
        restarts += u32::from(newest[2] < last);
        last = newest[2];
    }
    assert!(restarts > 20, "{restarts}");
}

/// Commands that scripts ran since the last count, by name.
fn commands(server: &mut Server) -> u64 {
    let stats: String = server.run(&[b"INFO", b"commandstats"]);
    let calls = stats.lines().filter_map(|line| {
        let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let of_scripts = ["lindex", "lrange", "lset", "rpush", "ltrim", "pexpire"];
        let calls = numbers.split(',').next()?.parse::<u64>().ok()?;
        of_scripts.contains(&name).then_some(calls)
    });
    let sum = calls.sum();
    let _: () = server.run(&[b"CONFIG", b"RESETSTAT"]);
    sum
}

/// The decisions whose commands are counted.
const DECISIONS: u64 = 500;

/// Commands for [`DECISIONS`] of a steady caller, with a number of calls in each bucket.
fn commands_of_a_list(server: &mut Server, buckets: u64, per_bucket: u64, limit: u64) -> u64 {
    let _: () = server.run(&[b"FLUSHALL"]);
    let policy = SlidingSpec { limit, window: buckets * SECOND, buckets }.list();
    let mut now = START;
    // Until the window is full and buckets expire.
    for _ in 0..buckets + 2 {
        take_at(server, &policy, now, per_bucket);
        now += SECOND;
    }
    commands(server);
    for _ in 0..DECISIONS {
        take_at(server, &policy, now, 1);
        now += SECOND / per_bucket;
    }
    commands(server)
}

#[test]
fn the_commands_of_a_list_do_not_grow_with_its_buckets() {
    let mut server = Server::start();
    for per_bucket in [1, 4, 20] {
        let most = |buckets| buckets * per_bucket * 2;
        let ten = commands_of_a_list(&mut server, 10, per_bucket, most(10));
        let thousand = commands_of_a_list(&mut server, 1_000, per_bucket, most(1_000));
        assert!(thousand <= ten, "{per_bucket} in a bucket: {thousand} and {ten}");
        assert!(thousand <= 5 * DECISIONS + 20, "{thousand}");
        // Four in five are refused: buckets are visited one by one, and found by binary search.
        let refused = commands_of_a_list(&mut server, 1_000, per_bucket, 1_000 * per_bucket / 5);
        assert!(refused <= 6 * DECISIONS, "{refused}");
    }
}

/// A block under an override with a shorter window does not change the state. Units that the
/// override does not count, count again when it has ended.
#[test]
fn what_a_shorter_override_does_not_count_is_not_forgotten_by_a_block() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let numbers = |window| SlidingSpec { limit: 10, window, buckets: 10 };
        let policies: PolicySet = layout(numbers(SECOND)).into();
        let own = Arc::new(layout(numbers(500 * MILLI)));
        let names = KeyNames::new("blocked", &policies);
        let mut execute = |operation, now: u64| {
            let mut batch = CallBatch::new();
            batch.push_operation(&names, &[Some(Key::new("a").unwrap())], None, operation);
            let more = [String::new(), now.to_string()];
            server.execute(lasting(), &policies, &batch, &more).remove(0).unwrap().response.decision
        };
        execute(Operation::Take { cost: 7.into() }, START);
        execute(Operation::Override { policies: vec![Some(own)], lasting: HOUR }, START);
        let later = START + 700 * MILLI;
        execute(Operation::Block { lasting: SECOND }, later);
        execute(Operation::Unblock, later);
        execute(Operation::ClearOverride, later);
        assert_eq!(execute(Operation::Peek { cost: 0.into() }, later).remaining, 3);
        let _: () = server.run(&[b"FLUSHALL"]);
    }
}

/// Redis rejects -0, which would be the TTL of a key that ended half a millisecond ago.
#[test]
fn a_settled_key_ends_by_what_writes_it() {
    let mut server = Server::start();
    for layout in LAYOUTS {
        let policies: PolicySet =
            layout(SlidingSpec { limit: 10, window: SECOND, buckets: 10 }).into();
        let names = KeyNames::new("settled", &policies);
        let key = Key::new("a").unwrap();
        let script = Script::limiter().with_clock("local now = tonumber(ARGV[3])\n");
        let mut execute = |operation, now: u64| {
            let mut batch = CallBatch::new();
            batch.push_operation(&names, &[Some(key)], None, operation);
            server.execute(&script, &policies, &batch, &[String::new(), now.to_string()]).remove(0)
        };
        let start = START.next_multiple_of(SECOND);
        execute(Operation::Take { cost: 7.into() }, start).unwrap();
        execute(Operation::Block { lasting: SECOND }, start).unwrap();
        execute(Operation::Unblock, start + 3 * SECOND + 500).unwrap();
        until("the key ends", || {
            (server.run::<i64>(&[b"EXISTS", &names.of(key)]) == 0).then_some(())
        });
    }
}
