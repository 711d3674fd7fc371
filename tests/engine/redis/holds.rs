//! Holds in Redis: a hold exists if and only if its units were charged, and each hold is removed in
//! the end.

use tollgate::algorithm::ChargeRecord;
use tollgate::key::Key;
use tollgate::policy::decision::Status;
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::{Charge, HoldId, Operation};
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{CallBatch, CallError, KeyNames, Script};

use crate::algorithm::sliding_window::SlidingSpec;
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};
use crate::redis::server::Server;
use crate::redis::twins::lasting;

const KEY: &str = "a";
const HOLDS: &[u8] = b"api:~holds:{a}";

/// The TTL of holds that end within a minute, in milliseconds: they can be settled for another hour.
const WITH_LATE: std::ops::RangeInclusive<u64> = 3_659_000..=3_660_001;

/// A rate, a window and buckets in a list: three ways of reading and writing.
fn policies() -> PolicySet {
    let rate = RateSpec { units: 10, period: HOUR, burst: 10 };
    let policies = [
        ("rate", rate.gcra()),
        ("window", WindowSpec { limit: 10, window: HOUR }.policy()),
        ("list", SlidingSpec { limit: 10, window: HOUR, buckets: 10 }.list()),
    ];
    let named =
        policies.map(|(name, policy)| NamedPolicy { name: name.into(), policy, key_dimension: 0 });
    PolicySet::multi(named.into()).unwrap()
}

fn reserve(hold: u8, lasting: u64) -> Operation {
    Operation::Reserve { cost: 4.into(), hold: [hold; 16], lasting }
}

fn settle(hold: u8, actual: u64, at: u64) -> Operation {
    let taken = vec![ChargeRecord { at, reset_at: at + HOUR, ..ChargeRecord::default() }; 3];
    Operation::Settle {
        hold: [hold; 16],
        actual: actual.into(),
        charges: vec![Charge { units: 4.into(), taken }],
    }
}

fn execute(
    server: &mut Server,
    operations: &[Operation],
    now: Option<u64>,
) -> Vec<Result<Execution, CallError>> {
    let policies = policies();
    let (names, mut batch) = (KeyNames::new("api", &policies), CallBatch::new());
    for operation in operations {
        batch.push_operation(&names, &[Some(Key::new(KEY).unwrap())], None, operation.clone());
    }
    match now {
        None => server.execute(Script::limiter(), &policies, &batch, &[]),
        Some(now) => {
            server.execute(lasting(), &policies, &batch, &[String::new(), now.to_string()])
        }
    }
}

fn one(
    server: &mut Server,
    operation: &Operation,
    now: Option<u64>,
) -> Result<Execution, CallError> {
    execute(server, std::slice::from_ref(operation), now).pop().unwrap()
}

fn remaining(server: &mut Server) -> Vec<u64> {
    let peeked = one(server, &Operation::Unblock, None).unwrap();
    peeked.response.limits.unwrap().limits.iter().map(|limit| limit.remaining).collect()
}

/// The identifiers of the holds. Each has a second member with its units.
fn held(server: &mut Server) -> Vec<Vec<u8>> {
    let members: Vec<Vec<u8>> = server.run(&[b"ZRANGE", HOLDS, b"0", b"-1"]);
    let pairs = members.chunks_exact(2);
    assert!(
        pairs.remainder().is_empty() && pairs.clone().all(|pair| pair[1].starts_with(&pair[0]))
    );
    pairs.map(|pair| pair[0].clone()).collect()
}

#[test]
fn the_set_expires_with_the_last_hold_and_not_before() {
    let mut server = Server::start();
    let ttl = |server: &mut Server| -> u64 { server.run(&[b"PTTL", HOLDS]) };
    one(&mut server, &reserve(1, 60 * SECOND), None).unwrap();
    assert!(WITH_LATE.contains(&ttl(&mut server)), "{}", ttl(&mut server));
    one(&mut server, &reserve(2, 5 * SECOND), None).unwrap();
    assert!(WITH_LATE.contains(&ttl(&mut server)), "{}", ttl(&mut server));
    let exists: u64 = server.run(&[b"EXISTS", HOLDS]);
    assert_eq!((exists, held(&mut server).len()), (1, 2));
}

