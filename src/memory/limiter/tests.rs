use super::*;
use crate::algorithm::{ChargeRecord, FixedWindow, Gcra, SlidingCounter};
use crate::policy::ban::BanRule;
use crate::policy::decision::Status;
use crate::policy::policy_set::NamedPolicy;
use crate::policy::units::Units;

fn limiter(max_keys: usize) -> MemoryLimiter {
    let policy = Policy::Gcra(Gcra::new(2, 1_000_000, 2).unwrap());
    MemoryStore::new(max_keys, (1, 2)).open("test", policy).unwrap()
}

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

/// Executes an operation on a key that all policies count by.
fn run(
    limiter: &MemoryLimiter,
    text: &str,
    now: Micros,
    operation: &Operation,
) -> Result<Decision, OperationError> {
    let keys = vec![Some(key(text)); limiter.policies().key_dimensions()];
    limiter.execute(&keys, operation, &now).map(|executed| executed.response.decision)
}

fn peek(limiter: &MemoryLimiter, text: &str, now: Micros, cost: u64) -> Decision {
    run(limiter, text, now, &Operation::Peek { cost: cost.into() }).unwrap()
}

#[test]
fn the_short_way_decides_as_the_long_one() {
    let policies = [
        Policy::Gcra(Gcra::new(3, 1_000_000, 3).unwrap()),
        Policy::FixedWindow(FixedWindow::new(3, 1_000_000).unwrap()),
        Policy::SlidingCounter(SlidingCounter::new(3, 1_000_000).unwrap()),
    ];
    for policy in policies {
        let [short, long] =
            [(); 2].map(|()| MemoryStore::new(9, (1, 2)).open("test", policy.clone()).unwrap());
        for (now, cost) in [(0, 2), (10, 1), (20, 1), (400_000, 1), (500_000, 4), (3_000_000, 3)] {
            let response = long.take_with_report(key("a"), cost, &now);
            assert_eq!(short.take(key("a"), cost, &now), response.decision, "{policy:?} at {now}");
        }
    }
}

#[test]
fn limiters_of_one_prefix_write_states_with_the_same_numbers() {
    let store = MemoryStore::new(9, (1, 2));
    let limiters = [(); 2].map(|()| {
        let gcra = Policy::Gcra(Gcra::new(3, 1_000_000, 3).unwrap());
        store.open("test", gcra).unwrap()
    });
    let [State::Rate(one), State::Rate(other)] =
        limiters.map(|limiter| limiter.first.0.initial_state())
    else {
        panic!("not the states of rates")
    };
    assert!(Arc::ptr_eq(&one.numbers, &other.numbers));
}

#[test]
fn a_reset_key_is_fresh() {
    let limiter = limiter(9);
    assert_eq!(limiter.take(key("a"), 2, &0).status, Status::AllowedLast);
    assert_eq!(limiter.take(key("a"), 1, &0).status, Status::Refused);
    run(&limiter, "a", 0, &Operation::Reset).unwrap();
    let fresh = peek(&limiter, "a", 0, 0);
    assert_eq!((fresh.remaining, fresh.reset_after_ms), (2, 0));
    run(&limiter, "never seen", 0, &Operation::Reset).unwrap();
}

#[test]
fn a_key_in_a_shared_bucket_cannot_be_reset_alone() {
    let limiter = limiter(1);
    limiter.take(key("resident"), 1, &0);
    limiter.take(key("newcomer"), 1, &0);
    let refused = run(&limiter, "newcomer", 0, &Operation::Reset).unwrap_err();
    assert_eq!(refused.to_string(), "the store is full and the key shares its count with others");
    // Once the bucket is fresh there is nothing to reset.
    assert!(run(&limiter, "newcomer", 500_000, &Operation::Reset).is_ok());
}

#[test]
fn slots_are_scheduled_and_cancelled_except_in_a_shared_bucket() {
    let limiter = limiter(1);
    let execute =
        |name, now, operation: &_| limiter.execute(&[Some(key(name))], operation, &now).unwrap();
    for (name, comes_back) in [("resident", 1), ("newcomer", 0)] {
        limiter.take(key(name), 2, &0);
        let scheduled =
            execute(name, 0, &Operation::Schedule { cost: 1.into(), max_wait: 1_000_000 });
        assert_eq!((scheduled.units, scheduled.scheduled.len()), (500_000, 1));
        assert_eq!(limiter.take(key(name), 1, &499_999).status, Status::Refused);
        let cancel = Operation::CancelScheduled { scheduled: scheduled.scheduled };
        assert_eq!(execute(name, 0, &cancel).units, comes_back, "{name}");
        let reset_after_ms = peek(&limiter, name, 0, 0).reset_after_ms;
        assert_eq!(reset_after_ms, 1_500 - 500 * comes_back);
    }
}

#[test]
fn a_reset_key_keeps_its_room_in_a_full_store() {
    let limiter = limiter(1);
    limiter.take(key("resident"), 2, &0);
    limiter.take(key("newcomer"), 2, &0);
    run(&limiter, "resident", 0, &Operation::Reset).unwrap();
    assert_eq!(limiter.take(key("resident"), 2, &0).status, Status::AllowedLast);
}

