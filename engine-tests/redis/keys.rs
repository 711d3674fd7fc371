//! What stands in Redis: every key has a TTL that is long enough, and a refused call leaves value
//! and TTL as they were.

use std::thread;
use std::time::Duration;

use tollgate::decision::{Decision, Status};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::store::redis::{Batch, Names, Script};

use super::server::Server;
use crate::policies::{DAY, HOUR, MILLI, RateSpec, SECOND, WindowSpec};

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
    ]
}

fn take(server: &mut Server, policy: &Policy, key: &str, cost: u64) -> Decision {
    let mut batch = Batch::new();
    batch.push(&Names::new("api", "default", policy), Key::new(key).unwrap(), cost);
    server.decide(Script::of(policy), policy, &batch, &[]).remove(0).unwrap()
}

fn name(policy: &Policy, key: &str) -> String {
    Names::new("api", "default", policy).of(Key::new(key).unwrap())
}

#[test]
fn every_key_outlives_its_reset_and_no_longer_than_four_times() {
    let mut server = Server::start();
    for policy in policies() {
        let _: () = server.run(&[b"FLUSHALL"]);
        for _ in 0..12 {
            let decision = take(&mut server, &policy, "a", 1);
            let ttl: i64 = server.run(&[b"PTTL", name(&policy, "a").as_bytes()]);
            // The answer and the TTL are read a moment apart.
            let reset = i64::try_from(decision.reset_after_ms).unwrap();
            assert!(ttl > 0 || reset < 50, "{policy:?}: {ttl}");
            assert!(ttl >= reset - 50, "{policy:?}: {ttl} for {reset}");
            let most = reset.max(1_000) * 4;
            assert!(ttl <= most.max(80 * 86_400_000 * 30), "{policy:?}: {ttl} for {reset}");
        }
    }
}

#[test]
fn a_refused_call_leaves_value_and_ttl_as_they_were() {
    let mut server = Server::start();
    for (index, policy) in policies().into_iter().enumerate() {
        let key = format!("key {index}");
        let name = name(&policy, &key);
        let limit = take(&mut server, &policy, &key, 1).limit;
        take(&mut server, &policy, &key, limit - 1);
        let before: (Option<Vec<u8>>, i64) = state(&mut server, &name);
        for cost in [limit, limit + 1] {
            let decision = take(&mut server, &policy, &key, cost);
            // The shortest policies have drained by now; the others must not have changed.
            if matches!(decision.status, Status::Refused | Status::Impossible) {
                let after = state(&mut server, &name);
                assert_eq!((&after.0, after.1), (&before.0, before.1), "{policy:?}");
            }
        }
    }
}

/// The value, and when it expires.
fn state(server: &mut Server, name: &str) -> (Option<Vec<u8>>, i64) {
    let value = server.run(&[b"GET", name.as_bytes()]);
    (value, server.run(&[b"PEXPIRETIME", name.as_bytes()]))
}

#[test]
fn deleting_a_settled_key_changes_no_decision() {
    let mut server = Server::start();
    for policy in [
        RateSpec { units: 10, period: SECOND, burst: 3 }.gcra(),
        WindowSpec { limit: 3, window: 100 * MILLI }.policy(),
    ] {
        let decision = take(&mut server, &policy, "kept", 3);
        take(&mut server, &policy, "deleted", 3);
        thread::sleep(Duration::from_millis(decision.reset_after_ms + 5));
        let _: i64 = server.run(&[b"DEL", name(&policy, "deleted").as_bytes()]);
        let [kept, deleted] = ["kept", "deleted"].map(|key| take(&mut server, &policy, key, 2));
        assert_eq!((kept.status, kept.remaining), (deleted.status, deleted.remaining));
        assert_eq!(kept.status, Status::Allowed);
    }
}

#[test]
fn a_windows_value_is_one_integer_where_it_fits() {
    let mut server = Server::start();
    let small = WindowSpec { limit: 8_191, window: HOUR }.policy();
    let large = WindowSpec { limit: 10_000, window: HOUR }.policy();
    take(&mut server, &small, "small", 5);
    take(&mut server, &small, "small", 8_186);
    let value: String = server.run(&[b"GET", name(&small, "small").as_bytes()]);
    assert!(value.parse::<u64>().is_ok_and(|packed| packed % 8_192 == 8_191), "{value}");
    take(&mut server, &large, "large", 8_191);
    take(&mut server, &large, "large", 9);
    let value: String = server.run(&[b"GET", name(&large, "large").as_bytes()]);
    assert!(value.ends_with(":8200"), "{value}");
    assert_eq!(take(&mut server, &large, "large", 1_800).status, Status::AllowedLast);
}
