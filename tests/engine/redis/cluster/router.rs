//! A store over a healthy Redis Cluster while its slots move.

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate::clock::{Clock as _, SystemClock};
use tollgate::key::Key;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{
    AnsweredCalls, CallBatch, CallFailure, Cluster, Flush, KeyNames, ScriptFailure, slot_of,
};

use crate::policy::specs::{HOUR, RateSpec, WindowSpec};
use crate::redis::cluster::nodes::{Nodes, until};

/// For calls that must be decided, however busy the machine is.
pub(super) const PATIENT: Duration = Duration::from_secs(30);

/// The allowance for calls that complete after their deadline on a busy machine. The simulation
/// checks deadlines exactly, and `npm run chaos` measures them.
pub(super) const GRACE: Duration = Duration::from_secs(5);

pub(super) const LIMIT: u64 = 100_000;

pub(super) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) call: usize,
    pub(super) after: Duration,
    /// The remaining units.
    pub(super) told: Result<u64, CallFailure>,
}

/// A limiter with a window of an hour, so that its remaining units show how many were taken.
pub(super) struct Limiter {
    pub(super) names: KeyNames,
    pub(super) policies: Arc<PolicySet>,
}

impl Limiter {
    pub(super) fn new(policies: PolicySet) -> Self {
        Self { names: KeyNames::new("api", &policies), policies: Arc::new(policies) }
    }

    pub(super) fn window() -> Self {
        Self::new(WindowSpec { limit: LIMIT, window: HOUR }.policy().into())
    }

    /// Three limits on one key.
    fn compound() -> Self {
        let window = |limit| WindowSpec { limit, window: HOUR }.policy();
        let rate = RateSpec { units: LIMIT, period: HOUR, burst: 2 * LIMIT }.gcra();
        let policies = [("a", window(LIMIT)), ("b", rate), ("c", window(3 * LIMIT))];
        let named =
            |(name, policy): (&str, _)| NamedPolicy { name: name.into(), policy, key_dimension: 0 };
        Self::new(PolicySet::multi(policies.map(named).into()).unwrap())
    }

    pub(super) fn round(&self, keys: &[String], tag: Option<&str>) -> Flush {
        let (mut batch, mut round) = (CallBatch::new(), Flush::default());
        for key in keys {
            let keys = [Some(Key::new(key).unwrap())];
            batch.push_operation(&self.names, &keys, tag, Operation::Take { cost: 1.into() });
        }
        round.push(Arc::clone(&self.policies), batch);
        round
    }

    pub(super) fn decide(
        &self,
        cluster: &Cluster,
        keys: &[String],
        tag: Option<&str>,
        timeout: Duration,
    ) -> mpsc::Receiver<Outcome> {
        decide(cluster, self.round(keys, tag), timeout)
    }

    /// Takes one unit of each key. All calls are decided. Returns the remaining units.
    pub(super) fn take(&self, cluster: &Cluster, keys: &[String], tag: Option<&str>) -> Vec<u64> {
        let mut told = vec![None; keys.len()];
        for outcome in self.decide(cluster, keys, tag, PATIENT) {
            let remaining =
                outcome.told.unwrap_or_else(|error| panic!("{error} of {}", keys[outcome.call]));
            assert!(told[outcome.call].replace(remaining).is_none(), "a call has one result");
        }
        told.into_iter().map(|told| told.expect("each call has a result")).collect()
    }
}

pub(super) fn decide(
    cluster: &Cluster,
    round: Flush,
    timeout: Duration,
) -> mpsc::Receiver<Outcome> {
    let (sender, outcomes) = mpsc::channel();
    let begun = Instant::now();
    let hear = move |parts: &[AnsweredCalls<'_>]| {
        for AnsweredCalls { flush: round, answers, calls } in parts {
            let mut calls = calls.expect("each part names its calls").iter();
            round.complete(answers, |one| {
                let call = *calls.next().unwrap() as usize;
                let told = one.map(|one| one.response.decision.remaining);
                // A test that has its result drops the receiver.
                let _unheard = sender.send(Outcome { call, after: begun.elapsed(), told });
            });
        }
    };
    let deadline = tokio::time::Instant::now() + timeout;
    cluster.decide(round, || SystemClock.now(), deadline, hear);
    outcomes
}

