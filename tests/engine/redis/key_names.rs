//! Stored keys: every key has a TTL that is long enough, and a refused call changes neither value
//! nor TTL.

use std::thread;
use std::time::Duration;

use tollgate::algorithm::Algorithm as _;
use tollgate::calendar::Every;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::redis::{CallBatch, KeyNames, Script};

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::algorithm::calendar_window::CalendarSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::laws;
use crate::laws::trace::START;
use crate::policy::specs::{DAY, HOUR, MILLI, RateSpec, SECOND, WindowSpec};
use crate::redis::server::Server;

/// A value, and its expiry in milliseconds.
type State = (Option<Vec<u8>>, i64);

/// The expiry of a key that does not exist.
const NO_KEY: i64 = -2;

fn policies() -> Vec<Policy> {
    vec![
        RateSpec { units: 10, period: HOUR, burst: 10 }.gcra(),
        RateSpec { units: 7, period: SECOND, burst: 3 }.token_bucket(),
        RateSpec { units: 1, period: 30 * DAY, burst: 20 }.gcra(),
        RateSpec { units: 1_000, period: SECOND, burst: 2 }.gcra(),
        WindowSpec { limit: 10, window: HOUR }.policy(),
        WindowSpec { limit: 10, window: 5 * MILLI }.policy(),
        WindowSpec { limit: 10_000, window: SECOND }.policy(),
        WindowSpec { limit: 10, window: 50_000 * DAY }.policy(),
        leaky(RateSpec { units: 7, period: SECOND, burst: 3 }),
        BucketSpec { rate: RateSpec { units: 7, period: SECOND, burst: 3 }, initial: 3, debt: 9 }
            .continuous(),
        BucketSpec { rate: RateSpec { units: 4, period: HOUR, burst: 10 }, initial: 10, debt: 0 }
            .interval(),
        BucketSpec { rate: RateSpec { units: 1, period: MILLI, burst: 3 }, initial: 3, debt: 2 }
            .interval(),
        CounterSpec { limit: 10, window_ms: 3_600_000 }.policy(),
        CounterSpec { limit: 10, window_ms: 5 }.policy(),
        CalendarSpec { limit: 10, every: Every::Month, zone: "Europe/Berlin" }.policy(),
        CalendarSpec { limit: 10_000, every: Every::HOUR, zone: "Asia/Kolkata" }.policy(),
    ]
}

pub(crate) fn take(server: &mut Server, policy: &Policy, key: &str, cost: u64) -> Decision {
    let mut batch = CallBatch::new();
    batch.push(&KeyNames::new("api", &policy.clone().into()), Key::new(key).unwrap(), cost);
    server.decide(Script::limiter(), policy, &batch, &[]).remove(0).unwrap()
}

pub(crate) fn name(policy: &Policy, key: &str) -> Vec<u8> {
    KeyNames::new("api", &policy.clone().into()).of(Key::new(key).unwrap())
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
            let expires = server.expiry(&name(&policy, "a"));
            let at = i64::try_from(decision.at / 1_000).unwrap();
            let reset_at = at + i64::try_from(decision.reset_after_ms).unwrap();
            // The shortest may have expired by now.
            let is_over = expires == NO_KEY && server.now_ms() >= reset_at;
            assert!(expires >= reset_at || is_over, "{policy:?}: {expires} for {reset_at}");
            assert!(expires <= at + most, "{policy:?}: {expires} of {at} + {most}");
        }
    }
}

/// Redis 7.2 prints a script's number that ends in many zeros as 1e+8, and rejects that as an
/// integer.
#[test]
fn a_ttl_of_a_hundred_million_milliseconds_is_set_as_any_other() {
    const ROUND: i64 = 100_000_000;
    let mut server = Server::start();
    let script = Script::limiter().with_clock("local now = tonumber(ARGV[3])\n");
    let month = SlidingSpec { limit: 10, window: 30 * DAY, buckets: 3 };
    for policy in [
        WindowSpec { limit: 10_000, window: 99_999_999 * MILLI }.policy(),
        RateSpec { units: 1, period: 30 * DAY, burst: 20 }.gcra(),
        month.list(),
        month.hash(),
    ] {
        let mut ttl_at = |later_ms: i64| -> i64 {
            let _: () = server.run(&[b"FLUSHALL"]);
            let now = START + u64::try_from(later_ms).unwrap() * MILLI;
            let mut batch = CallBatch::new();
            batch.push(&KeyNames::new("api", &policy.clone().into()), Key::new("a").unwrap(), 1);
            let more = [String::new(), now.to_string()];
            server.decide(&script, &policy, &batch, &more).remove(0).unwrap();
            server.run(&[b"PTTL", &name(&policy, "a")])
        };
        // Some milliseconds pass until the TTL is read, so one of several TTLs is the round number.
        let rest = (0..5).map(|_| ttl_at(0)).max().unwrap() % ROUND;
        let ttls: Vec<i64> = (0..20).map(|more| ttl_at(rest + more)).collect();
        assert!(ttls.iter().all(|ttl| *ttl > 0), "{policy:?}: {ttls:?}");
        let is_round = |ttl: &i64| ttl % ROUND == 0 || ROUND - ttl % ROUND < 20;
        assert!(ttls.iter().any(is_round), "{policy:?}: {ttls:?}");
    }
}