#[test]
fn a_closed_limiter_frees_its_prefix_once() {
    let store = MemoryStore::new(9, (1, 2));
    let gcra = |limit| Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap());
    let (old, same) = (store.open("api", gcra(2)).unwrap(), store.open("api", gcra(2)).unwrap());
    old.take(key("a"), 2, &0);
    old.close();
    old.close();
    drop(old);
    let window = Policy::FixedWindow(FixedWindow::new(4, 1_000_000).unwrap());
    assert!(store.open("api", window).is_err(), "the other one is still open");
    drop(same);
    let new = store.open("api", gcra(4)).unwrap();
    assert_eq!(peek(&new, "a", 0, 0).remaining, 2, "the state is still there");
}

#[test]
fn a_refused_new_key_takes_no_capacity() {
    let limiter = limiter(9);
    assert_eq!(limiter.take(key("a"), 3, &0).status, Status::Impossible);
    assert_eq!(limiter.store.held_keys(), 0);
}

/// Found by a test whose two keys happened to share an overflow bucket.
#[test]
fn a_rule_for_bans_leaves_the_last_capacity_to_a_new_key() {
    let rule = BanRule::new(1, &[0, 1, 1_000, 1_000, 1_000]).unwrap();
    let policies = PolicySet::from(gcra(1)).with_ban(rule);
    let store = MemoryStore::new(1, (1, 2));
    let limiter = store.open("test", policies).unwrap();
    assert_eq!(limiter.take(key("a"), 1, &0).status, Status::AllowedLast);
    assert_eq!(store.held_keys(), 1, "the key has its own entry");
}

const BLOCK: Operation = Operation::Block { lasting: 10_000 };

fn gcra(limit: u64) -> Policy {
    Policy::Gcra(Gcra::new(limit, 1_000_000, limit).unwrap())
}

/// Two units by user, four and nine by address, on a store for `max_keys` keys.
fn two_key_dimensions(max_keys: usize) -> (Arc<MemoryStore>, MemoryLimiter) {
    let named = |name: &str, limit, key_dimension| NamedPolicy {
        name: name.into(),
        policy: gcra(limit),
        key_dimension,
    };
    let named = vec![named("user", 2, 0), named("address", 4, 1), named("all", 9, 1)];
    let policies = PolicySet::multi(named).unwrap();
    let store = MemoryStore::new(max_keys, (1, 2));
    let limiter = store.open("test", policies).unwrap();
    (store, limiter)
}

/// The response and the units.
fn execute(limiter: &MemoryLimiter, keys: [&str; 2], operation: &Operation) -> (Status, u64) {
    let keys = keys.map(|text| Key::new(text).ok());
    let executed = limiter.execute(&keys, operation, &0).unwrap();
    (executed.response.decision.status, executed.units)
}

const ONE: Operation = Operation::Take { cost: Units::Same(1) };

#[test]
fn each_policy_counts_by_the_key_of_its_dimension() {
    let (store, limiter) = two_key_dimensions(99);
    assert_eq!(execute(&limiter, ["ann", "origin"], &ONE), (Status::Allowed, 1));
    assert_eq!(execute(&limiter, ["ann", "work"], &ONE), (Status::AllowedLast, 1));
    assert_eq!(execute(&limiter, ["ann", "origin"], &ONE), (Status::Refused, 0));
    assert_eq!(execute(&limiter, ["bob", "origin"], &ONE), (Status::Allowed, 1));
    let peek = Operation::Peek { cost: 2.into() };
    let keys = [Some(key("cat")), Some(key("origin"))];
    let several = limiter.execute(&keys, &peek, &0).unwrap().response.limits.unwrap();
    let remaining: Vec<_> = several.limits.iter().map(|limit| limit.remaining).collect();
    assert_eq!(remaining, [2, 2, 7]);
    assert_eq!(store.held_keys(), 6, "nothing of what was only looked at");
}

#[test]
fn one_key_may_serve_all_key_dimensions() {
    let (_, limiter) = two_key_dimensions(99);
    assert_eq!(limiter.take(key("same"), 2, &0).status, Status::AllowedLast);
    assert_eq!(execute(&limiter, ["same", "same"], &ONE), (Status::Refused, 0));
    assert_eq!(peek(&limiter, "same", 0, 0).remaining, 0);
    run(&limiter, "same", 0, &Operation::Reset).unwrap();
    let response = limiter.take_with_report(key("same"), 1, &0).limits.unwrap();
    assert_eq!(response.limits.iter().map(|limit| limit.remaining).collect::<Vec<_>>(), [1, 3, 8]);
}