pub(super) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

fn left(taken: u64) -> u64 {
    LIMIT - taken
}

#[test]
fn rounds_of_keys_of_all_slots_are_decided_as_by_one_server() {
    let (nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    for round in 1..=10 {
        let keys = numbered(128);
        assert_eq!(limiter.take(&cluster, &keys, None), vec![left(round); 128]);
    }
    // Equal keys in call order, calls of limiters with other keys, and tags in few slots.
    let hot: Vec<_> = (0..60).map(|number| format!("hot-{}", number % 3)).collect();
    let expected: Vec<_> = (0..60).map(|number| left(number / 3 + 1)).collect();
    assert_eq!(limiter.take(&cluster, &hot, None), expected);
    let names = limiter.names.clone().with_tags(NonZeroU16::new(5));
    let spread = Limiter { names, policies: Arc::clone(&limiter.policies) };
    let parts = spread.round(&numbered(128), None).by_slot().partitions;
    assert_eq!(parts.len(), 5, "keys of five tags fall on five slots");
    for round in 1..=3 {
        assert_eq!(spread.take(&cluster, &numbered(128), None), vec![left(round); 128]);
    }
    assert!(cluster.is_up());
}

#[test]
fn a_script_that_a_node_does_not_know_is_sent_to_it_once_not_with_each_part() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    assert_eq!(limiter.take(&cluster, &numbered(128), None), vec![left(1); 128]);
    for node in &mut nodes.masters {
        let told: String = node.run("INFO commandstats");
        assert!(told.contains("cmdstat_eval:calls=1,"), "{told}");
    }
}

#[test]
fn the_calls_for_a_node_share_one_script() {
    let (mut nodes, runtime) = (Nodes::start(false), runtime());
    let cluster = nodes.opened(&runtime, PATIENT);
    // No unit comes back, also on a busy machine.
    let rate = RateSpec { units: 1, period: HOUR, burst: LIMIT }.gcra();
    for limiter in [Limiter::window(), Limiter::new(rate.into())] {
        assert_eq!(limiter.take(&cluster, &numbered(128), None), vec![left(1); 128]);
        for node in &mut nodes.masters {
            let _: () = node.run("CONFIG RESETSTAT");
        }
        // Keys in use, and keys that the general path decides because they are fresh.
        let expected: Vec<_> = (0..160).map(|key| left(if key < 128 { 2 } else { 1 })).collect();
        assert_eq!(limiter.take(&cluster, &numbered(160), None), expected);
        for node in &mut nodes.masters {
            let told: String = node.run("INFO commandstats");
            assert!(told.contains("cmdstat_evalsha:calls=1,"), "{told}");
            let _: () = node.run("FLUSHALL");
        }
    }
}

#[test]
fn calls_that_share_a_script_follow_their_slots() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    let keys = Nodes::keys_by_owner(10).remove(&0).expect("ten keys of the first master");
    let slot = |key: &str| slot_of(format!("{{{key}}}").as_bytes());
    assert_eq!(limiter.take(&cluster, &keys[..9], None), vec![left(1); 9]);
    // A slot that has moved; slots that move, with the key at either end, and without a value.
    nodes.move_slot(slot(&keys[0]), 0, 1);
    for key in [&keys[1], &keys[2], &keys[9]] {
        nodes.begin_move(slot(key), 0, 2);
    }
    let stored: Vec<String> =
        nodes.masters[0].run(&format!("CLUSTER GETKEYSINSLOT {} 9", slot(&keys[1])));
    nodes.move_keys(0, 2, &stored);
    for taken in 1..=3 {
        let mut expected = vec![left(taken + 1); 10];
        expected[9] = left(taken);
        assert_eq!(limiter.take(&cluster, &keys, None), expected);
    }
}