#[test]
fn a_refused_call_leaves_value_and_ttl_as_they_were() {
    let mut server = Server::start();
    for (index, policy) in policies().into_iter().enumerate() {
        let key = format!("key {index}");
        let name = name(&policy, &key);
        let limit = take(&mut server, &policy, &key, 1).capacity;
        take(&mut server, &policy, &key, limit - 1);
        for cost in [limit, limit + 1] {
            // Computed for each policy: the shortest may have drained, so that the call before was
            // admitted.
            let before = state(&mut server, &name);
            let decision = take(&mut server, &policy, &key, cost);
            if matches!(decision.status, Status::Refused | Status::Impossible) {
                assert!(stands(&mut server, &name, &before), "{policy:?}: {before:?}");
            }
        }
    }
}

/// The value and its expiry.
pub(crate) fn state(server: &mut Server, name: &[u8]) -> State {
    let value = server.run(&[b"GET", name]);
    (value, server.expiry(name))
}

/// Whether a key is unchanged, or has expired before it was checked.
fn stands(server: &mut Server, name: &[u8], before: &State) -> bool {
    let after = state(server, name);
    after == *before || after.1 == NO_KEY && server.now_ms() >= before.1
}

/// A peek is a call of cost 0 that writes nothing: the reply has the current state.
#[test]
fn a_peek_tells_how_a_key_stands_and_changes_nothing() {
    let mut server = Server::start();
    for (index, policy) in policies().into_iter().enumerate() {
        let key = format!("key {index}");
        let limit = take(&mut server, &policy, &key, 1).capacity;
        let before = state(&mut server, &name(&policy, &key));
        let mut batch = CallBatch::new();
        for (key, cost) in [(key.as_str(), 0), ("never used", 0), (key.as_str(), limit + 1)] {
            let (names, key) =
                (KeyNames::new("api", &policy.clone().into()), Key::new(key).unwrap());
            batch.push_operation(&names, &[Some(key)], None, Operation::Peek { cost: cost.into() });
        }
        let peek = [String::from("peek")];
        let decisions = server.decide(Script::limiter(), &policy, &batch, &peek);
        let [used, unused, impossible] = decisions.try_into().unwrap();
        let (used, unused) = (used.unwrap(), unused.unwrap());
        assert_eq!((used.status, unused.status), (Status::Allowed, Status::Allowed));
        // The shortest policies may have drained by now.
        assert!(used.remaining == limit - 1 || used.reset_after_ms == 0, "{policy:?}");
        let fresh = laws::peek(&policy, &policy.initial_state(), unused.at, 0);
        assert_eq!((unused.remaining, unused.reset_after_ms), (limit, fresh.reset_after_ms));
        assert_eq!(impossible.unwrap().status, Status::Impossible);
        assert!(stands(&mut server, &name(&policy, &key), &before), "{policy:?}: {before:?}");
        let keys: i64 = server.run(&[b"EXISTS", &name(&policy, "never used")]);
        assert_eq!(keys, 0);
    }
}

#[test]
fn deleting_a_settled_key_changes_no_decision() {
    let mut server = Server::start();
    for policy in [
        RateSpec { units: 10, period: SECOND, burst: 3 }.gcra(),
        WindowSpec { limit: 3, window: 100 * MILLI }.policy(),
        BucketSpec {
            rate: RateSpec { units: 2, period: 100 * MILLI, burst: 3 },
            initial: 3,
            debt: 0,
        }
        .interval(),
    ] {
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
fn a_windows_value_is_one_integer_where_it_fits_and_two_doubles_otherwise() {
    let mut server = Server::start();
    let small = WindowSpec { limit: 8_191, window: HOUR }.policy();
    let large = WindowSpec { limit: 10_000, window: HOUR }.policy();
    take(&mut server, &small, "small", 5);
    take(&mut server, &small, "small", 8_186);
    let value: String = server.run(&[b"GET", &name(&small, "small")]);
    assert!(value.parse::<u64>().is_ok_and(|packed| packed % 8_192 == 8_191), "{value}");
    take(&mut server, &large, "large", 8_191);
    take(&mut server, &large, "large", 9);
    let value: Vec<u8> = server.run(&[b"GET", &name(&large, "large")]);
    assert_eq!((value.len(), &value[8..]), (16, &8_200_f64.to_be_bytes()[..]));
    assert_eq!(take(&mut server, &large, "large", 1_800).status, Status::AllowedLast);
}
