//! In a batch, a key that cannot be read or written fails only for its own caller.

use tollgate::calendar::Every;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::redis::{CallBatch, CallError, KeyNames, Script};

use crate::algorithm::buckets::{BucketSpec, leaky};
use crate::algorithm::calendar_window::CalendarSpec;
use crate::algorithm::sliding_counter::CounterSpec;
use crate::algorithm::sliding_window::SlidingSpec;
use crate::policy::specs::{HOUR, RateSpec, WindowSpec};
use crate::redis::server::Server;

fn policies() -> Vec<Policy> {
    let rate = RateSpec { units: 10, period: HOUR, burst: 10 };
    vec![
        rate.gcra(),
        leaky(rate),
        BucketSpec { rate, initial: 10, debt: 0 }.interval(),
        WindowSpec { limit: 10, window: HOUR }.policy(),
        CalendarSpec { limit: 10, every: Every::Month, zone: "Asia/Tokyo" }.policy(),
        CounterSpec { limit: 10, window_ms: 3_600_000 }.policy(),
        SlidingSpec { limit: 10, window: HOUR, buckets: 10 }.list(),
        SlidingSpec { limit: 10, window: HOUR, buckets: 10 }.hash(),
    ]
}

fn batch(policy: &Policy, keys: &[&str]) -> (CallBatch, KeyNames) {
    let names = KeyNames::new("api", &policy.clone().into());
    let mut batch = CallBatch::new();
    for key in keys {
        batch.push(&names, Key::new(key).unwrap(), 1);
    }
    (batch, names)
}

const GARBAGE: [&[u8]; 9] = [
    b"garbage",
    b"",
    b"12.5",
    b"-7",
    b"1:2:3",
    b"99999999999999999999",
    &[0xff; 40],
    &[0; 40],
    &[0; 32],
];

fn is_allowed(status: Status) -> bool {
    matches!(status, Status::Allowed | Status::AllowedLast)
}

#[test]
fn sixty_four_calls_on_one_key_admit_the_burst() {
    let mut server = Server::start();
    for policy in policies() {
        let (batch, _) = batch(&policy, &["hot"; 64]);
        let decisions = server.decide(Script::limiter(), &policy, &batch, &[]);
        let statuses: Vec<_> = decisions.into_iter().map(|one| one.unwrap().status).collect();
        assert_eq!(statuses.iter().filter(|status| is_allowed(**status)).count(), 10);
        assert_eq!(statuses[9], Status::AllowedLast);
    }
}

#[test]
fn a_value_that_cannot_be_read_fails_for_its_own_caller_only() {
    let mut server = Server::start();
    for policy in policies() {
        for text in GARBAGE {
            let _: () = server.run(&[b"FLUSHALL"]);
            let mut keys = vec!["hot"; 20];
            keys.push("corrupt");
            let others: Vec<String> = (0..43).map(|n| format!("other {n}")).collect();
            keys.extend(others.iter().map(String::as_str));
            let (batch, names) = batch(&policy, &keys);
            let corrupt = names.of(Key::new("corrupt").unwrap());
            let _: () = server.run(&[b"SET", &corrupt, text]);

            let decisions = server.decide(Script::limiter(), &policy, &batch, &[]);
            let allowed = |range: &[Result<_, CallError>]| {
                let of = |one: &Result<tollgate::policy::decision::Decision, _>| {
                    is_allowed(one.as_ref().unwrap().status)
                };
                range.iter().filter(|one| of(one)).count()
            };
            assert_eq!(allowed(&decisions[..20]), 10, "{text:?}");
            assert_eq!(decisions[20], Err(CallError::Unreadable), "{text:?}");
            assert_eq!(allowed(&decisions[21..]), 43);
            let after: Vec<u8> = server.run(&[b"GET", &corrupt]);
            assert_eq!(after, text, "the value must not be overwritten");
        }
    }
}

/// The fast paths for one unit on each key, on existing keys and on new ones.
#[test]
fn what_cannot_be_read_or_written_is_left_alone_among_single_units() {
    let mut server = Server::start();
    for (policy, expected) in policies().iter().flat_map(|policy| [(policy, false), (policy, true)])
    {
        for text in GARBAGE {
            let _: () = server.run(&[b"FLUSHALL"]);
            let (batch, names) = batch(policy, &["a", "garbage", "b", "list", "c"]);
            let (garbage, list) =
                (names.of(Key::new("garbage").unwrap()), names.of(Key::new("list").unwrap()));
            let _: () = server.run(&[b"SET", &garbage, text]);
            let _: () = server.run(&[b"ZADD", &list, b"1", b"x"]);
            batch.set_optimistic(expected);
            for remaining in [9, 8, 7] {
                let decisions = server.decide(Script::limiter(), policy, &batch, &[]);
                let [a, unreadable, b, other_type, c] = decisions.try_into().unwrap();
                assert_eq!([a, b, c].map(|one| one.unwrap().remaining), [remaining; 3]);
                assert_eq!(unreadable, Err(CallError::Unreadable), "{text:?}");
                assert_eq!(other_type, Err(CallError::Unreadable));
            }
            let left: Vec<u8> = server.run(&[b"GET", &garbage]);
            assert_eq!(left, text, "the value must not be overwritten");
            let kind: String = server.run(&[b"TYPE", &list]);
            assert_eq!(kind, "zset");
        }
        let (batch, names) = batch(policy, &["a", "b"]);
        batch.set_optimistic(expected);
        let before: Vec<u8> = server.run(&[b"DUMP", &names.of(Key::new("a").unwrap())]);
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        for decision in server.decide(Script::limiter(), policy, &batch, &[]) {
            assert!(matches!(decision, Err(CallError::Unwritten(_))), "{decision:?}");
        }
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
        let after: Vec<u8> = server.run(&[b"DUMP", &names.of(Key::new("a").unwrap())]);
        assert_eq!(after, before);
    }
}

#[test]
fn a_key_of_another_type_is_not_overwritten() {
    let mut server = Server::start();
    for policy in policies() {
        let (batch, names) = batch(&policy, &["a", "list", "b"]);
        let list = names.of(Key::new("list").unwrap());
        let _: () = server.run(&[b"RPUSH", &list, b"x"]);
        let decisions = server.decide(Script::limiter(), &policy, &batch, &[]);
        assert!(decisions[0].is_ok() && decisions[2].is_ok());
        assert_eq!(decisions[1], Err(CallError::Unreadable));
        let kind: String = server.run(&[b"TYPE", &list]);
        assert_eq!(kind, "list");
    }
}

#[test]
fn a_key_that_redis_refuses_to_write_says_why_and_is_not_charged() {
    let mut server = Server::start();
    for policy in policies() {
        let (batch, _) = batch(&policy, &["a", "b", "a"]);
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        for decision in server.decide(Script::limiter(), &policy, &batch, &[]) {
            let Err(CallError::Unwritten(why)) = decision else {
                panic!("{decision:?} without memory");
            };
            assert!(why.starts_with("OOM ") && why.trim_end() == why, "{why:?}");
        }
        let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
        let decisions = server.decide(Script::limiter(), &policy, &batch, &[]);
        let remaining = decisions.into_iter().map(|one| one.unwrap().remaining);
        assert_eq!(remaining.collect::<Vec<_>>(), [9, 9, 8]);
    }
}