#[test]
fn a_refused_reservation_leaves_no_hold() {
    let mut server = Server::start();
    let made =
        execute(&mut server, &[reserve(1, SECOND), reserve(2, SECOND), reserve(3, SECOND)], None);
    let statuses: Vec<_> =
        made.iter().map(|one| one.as_ref().unwrap().response.decision.status).collect();
    assert_eq!(statuses, [Status::Allowed, Status::Allowed, Status::Refused]);
    assert_eq!(held(&mut server).len(), 2);
    one(&mut server, &Operation::Reset, None).unwrap();
    one(&mut server, &Operation::Block { lasting: HOUR }, None).unwrap();
    let blocked = one(&mut server, &reserve(4, SECOND), None).unwrap();
    assert_eq!((blocked.response.decision.status, blocked.units), (Status::Blocked, 0));
    assert_eq!(held(&mut server), Vec::<Vec<u8>>::new());
}

// promise: settled-once
#[test]
fn a_hold_is_settled_once_also_within_a_batch() {
    let mut server = Server::start();
    let now = 1_700_000_000 * SECOND;
    let all = [
        reserve(1, SECOND),
        settle(1, 1, now),
        settle(1, 0, now),
        settle(2, 0, now),
        reserve(2, SECOND),
        settle(2, 6, now),
        settle(2, 0, now),
    ];
    let units: Vec<_> =
        execute(&mut server, &all, Some(now)).into_iter().map(|one| one.unwrap().units).collect();
    assert_eq!(units, [4, 3, 0, 0, 4, 2, 0]);
    assert_eq!(held(&mut server), Vec::<Vec<u8>>::new());
    let refused = one(&mut server, &reserve(3, SECOND), Some(now)).unwrap();
    assert_eq!(refused.response.decision.status, Status::Refused);
}

#[test]
fn what_has_ended_cannot_be_settled_and_makes_room() {
    let mut server = Server::start();
    let start = 1_700_000_000 * SECOND;
    for number in 0..250_u8 {
        let id: HoldId = [number; 16];
        let record = [&id[..], &[0; 8]].concat();
        let end = b"1600000000000000";
        let _: u64 = server.run(&[b"ZADD", HOLDS, end, &id, end, &record]);
    }
    one(&mut server, &reserve(251, SECOND), Some(start)).unwrap();
    assert_eq!(held(&mut server).len(), 201, "one call drops fifty holds");
    assert_eq!(one(&mut server, &settle(200, 0, start), Some(start)).unwrap().units, 0);
    let last = settle(251, 0, start);
    assert_eq!(one(&mut server, &last, Some(start + SECOND + HOUR)).unwrap().units, 0);
    assert_eq!(one(&mut server, &last, Some(start + SECOND - 1)).unwrap().units, 4);
}

#[test]
fn where_holds_cannot_be_kept_nothing_is_charged() {
    let mut server = Server::start();
    one(&mut server, &Operation::Take { cost: 1.into() }, None).unwrap();
    let _: u64 = server.run(&[b"RPUSH", HOLDS, b"x"]);
    let all =
        [reserve(1, SECOND), Operation::Take { cost: 1.into() }, settle(1, 0, 0), settle(1, 9, 0)];
    let [reserved, taken, settled, more] = execute(&mut server, &all, None).try_into().unwrap();
    assert_eq!(reserved, Err(CallError::Unreadable));
    assert_eq!(taken.unwrap().units, 1, "other calls are charged");
    assert_eq!((settled, more), (Err(CallError::Unreadable), Err(CallError::Unreadable)));
    assert_eq!(remaining(&mut server), [8, 8, 8]);
    let kind: String = server.run(&[b"TYPE", HOLDS]);
    assert_eq!(kind, "list", "the value must not be overwritten");
}

#[test]
fn without_memory_there_is_neither_hold_nor_charge() {
    let mut server = Server::start();
    one(&mut server, &Operation::Take { cost: 1.into() }, None).unwrap();
    let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    for reserved in execute(&mut server, &[reserve(1, SECOND), reserve(2, SECOND)], None) {
        let Err(CallError::Unwritten(why)) = reserved else {
            panic!("{reserved:?} without memory")
        };
        assert!(why.contains("OOM"), "{why}");
    }
    let _: () = server.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    assert_eq!(held(&mut server), Vec::<Vec<u8>>::new());
    assert_eq!(remaining(&mut server), [9, 9, 9]);
}

