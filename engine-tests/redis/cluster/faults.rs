//! A store over a Redis Cluster with nodes that die, freeze and come back.

use std::thread;
use std::time::{Duration, Instant};

use tollgate::redis::{CallFailure, Health, ScriptFailure};

use crate::redis::cluster::nodes::{Nodes, until};
use crate::redis::cluster::router::{
    GRACE, LIMIT, Limiter, Outcome, TIMEOUT, decide, numbered, runtime,
};

/// A timeout shorter than the time after which nodes notice a missing node.
const SHORT: Duration = Duration::from_millis(400);

fn is_uncharged(outcome: &Outcome) -> bool {
    matches!(outcome.told, Err(CallFailure::Script(ScriptFailure::Unavailable(_))))
}

#[test]
fn a_frozen_node_delays_only_its_own_keys_and_what_it_ran_late_is_not_run_again() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    for node in &mut nodes.masters {
        // A pause must not cause a failover.
        let _: () = node.run("CONFIG SET cluster-node-timeout 60000");
    }
    let cluster = nodes.opened(&runtime, SHORT);
    let keys = Nodes::keys_by_owner(20);
    let all: Vec<_> = (0..3).flat_map(|owner| keys[&owner].clone()).collect();
    limiter.take(&cluster, &all, None);
    nodes.masters[1].signal("STOP");
    let mut failures = 0;
    for outcome in limiter.decide(&cluster, &all, None, SHORT) {
        if Nodes::owner_of(&all[outcome.call]) == 1 {
            assert_eq!(outcome.told, Err(CallFailure::Script(ScriptFailure::TimedOut)));
            assert!(outcome.after < SHORT + GRACE, "{:?}", outcome.after);
            failures += 1;
        } else {
            assert_eq!(outcome.told, Ok(LIMIT - 2));
            assert!(outcome.after < SHORT, "{:?}", outcome.after);
        }
    }
    assert_eq!(failures, 20);
    // The node is known to be unavailable: calls on its keys fail immediately, and no others.
    until("the circuit", || {
        let begun = Instant::now();
        let told: Vec<_> = limiter.decide(&cluster, &keys[&1], None, SHORT).into_iter().collect();
        (begun.elapsed() < SHORT / 4 && told.iter().all(is_uncharged)).then_some(())
    });
    assert_eq!(limiter.take(&cluster, &keys[&0], None), vec![LIMIT - 3; 20]);
    assert!(cluster.is_up());
    nodes.masters[1].signal("CONT");
    let begun = Instant::now();
    let probe = vec![keys[&1][0].clone()];
    until("the node", || {
        limiter
            .decide(&cluster, &probe, None, SHORT)
            .into_iter()
            .all(|one| one.told.is_ok())
            .then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // Requests sent to the frozen node ran when it continued: one call, and none of those that the
    // circuit breaker refused.
    let taken = limiter.take(&cluster, &keys[&1][1..], None);
    let used: Vec<_> = taken.iter().map(|remaining| LIMIT - remaining).collect();
    assert!(used.iter().all(|used| (3..=4).contains(used)), "{used:?}");
}

#[test]
fn without_a_replica_the_keys_of_a_dead_node_fail_until_it_is_back() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    for node in &mut nodes.masters {
        let _: () = node.run("CONFIG SET cluster-require-full-coverage no");
    }
    let cluster = nodes.opened(&runtime, SHORT);
    let keys = Nodes::keys_by_owner(20);
    let all: Vec<_> = (0..3).flat_map(|owner| keys[&owner].clone()).collect();
    limiter.take(&cluster, &all, None);
    nodes.masters[2].kill();
    let mut rounds = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        for outcome in limiter.decide(&cluster, &all, None, SHORT) {
            assert!(outcome.after < SHORT + GRACE, "{outcome:?}");
            if Nodes::owner_of(&all[outcome.call]) == 2 {
                assert!(
                    matches!(
                        outcome.told,
                        Err(CallFailure::Script(
                            ScriptFailure::Broken(_) | ScriptFailure::Unavailable(_)
                        ))
                    ),
                    "{outcome:?}"
                );
            } else {
                assert!(outcome.told.is_ok(), "{outcome:?}");
            }
        }
        rounds += 1;
        thread::sleep(Duration::from_millis(10));
    }
    assert!(rounds > 30, "{rounds} rounds: a node that is known to be away answers at once");
    assert!(
        limiter.decide(&cluster, &keys[&2], None, SHORT).into_iter().all(|one| is_uncharged(&one))
    );
    let dead = nodes.masters.remove(2);
    nodes.masters.push(dead.restart());
    nodes.until_well();
    let begun = Instant::now();
    until("the node", || {
        let told = limiter.decide(&cluster, &keys[&2], None, SHORT);
        told.into_iter().all(|one| one.told.is_ok()).then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn where_slots_without_an_owner_stop_all_the_store_is_down_and_back_with_them() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, SHORT);
    limiter.take(&cluster, &numbered(50), None);
    nodes.masters[0].kill();
    let health = cluster.health();
    until("the circuit", || matches!(*health.borrow(), Health::Down(_)).then_some(()));
    let begun = Instant::now();
    let told: Vec<_> = limiter.decide(&cluster, &numbered(50), None, SHORT).into_iter().collect();
    assert!(begun.elapsed() < SHORT && told.iter().all(is_uncharged), "{told:?}");
    let dead = nodes.masters.remove(0);
    nodes.masters.insert(0, dead.restart());
    nodes.until_well();
    let begun = Instant::now();
    until("the store", || matches!(*health.borrow(), Health::Up(_)).then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let told: Vec<_> = limiter.decide(&cluster, &numbered(50), None, TIMEOUT).into_iter().collect();
    assert!(told.iter().all(|one| one.told.is_ok()), "{told:?}");
}

/// Calls all keys until the replica decides the keys of a dead master. The master's loss is limited
/// to writes that it had not replicated.
fn fails_over(fail: impl FnOnce(&mut Nodes)) {
    let (mut nodes, runtime, limiter) = (Nodes::start(true), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, TIMEOUT);
    let keys = Nodes::keys_by_owner(10);
    let all: Vec<_> = (0..3).flat_map(|owner| keys[&owner].clone()).collect();
    for _ in 0..5 {
        limiter.take(&cluster, &all, None);
    }
    // The replicas have the writes.
    let _: i64 = nodes.masters[1].run("WAIT 1 1000");
    fail(&mut nodes);
    let begun = Instant::now();
    let promoted_at = thread::scope(|scope| {
        let replica = &mut nodes.replicas[1];
        let promoted = scope.spawn(move || {
            until("the failover", || {
                replica.run::<String>("INFO replication").contains("role:master").then_some(())
            });
            Instant::now()
        });
        let (mut well_at, mut attempts) = (None, 0);
        while well_at.is_none_or(|at: Instant| at.elapsed() < Duration::from_millis(300)) {
            let mut all_well = true;
            attempts += 1;
            for outcome in limiter.decide(&cluster, &all, None, TIMEOUT) {
                assert!(outcome.after < TIMEOUT + GRACE, "{outcome:?}");
                if Nodes::owner_of(&all[outcome.call]) == 1 {
                    all_well &= outcome.told.is_ok();
                } else {
                    assert!(outcome.told.is_ok(), "{outcome:?}");
                }
            }
            if all_well {
                well_at.get_or_insert_with(Instant::now);
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{attempts} attempts");
            thread::sleep(Duration::from_millis(5));
        }
        (promoted.join().unwrap(), well_at.unwrap(), attempts)
    });
    let (promoted, well, attempts) = promoted_at;
    let after = well.saturating_duration_since(promoted);
    assert!(after < Duration::from_secs(1), "normal {after:?} after the replica was promoted");
    for (key, remaining) in keys[&1].iter().zip(limiter.take(&cluster, &keys[&1], None)) {
        let used = LIMIT - remaining;
        assert!((6..=6 + attempts).contains(&used), "{key}: {used} of {attempts} rounds");
    }
}

#[test]
fn the_replica_of_a_dead_master_takes_over() {
    fails_over(|nodes| nodes.masters[1].kill());
}

#[test]
fn the_replica_of_a_frozen_master_takes_over() {
    fails_over(|nodes| nodes.masters[1].signal("STOP"));
}

#[test]
fn a_cluster_that_is_not_there_yet_is_found() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    for node in &nodes.masters {
        node.signal("STOP");
    }
    let cluster = nodes.opened(&runtime, SHORT);
    let outcomes = decide(&cluster, limiter.round(&numbered(20), None), SHORT);
    assert!(outcomes.into_iter().all(|one| is_uncharged(&one)));
    for node in &nodes.masters {
        node.signal("CONT");
    }
    nodes.until_well();
    let begun = Instant::now();
    until("the store", || {
        let told = decide(&cluster, limiter.round(&numbered(20), None), SHORT);
        told.into_iter().all(|one| one.told.is_ok()).then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
