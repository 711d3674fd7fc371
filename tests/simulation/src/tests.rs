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

/// The old connection stays open and answers: `READONLY`, or nothing.
#[test]
fn a_server_whose_address_has_moved_is_found() {
    for is_silent in [false, true] {
        let mut scenario = scenario(Deployment::Server, millis(1), millis(1_000));
        scenario.faults.push((millis(1_000), Fault::Move { is_silent }));
        let failed = run_scenario(scenario, 0, false).failed;
        // Half of the deadline passes until a server counts as silent.
        let last = failed.last().copied().unwrap_or_default();
        let bound = if is_silent { millis(1_600) } else { millis(0) };
        assert!(last <= bound, "{is_silent}: {last:?}, {} calls", failed.len());
    }
}

/// Scripts are not answered, and health checks are. Calls that are made after the first ones have
/// timed out are not sent.
#[test]
fn writes_that_are_held_back_are_an_outage() {
    let mut scenario = scenario(Deployment::Server, millis(1), millis(300));
    scenario.faults.push((millis(500), Fault::WritePause { node: 0, lasting: millis(1_400) }));
    let report = run_scenario(scenario, 0, false);
    assert_eq!(report.violations, Vec::<String>::new());
    let last = report.failed.last().copied().unwrap_or_default();
    assert!(last > millis(1_000) && last < millis(1_950), "{last:?}");
}

/// Calls after a suspension wait for a new connection.
#[test]
fn a_process_that_was_suspended_uses_no_connection_from_before() {
    for deployment in [Deployment::Server, Deployment::Sentinel, Deployment::Cluster] {
        let mut scenario = scenario(deployment, millis(1), millis(1_000));
        let lasting = Duration::from_secs(20);
        scenario.faults.push((millis(1_000), Fault::Suspend { lasting }));
        let failed = run_scenario(scenario, 0, false).failed;
        assert!(failed.iter().all(|at| *at <= millis(1_000)), "{deployment:?}: {failed:?}");
    }
}

#[test]
fn an_idle_process_sends_at_most_ten_commands_a_minute() {
    for deployment in [Deployment::Server, Deployment::Sentinel, Deployment::Cluster] {
        let minutes = 20;
        let commands = [0, minutes].map(|idle| {
            let mut scenario = scenario(deployment, millis(1), millis(1_000));
            scenario.faulty = Duration::from_secs(120 + 60 * idle);
            scenario.clients[0].max_calls = 0;
            run_scenario(scenario, 0, false).commands
        });
        let per_minute = (commands[1] - commands[0]) as f64 / minutes as f64;
        assert!(per_minute > 1.0 && per_minute <= 10.0, "{deployment:?}: {per_minute}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..20 {
        assert_eq!(run(seed, false).checksum, run(seed, false).checksum, "seed {seed}");
    }
}