/// A key of another type is noticed only when it is written.
#[test]
fn a_state_that_cannot_be_written_undoes_what_was_done_to_the_hold() {
    let mut server = Server::start();
    one(&mut server, &reserve(1, 60 * SECOND), None).unwrap();
    let window: &[u8] = b"api:window:fw:{a}";
    let deleted: u64 = server.run(&[b"DEL", window]);
    assert_eq!(deleted, 1);
    let _: u64 = server.run(&[b"RPUSH", window, b"x"]);
    assert_eq!(one(&mut server, &reserve(2, SECOND), None), Err(CallError::Unreadable));
    assert_eq!(held(&mut server), [[1; 16]]);
    assert_eq!(one(&mut server, &settle(1, 5, 0), None), Err(CallError::Unreadable));
    assert_eq!(held(&mut server), [[1; 16]], "the hold remains");
    let ttl: u64 = server.run(&[b"PTTL", HOLDS]);
    assert!(WITH_LATE.contains(&ttl), "{ttl}");
}

#[test]
fn an_extension_changes_the_units_and_the_end_of_a_hold() {
    let mut server = Server::start();
    let now = 1_700_000_000 * SECOND;
    let extend = |cost, lasting| Operation::Extend { hold: [1; 16], cost, lasting };
    let all = [
        extend(1.into(), SECOND),
        reserve(1, SECOND),
        extend(3.into(), 5 * SECOND),
        extend(4.into(), 9 * SECOND),
        Operation::Renew { hold: [1; 16], lasting: 2 * SECOND },
    ];
    let executed = execute(&mut server, &all, Some(now)).into_iter().map(Result::unwrap);
    let units: Vec<_> =
        executed.map(|one| (one.units, one.held().map(|held| held.of(0)))).collect();
    assert_eq!(units, [(0, Some(0)), (4, None), (3, Some(7)), (0, Some(7)), (1, None)]);
    assert_eq!(held(&mut server), [[1; 16]]);
    let (last, end) = (settle(1, 7, now), now + 5 * SECOND);
    assert_eq!(one(&mut server, &last, Some(end + HOUR)).unwrap().held(), Some(&0.into()));
    let late = one(&mut server, &last, Some(end)).unwrap();
    assert_eq!((late.held(), late.settled().unwrap().is_late), (Some(&7.into()), true));
    assert_eq!(held(&mut server), Vec::<Vec<u8>>::new());
}

#[test]
fn an_extension_that_cannot_be_written_undoes_what_was_done_to_the_hold() {
    let mut server = Server::start();
    one(&mut server, &reserve(1, 60 * SECOND), None).unwrap();
    let window: &[u8] = b"api:window:fw:{a}";
    let _: u64 = server.run(&[b"DEL", window]);
    let _: u64 = server.run(&[b"RPUSH", window, b"x"]);
    let extend = Operation::Extend { hold: [1; 16], cost: 2.into(), lasting: 90 * SECOND };
    assert_eq!(one(&mut server, &extend, None), Err(CallError::Unreadable));
    assert_eq!(held(&mut server), [[1; 16]]);
    let _: u64 = server.run(&[b"DEL", window]);
    assert_eq!(one(&mut server, &settle(1, 4, 0), None).unwrap().held(), Some(&4.into()));
}

#[test]
fn a_reset_forgets_the_holds_and_others_keep_theirs() {
    let mut server = Server::start();
    one(&mut server, &reserve(1, SECOND), None).unwrap();
    let _: u64 = server.run(&[b"ZADD", b"api:~holds:{b}", b"9000000000000000", &[1; 16]]);
    let all = [Operation::Reset, settle(1, 0, 0), reserve(2, SECOND)];
    let units: Vec<_> =
        execute(&mut server, &all, None).into_iter().map(|one| one.unwrap().units).collect();
    assert_eq!(units, [0, 0, 4]);
    assert_eq!(held(&mut server), [[2; 16]]);
    let others: u64 = server.run(&[b"ZCARD", b"api:~holds:{b}"]);
    assert_eq!(others, 1);
}