#[test]
fn a_block_in_one_key_dimension_leaves_others_alone() {
    let (_, limiter) = two_key_dimensions(99);
    assert_eq!(execute(&limiter, ["", "origin"], &BLOCK), (Status::Blocked, 0));
    assert_eq!(execute(&limiter, ["ann", "origin"], &ONE), (Status::Blocked, 0));
    assert_eq!(execute(&limiter, ["ann", "work"], &ONE), (Status::Allowed, 1));
    assert_eq!(execute(&limiter, ["", "origin"], &Operation::Unblock), (Status::Allowed, 0));
    assert_eq!(execute(&limiter, ["ann", "origin"], &ONE), (Status::AllowedLast, 1));
}

#[test]
fn a_block_counts_as_a_key_for_each_policy_until_it_has_ended() {
    let (store, limiter) = two_key_dimensions(2);
    assert_eq!(execute(&limiter, ["", "origin"], &BLOCK).0, Status::Blocked);
    assert_eq!(store.held_keys(), 2);
    let keys = [Some(key("ann")), Some(key("origin"))];
    let full = limiter.execute(&keys, &BLOCK, &9_999);
    assert_eq!(full, Err(OperationError::NoCapacity));
    assert_eq!(store.held_keys(), 2);
    // The blocked key needs no more capacity.
    assert!(limiter.execute(&[None, Some(key("origin"))], &BLOCK, &9_999).is_ok());
    let full = limiter.execute(&[None, Some(key("work"))], &BLOCK, &19_998);
    assert_eq!(full, Err(OperationError::NoCapacity));
    assert!(limiter.execute(&[None, Some(key("work"))], &BLOCK, &19_999).is_ok());
    assert_eq!(store.held_keys(), 2);
}

#[test]
fn if_there_is_room_for_some_only_none_is_claimed() {
    let (store, limiter) = two_key_dimensions(2);
    let keys = [Some(key("ann")), Some(key("origin"))];
    assert_eq!(limiter.execute(&keys, &BLOCK, &0), Err(OperationError::NoCapacity));
    assert_eq!(store.held_keys(), 0);
    assert_eq!(execute(&limiter, ["ann", "origin"], &ONE), (Status::Allowed, 1));
}

#[test]
fn what_is_dropped_of_a_key_leaves_its_block_and_its_numbers() {
    let store = MemoryStore::new(9, (1, 2));
    let limiter = store.open("test", gcra(2)).unwrap();
    let policies = vec![Some(Arc::new(gcra(5)))];
    let numbers = Operation::Override { policies, lasting: u64::MAX };
    limiter.execute(&[Some(key("a"))], &numbers, &0).unwrap();
    assert_eq!(limiter.take(key("a"), 5, &0).status, Status::AllowedLast);
    assert_eq!(store.held_keys(), 2);
    for n in 0..1_000_u64 {
        limiter.take(key("b"), 1, &(2_000_000 + n));
    }
    assert_eq!(store.held_keys(), 2, "of the first only its numbers");
    assert_eq!(limiter.take(key("b"), 3, &9_000_000).status, Status::Impossible);
    assert_eq!(peek(&limiter, "a", 9_000_000, 5).status, Status::AllowedLast);
    limiter.execute(&[Some(key("a"))], &Operation::ClearOverride, &9_000_000).unwrap();
    assert_eq!((store.held_keys(), peek(&limiter, "a", 9_000_000, 0).limit), (1, 2));
}

#[test]
fn an_override_with_numbers_of_another_kind_is_refused() {
    let (store, limiter) = two_key_dimensions(9);
    let override_by = |policies| Operation::Override { policies, lasting: 9 };
    let keys = [Some(key("a")), Some(key("a"))];
    let other = limiter.execute(&keys, &override_by(vec![None]), &0);
    assert_eq!(other, Err(OperationError::InvalidOverride));
    let own = override_by(vec![None, Some(Arc::new(gcra(5))), None]);
    assert!(limiter.execute(&keys, &own, &0).is_ok());
    assert_eq!(store.held_keys(), 1);
}

#[test]
fn what_a_shared_count_holds_is_neither_reset_nor_given_back() {
    let store = MemoryStore::new(1, (1, 2));
    let limiter = store.open("test", gcra(4)).unwrap();
    limiter.take(key("resident"), 2, &0);
    limiter.take(key("newcomer"), 2, &0);
    let taken = vec![ChargeRecord { at: 0, reset_at: 500_000, ..ChargeRecord::default() }];
    let refund = Operation::Refund { units: 1.into(), taken };
    let given = |text| limiter.execute(&[Some(key(text))], &refund, &0).unwrap();
    let own = given("resident");
    assert_eq!((own.units, own.response.decision.remaining), (1, 3));
    let shared = given("newcomer");
    assert_eq!((shared.units, shared.response.decision.remaining), (0, 2));
    let penalty = Operation::Penalize { units: 9.into() };
    assert_eq!(limiter.execute(&[Some(key("newcomer"))], &penalty, &0).unwrap().units, 2);
    let reset = limiter.execute(&[Some(key("newcomer"))], &Operation::Reset, &0);
    assert_eq!(reset, Err(OperationError::SharedBucket));
    assert_eq!(
        limiter.execute(&[Some(key("newcomer"))], &BLOCK, &0),
        Err(OperationError::NoCapacity)
    );
}