#[test]
fn a_call_whose_keys_share_no_slot_fails_alone() {
    let (nodes, runtime) = (Nodes::start(false), runtime());
    let cluster = nodes.opened(&runtime, PATIENT);
    let named = |name: &str, key_dimension| NamedPolicy {
        name: name.into(),
        policy: WindowSpec { limit: LIMIT, window: HOUR }.policy(),
        key_dimension,
    };
    let limiter =
        Limiter::new(PolicySet::multi(vec![named("ip", 0), named("account", 1)]).unwrap());
    let (mut batch, mut round) = (CallBatch::new(), Flush::default());
    for (ip, account, tag) in
        [("a", "a", None), ("a", "alice", None), ("b", "bob", Some("t")), ("c", "c", None)]
    {
        let keys = [ip, account].map(|key| Some(Key::new(key).unwrap()));
        batch.push_operation(&limiter.names, &keys, tag, Operation::Take { cost: 1.into() });
    }
    round.push(Arc::clone(&limiter.policies), batch);
    let mut told: Vec<_> = decide(&cluster, round, PATIENT).into_iter().collect();
    told.sort_by_key(|outcome| outcome.call);
    let [first, crossing, tagged, last] = told.try_into().unwrap();
    for outcome in [first, tagged, last] {
        assert_eq!(outcome.told, Ok(left(1)), "{}", outcome.call);
    }
    assert_eq!(crossing.told, Err(CallFailure::Script(ScriptFailure::CrossSlot)));
}

#[test]
fn a_slot_that_has_moved_is_followed_at_once() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    let key = ["moved".to_owned()];
    let (slot, from) = (slot_of(b"{moved}"), Nodes::owner_of("moved"));
    let places = [from, (from + 1) % 3, (from + 2) % 3, from];
    assert_eq!(limiter.take(&cluster, &key, None), [left(1)]);
    for (taken, step) in places.windows(2).enumerate() {
        nodes.move_slot(slot, step[0], step[1]);
        let begun = Instant::now();
        assert_eq!(limiter.take(&cluster, &key, None), [left(taken as u64 + 2)]);
        assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
    }
}

