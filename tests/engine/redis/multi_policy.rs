//! Stored values of operations and of several policies: TTLs are long enough, and either all
//! policies charge or none if a key cannot be read or written.

use std::sync::Arc;

use tollgate::key::Key;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{CallBatch, CallError, KeyNames, Script};

use crate::redis::policy_sets::{KINDS, policy};
use crate::redis::server::Server;

const HOUR: u64 = 3_600_000_000;

fn execute(
    server: &mut Server,
    policies: &PolicySet,
    operation: Operation,
) -> Result<Execution, CallError> {
    perform_as(server, policies, operation, false)
}

/// The same, with and without the expectation that windows are open and have room.
fn perform_as(
    server: &mut Server,
    policies: &PolicySet,
    operation: Operation,
    expected: bool,
) -> Result<Execution, CallError> {
    let mut batch = CallBatch::new();
    batch.set_optimistic(expected);
    let key = Some(Key::new("a").unwrap());
    batch.push_operation(&KeyNames::new("api", policies), &[key], None, operation);
    server.execute(Script::limiter(), policies, &batch, &[]).remove(0)
}

/// The TTL of the only key, in milliseconds; `None` if Redis has no key.
fn ttl(server: &mut Server) -> Option<i64> {
    let keys: Vec<Vec<u8>> = server.run(&[b"KEYS", b"*"]);
    assert!(keys.len() <= 1, "{keys:?}");
    keys.first().map(|key| server.run(&[b"PTTL", key]))
}

#[test]
fn a_key_lives_as_long_as_its_block_and_its_own_numbers_last_and_not_for_ever() {
    let mut server = Server::start();
    // A key may have expired since it was listed.
    let has_ttl = |ttl| ttl != -1;
    for kind in 0..KINDS {
        for used in [false, true] {
            let _: () = server.run(&[b"FLUSHALL"]);
            let policies = PolicySet::single(policy(kind, 10));
            let mut done = |operation| {
                let asked = format!("{operation:?}");
                execute(&mut server, &policies, operation)
                    .unwrap_or_else(|error| panic!("{error}: {asked}, kind {kind}"));
                ttl(&mut server)
            };
            if used {
                done(Operation::Take { cost: 2.into() });
            }
            let lives = |ttl: Option<i64>, hours: i64| {
                let ttl = ttl.unwrap_or_default();
                assert!(ttl > hours * 3_600_000 - 5_000, "{ttl} ms of {hours} h, kind {kind}");
            };
            lives(done(Operation::Block { lasting: 400 * HOUR }), 400);
            lives(done(Operation::Take { cost: 1.into() }), 400);
            let own = vec![Some(Arc::new(policy(kind, 20)))];
            lives(done(Operation::Override { policies: own, lasting: 500 * HOUR }), 500);
            lives(done(Operation::Unblock), 500);
            lives(done(Operation::Take { cost: 1.into() }), 500);
            lives(done(Operation::Reset), 500);
            // A key that exists now may live for a while, but must have a TTL.
            assert!(done(Operation::ClearOverride).is_none_or(has_ttl), "kind {kind}");
            // A mark keeps it for as long as its units would have counted.
            assert!(done(Operation::Reset).is_none_or(has_ttl), "kind {kind}");
        }
    }
}

fn three(kinds: [usize; 3]) -> PolicySet {
    let named = ["a", "b", "c"].into_iter().zip(kinds).map(|(name, kind)| NamedPolicy {
        name: name.into(),
        policy: policy(kind, 10),
        key_dimension: 0,
    });
    PolicySet::multi(named.collect()).unwrap()
}

/// Mixes with a fast path, and some without.
const MIXES: [[usize; 3]; 5] = [[0, 5, 7], [3, 6, 1], [5, 5, 0], [8, 9, 10], [11, 0, 8]];

#[test]
fn a_key_that_cannot_be_read_fails_the_call_and_no_policy_is_charged() {
    let mut server = Server::start();
    for kinds in MIXES {
        for broken in 0..3 {
            let _: () = server.run(&[b"FLUSHALL"]);
            let policies = three(kinds);
            // Twice, so that all keys exist.
            for _ in 0..2 {
                execute(&mut server, &policies, Operation::Take { cost: 1.into() }).unwrap();
            }
            let mut names: Vec<Vec<u8>> = server.run(&[b"KEYS", b"*"]);
            names.sort();
            let name = names.swap_remove(broken);
            let _: () = server.run(&[b"SET", &name, b"garbage"]);
            let dumps = |server: &mut Server| -> Vec<Vec<u8>> {
                names.iter().map(|name| server.run(&[b"DUMP", name])).collect()
            };
            let before = dumps(&mut server);
            for (cost, expected) in [(1, false), (1, true), (2, false)] {
                let take = Operation::Take { cost: cost.into() };
                let taken = perform_as(&mut server, &policies, take, expected);
                assert_eq!(taken, Err(CallError::Unreadable), "{kinds:?}");
            }
            assert_eq!(dumps(&mut server), before, "{kinds:?}");
        }
    }
}

#[test]
fn without_memory_no_policy_is_charged_and_the_caller_hears_why() {
    let mut server = Server::start();
    for kinds in MIXES {
        for used in [false, true] {
            let _: () = server.run(&[b"FLUSHALL"]);
            let policies = three(kinds);
            if used {
                execute(&mut server, &policies, Operation::Take { cost: 1.into() }).unwrap();
            }
            let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
            for operation in [
                Operation::Take { cost: 1.into() },
                Operation::Take { cost: 2.into() },
                Operation::Penalize { units: 1.into() },
                Operation::Block { lasting: HOUR },
            ] {
                for expected in [false, true] {
                    match perform_as(&mut server, &policies, operation.clone(), expected) {
                        Err(CallError::Unwritten(why)) => assert!(why.contains("OOM"), "{why}"),
                        other => panic!("{other:?} without memory: {operation:?}, {kinds:?}"),
                    }
                }
            }
            let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
            let executed =
                execute(&mut server, &policies, Operation::Take { cost: 1.into() }).unwrap();
            assert_eq!(executed.response.decision.status, Status::Allowed);
            let limits = executed.response.limits.unwrap().limits;
            let spent = u64::from(used) + 1;
            assert!(limits.iter().all(|one| one.remaining + spent >= 9), "{limits:?}");
            // A rate gains a unit every 70 milliseconds or more.
            let windows = limits.iter().filter(|one| one.capacity - one.remaining == spent).count();
            assert!(windows >= 2, "{kinds:?}: {limits:?}");
        }
    }
}
