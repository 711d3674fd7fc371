//! Scenarios that once failed, and what the simulation itself must be able to do.

use std::time::Duration;

use crate::network::Delays;
use crate::run::{run, run_scenario};
use crate::scenario::{Client, Deployment, Fault, Scenario, limiters};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A scenario of one client that calls often, with a given delay of each direction.
fn scenario(deployment: Deployment, delay: Duration, command_timeout: Duration) -> Scenario {
    let delays = Delays { min: delay, jitter: Duration::ZERO };
    Scenario {
        deployment,
        delays,
        command_timeout,
        connect_timeout: Duration::from_secs(2),
        clients: vec![Client { pause: millis(5), max_calls: 3, clock_offset: 0 }],
        limiters: limiters(&mut fastrand::Rng::with_seed(1)),
        faulty: Duration::from_secs(2),
        faults: Vec::new(),
        replication: millis(20),
    }
}

#[track_caller]
fn passes(scenario: Scenario) {
    let violations = run_scenario(scenario, 0, false).violations;
    assert!(violations.is_empty(), "{} violations: {}", violations.len(), violations[0]);
}

/// A request that had to be sent again waited for the requests in flight, past its deadline. It was
/// then sent although it could not be answered in time.
#[test]
fn a_request_that_waits_to_be_sent_again_fails_at_its_deadline() {
    let mut scenario = scenario(Deployment::Server, millis(100), millis(300));
    scenario.faults.push((millis(1_500), Fault::FlushScripts { node: 0 }));
    passes(scenario);
}

/// A proxy reports its timeout while the script runs: the charge is unknown.
#[test]
fn an_error_of_a_proxy_does_not_say_that_nothing_was_charged() {
    let mut scenario = scenario(Deployment::Server, millis(1), millis(300));
    scenario.faults.push((millis(500), Fault::ProxyErrors { node: 0, lasting: millis(700) }));
    passes(scenario);
}

/// A sharded server refuses the keys of several slots.
#[test]
fn calls_on_keys_of_several_slots_are_decided_by_a_sharded_server() {
    let mut scenario = scenario(Deployment::Sharded, millis(5), millis(300));
    scenario.faults.push((millis(500), Fault::FlushScripts { node: 0 }));
    scenario.faults.push((millis(900), Fault::Cut { node: 0, all: true }));
    passes(scenario);
}

/// A request waited for the pause before a retry of another one, past its deadline.
#[test]
fn a_pause_before_a_retry_ends_at_a_deadline() {
    let mut scenario = scenario(Deployment::Server, millis(100), millis(410));
    scenario.faults.push((millis(1_500), Fault::FlushScripts { node: 0 }));
    scenario.faults.push((millis(1_600), Fault::Busy { node: 0, lasting: millis(300) }));
    passes(scenario);
}

/// Calls of one slot that were made at different times are sent together. All of them settled at the
/// deadline of the last one.
#[test]
fn calls_that_are_sent_together_settle_each_by_its_deadline() {
    let mut scenario = scenario(Deployment::Cluster, millis(30), millis(150));
    for node in [0, 2, 4] {
        scenario.faults.push((millis(1_000), Fault::Freeze { node, lasting: millis(400) }));
    }
    passes(scenario);
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..20 {
        assert_eq!(run(seed, false).checksum, run(seed, false).checksum, "seed {seed}");
    }
}
