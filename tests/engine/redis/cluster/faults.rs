//! A store over a Redis Cluster with nodes that die, freeze and come back.

use std::thread;
use std::time::{Duration, Instant};

use tollgate::redis::{CallFailure, Health, ScriptFailure};

use crate::redis::cluster::nodes::{Nodes, until};
use crate::redis::cluster::router::{
    GRACE, LIMIT, Limiter, Outcome, PATIENT, decide, numbered, runtime,
};

/// A timeout shorter than the time after which nodes notice a missing node.
const SHORT: Duration = Duration::from_millis(400);

/// A timeout longer than that, but shorter than a failover.
const MEDIUM: Duration = Duration::from_millis(1_500);

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
    let [cluster, patient] = [SHORT, 2 * PATIENT].map(|timeout| nodes.opened(&runtime, timeout));
    let keys = Nodes::keys_by_owner(20);
    for cluster in [&cluster, &patient] {
        for owner in 0..3 {
            limiter.take(cluster, &keys[&owner], None);
        }
    }
    nodes.masters[1].signal("STOP");
    // Calls on other keys are decided while those on its own keys are pending.
    let delayed = limiter.decide(&patient, &keys[&1], None, 2 * PATIENT);
    for owner in [0, 2] {
        assert_eq!(limiter.take(&patient, &keys[&owner], None), vec![LIMIT - 3; 20]);
    }
    assert!(delayed.try_recv().is_err(), "a frozen node does not answer");
    let timed_out: Vec<_> = limiter.decide(&cluster, &keys[&1], None, SHORT).into_iter().collect();
    assert_eq!(timed_out.len(), 20);
    for outcome in timed_out {
        assert_eq!(outcome.told, Err(CallFailure::Script(ScriptFailure::TimedOut)));
        assert!(outcome.after < SHORT + GRACE, "{:?}", outcome.after);
    }
    // The node is known to be unavailable: calls on its keys fail immediately, and no others.
    let mut attempts = 1;
    until("the circuit", || {
        let mut told = limiter.decide(&cluster, &keys[&1], None, SHORT).into_iter();
        let is_open = told.all(|one| is_uncharged(&one));
        attempts += u64::from(!is_open);
        is_open.then_some(())
    });
    let told: Vec<_> = limiter.decide(&cluster, &keys[&1], None, PATIENT).into_iter().collect();
    assert!(told.iter().all(|one| is_uncharged(one) && one.after < GRACE), "{told:?}");
    assert_eq!(limiter.take(&cluster, &keys[&0], None), vec![LIMIT - 4; 20]);
    assert!(cluster.is_up());
    nodes.masters[1].signal("CONT");
    assert!(delayed.into_iter().all(|one| one.told.is_ok()));
    let probe = vec![keys[&1][0].clone()];
    until("the node", || {
        limiter
            .decide(&cluster, &probe, None, SHORT)
            .into_iter()
            .all(|one| one.told.is_ok())
            .then_some(())
    });
    // Requests sent to the frozen node ran once when it continued, and none of those that the
    // circuit breaker refused.
    let taken = limiter.take(&cluster, &keys[&1][1..], None);
    let used: Vec<_> = taken.iter().map(|remaining| LIMIT - remaining).collect();
    assert!(used.iter().all(|used| (5..=4 + attempts).contains(used)), "{used:?} of {attempts}");
}

#[test]
fn without_a_replica_the_keys_of_a_dead_node_fail_until_it_is_back() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    for node in &mut nodes.masters {
        let _: () = node.run("CONFIG SET cluster-require-full-coverage no");
    }
    let cluster = nodes.opened(&runtime, SHORT);
    let keys = Nodes::keys_by_owner(20);
    for owner in 0..3 {
        limiter.take(&cluster, &keys[&owner], None);
    }
    nodes.masters[2].kill();
    for _ in 0..40 {
        for outcome in limiter.decide(&cluster, &keys[&2], None, SHORT) {
            assert!(outcome.after < SHORT + GRACE, "{outcome:?}");
            assert!(
                matches!(
                    outcome.told,
                    Err(CallFailure::Script(
                        ScriptFailure::Broken(_) | ScriptFailure::Unavailable(_)
                    ))
                ),
                "{outcome:?}"
            );
        }
        for owner in [0, 1] {
            limiter.take(&cluster, &keys[&owner], None);
        }
    }
    let told: Vec<_> = limiter.decide(&cluster, &keys[&2], None, PATIENT).into_iter().collect();
    let is_immediate = |one: &Outcome| is_uncharged(one) && one.after < GRACE;
    assert!(told.iter().all(is_immediate), "a node that is known to be away fails calls at once");
    let dead = nodes.masters.remove(2);
    nodes.masters.push(dead.restart());
    nodes.until_well();
    until("the node", || {
        let told = limiter.decide(&cluster, &keys[&2], None, SHORT);
        told.into_iter().all(|one| one.told.is_ok()).then_some(())
    });
}

#[test]
fn where_slots_without_an_owner_stop_all_the_store_is_down_and_back_with_them() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, SHORT);
    limiter.take(&cluster, &numbered(50), None);
    nodes.masters[0].kill();
    let health = cluster.health();
    until("the circuit", || matches!(*health.borrow(), Health::Down(_)).then_some(()));
    let told: Vec<_> = limiter.decide(&cluster, &numbered(50), None, PATIENT).into_iter().collect();
    let is_immediate = |one: &Outcome| is_uncharged(one) && one.after < GRACE;
    assert!(told.iter().all(is_immediate), "{told:?}");
    let dead = nodes.masters.remove(0);
    nodes.masters.insert(0, dead.restart());
    nodes.until_well();
    until("the store", || matches!(*health.borrow(), Health::Up(_)).then_some(()));
    let told: Vec<_> = limiter.decide(&cluster, &numbered(50), None, PATIENT).into_iter().collect();
    assert!(told.iter().all(|one| one.told.is_ok()), "{told:?}");
}

/// Calls all keys until the replica decides the keys of a dead master. The master's loss is limited
/// to writes that it had not replicated.
fn fails_over(fail: impl FnOnce(&mut Nodes)) {
    let (mut nodes, runtime, limiter) = (Nodes::start(true), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, MEDIUM);
    let keys = Nodes::keys_by_owner(10);
    for _ in 0..5 {
        for owner in 0..3 {
            limiter.take(&cluster, &keys[&owner], None);
        }
    }
    // The replicas have the writes.
    let _: i64 = nodes.masters[1].run("WAIT 1 30000");
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
            for outcome in limiter.decide(&cluster, &keys[&1], None, MEDIUM) {
                assert!(outcome.after < MEDIUM + GRACE, "{outcome:?}");
                all_well &= outcome.told.is_ok();
            }
            for owner in [0, 2] {
                limiter.take(&cluster, &keys[&owner], None);
            }
            if all_well {
                well_at.get_or_insert_with(Instant::now);
            }
            assert!(begun.elapsed() < 2 * PATIENT, "{attempts} attempts");
            thread::sleep(Duration::from_millis(5));
        }
        (promoted.join().unwrap(), well_at.unwrap(), attempts)
    });
    let (promoted, well, attempts) = promoted_at;
    let after = well.saturating_duration_since(promoted);
    assert!(after < GRACE, "normal {after:?} after the replica was promoted");
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
    until("the store", || {
        let told = decide(&cluster, limiter.round(&numbered(20), None), SHORT);
        told.into_iter().all(|one| one.told.is_ok()).then_some(())
    });
}