#[test]
fn while_half_of_a_slot_has_moved_calls_on_all_of_its_keys_are_decided() {
    let (mut nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    let tag = Some("tenant");
    let (slot, from) = (slot_of(b"{tenant}"), Nodes::owner_of("tenant"));
    let to = (from + 1) % 3;
    let known = numbered(20);
    assert_eq!(limiter.take(&cluster, &known, tag), vec![left(1); 20]);
    nodes.begin_move(slot, from, to);
    let stored: Vec<String> = nodes.masters[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    assert_eq!(stored.len(), 20);
    nodes.move_keys(from, to, &stored[..10]);
    // Keys that have moved, keys that have not, and keys that do not exist; each twice.
    let all: Vec<_> = numbered(30).into_iter().chain(numbered(30)).collect();
    let expected: Vec<_> =
        (0..60).map(|call| left(if call % 30 < 20 { 2 } else { 1 } + call / 30)).collect();
    assert_eq!(limiter.take(&cluster, &all, tag), expected);
    assert_eq!(limiter.take(&cluster, &known, tag), vec![left(4); 20]);
    let rest: Vec<String> = nodes.masters[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    nodes.move_keys(from, to, &rest);
    nodes.end_move(slot, from, to);
    assert_eq!(limiter.take(&cluster, &known, tag), vec![left(5); 20]);
}

/// Endless calls on few keys of one tag while `disturb` runs: all are decided, in call order.
fn remain_in_order(limiter: &Limiter, nodes: &mut Nodes, disturb: impl FnOnce(&mut Nodes)) {
    let runtime = runtime();
    let cluster = nodes.opened(&runtime, PATIENT);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let more_rounds = || {
        let enough = done.load(Ordering::Relaxed) + 5;
        until("more rounds", || (done.load(Ordering::Relaxed) >= enough).then_some(()));
    };
    let keys = numbered(4);
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let (mut taken, mut rounds) = (vec![0; keys.len()], 0);
            while !stop.load(Ordering::Relaxed) {
                // Several flushes of one key or more are in flight at a time.
                let sent: Vec<_> = (0..8)
                    .map(|number| {
                        let own = &keys[..1 + (rounds + number) % keys.len()];
                        (own.len(), limiter.decide(&cluster, own, Some("tenant"), PATIENT))
                    })
                    .collect();
                for (count, outcomes) in sent {
                    let mut outcomes: Vec<_> = outcomes.into_iter().collect();
                    outcomes.sort_by_key(|outcome| outcome.call);
                    assert_eq!(outcomes.len(), count);
                    for Outcome { call, told, .. } in outcomes {
                        taken[call] += 1;
                        assert_eq!(told, Ok(left(taken[call])), "{call}");
                    }
                }
                rounds += 1;
                done.store(rounds, Ordering::Relaxed);
            }
        });
        // If the calls fail, joining their thread says why.
        let disturbed = catch_unwind(AssertUnwindSafe(|| {
            more_rounds();
            disturb(nodes);
            more_rounds();
        }));
        stop.store(true, Ordering::Relaxed);
        calling.join().unwrap();
        disturbed.unwrap();
    });
}

fn move_around(nodes: &mut Nodes) {
    let slot = slot_of(b"{tenant}");
    let mut from = Nodes::owner_of("tenant");
    for _ in 0..20 {
        let to = (from + 1) % 3;
        nodes.begin_move(slot, from, to);
        let stored: Vec<String> =
            nodes.masters[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        for key in &stored {
            nodes.move_keys(from, to, std::slice::from_ref(key));
            thread::sleep(Duration::from_millis(3));
        }
        nodes.end_move(slot, from, to);
        from = to;
        thread::sleep(Duration::from_millis(15));
    }
}

// promise: order-over-redis
#[test]
fn calls_on_a_slot_that_moves_to_and_fro_are_decided_in_their_order() {
    remain_in_order(&Limiter::window(), &mut Nodes::start(false), move_around);
}

#[test]
fn so_are_calls_with_several_limits_whose_keys_are_at_two_nodes_for_a_while() {
    remain_in_order(&Limiter::compound(), &mut Nodes::start(false), move_around);
}

#[test]
fn so_are_calls_to_nodes_that_forget_their_scripts() {
    remain_in_order(&Limiter::window(), &mut Nodes::start(false), |nodes| {
        for _ in 0..50 {
            for node in &mut nodes.masters {
                let _: () = node.run("SCRIPT FLUSH");
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn what_waits_when_the_store_is_dropped_is_closed() {
    let (nodes, runtime, limiter) = (Nodes::start(false), runtime(), Limiter::window());
    let cluster = nodes.opened(&runtime, PATIENT);
    until("the cluster", || cluster.is_up().then_some(()));
    nodes.masters[1].signal("STOP");
    let sent = limiter.decide(&cluster, &numbered(50), None, Duration::from_secs(60));
    let paused = (0..50).filter(|number| Nodes::owner_of(&format!("key-{number}")) == 1).count();
    let decided: Vec<_> = sent.iter().take(50 - paused).collect();
    assert!(decided.iter().all(|outcome| outcome.told == Ok(left(1))), "{decided:?}");
    drop(cluster);
    let closed: Vec<_> = sent.into_iter().map(|outcome| outcome.told).collect();
    assert_eq!(closed, vec![Err(CallFailure::Script(ScriptFailure::Closed)); paused]);
    nodes.masters[1].signal("CONT");
}
