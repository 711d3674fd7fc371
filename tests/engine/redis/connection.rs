//! The connection while servers start late, lose scripts, die, freeze and come back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tollgate::clock::{Clock, SystemClock};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{
    AnsweredCalls, CallBatch, CallFailure, Connection, Flush, KeyNames, ScriptFailure,
};

use crate::policy::specs::{HOUR, RateSpec, WindowSpec};
use crate::redis::cluster::nodes::until;
use crate::redis::server::{Folder, Server, opened};

/// For calls that must fail.
const TIMEOUT: Duration = Duration::from_millis(500);

/// For calls that must be decided, however busy the machine is.
const LONG: Duration = Duration::from_secs(30);

/// The allowance for calls that complete after their deadline on a busy machine. The simulation
/// checks deadlines and recovery exactly, and `npm run chaos` measures them.
const GRACE: Duration = Duration::from_secs(5);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Takes one unit of a key in a batch of its own, which is sent immediately.
fn take(
    connection: &Connection,
    policy: &Policy,
    key: &str,
) -> impl Future<Output = Result<Decision, ScriptFailure>> + use<> {
    take_within(connection, policy, key, TIMEOUT)
}

/// The same with another timeout.
fn take_within(
    connection: &Connection,
    policy: &Policy,
    key: &str,
    timeout: Duration,
) -> impl Future<Output = Result<Decision, ScriptFailure>> + use<> {
    let asked = decided(connection, single(policy, key), timeout);
    async move {
        asked.await.unwrap().remove(0).map_err(|unanswered| match unanswered {
            CallFailure::Script(failure) => failure,
            CallFailure::Call(error) => panic!("{error}"),
        })
    }
}

/// Sends a batch immediately, and returns the decisions.
fn decided(
    connection: &Connection,
    round: Flush,
    timeout: Duration,
) -> oneshot::Receiver<Vec<Result<Decision, CallFailure>>> {
    let (told, hears) = oneshot::channel();
    let deadline = tokio::time::Instant::now() + timeout;
    let told = Mutex::new(Some(told));
    let hear = move |parts: &[AnsweredCalls<'_>]| {
        let [AnsweredCalls { flush, answers, .. }] = parts else { panic!("{parts:?}") };
        let mut decisions = Vec::new();
        flush.complete(answers, |one| decisions.push(one.map(|one| one.response.decision)));
        // If this fails, the receiver has been dropped.
        let _unheard = told.lock().unwrap().take().unwrap().send(decisions);
    };
    connection.decide(round, || SystemClock.now(), deadline, hear);
    hears
}

fn single(policy: &Policy, key: &str) -> Flush {
    let (mut batch, mut round) = (CallBatch::new(), Flush::default());
    batch.push(&KeyNames::new("api", &policy.clone().into()), Key::new(key).unwrap(), 1);
    round.push(Arc::new(policy.clone().into()), batch);
    round
}

fn hundred() -> Policy {
    WindowSpec { limit: 100, window: HOUR }.policy()
}

/// Calls until one succeeds. Every call completes by its deadline.
async fn until_well(connection: &Connection, policy: &Policy) {
    let (begun, mut failures) = (Instant::now(), Vec::new());
    loop {
        let called = Instant::now();
        let decision = take(connection, policy, "again").await;
        assert!(called.elapsed() < TIMEOUT + GRACE, "{:?}", called.elapsed());
        match decision {
            Ok(_) => return,
            Err(failure) => failures.push(failure),
        }
        assert!(begun.elapsed() < LONG, "{failures:?}");
    }
}

#[test]
fn a_script_that_the_server_forgets_is_sent_again_and_charges_once() {
    let mut server = Server::start();
    let (runtime, policy) = (runtime(), hundred());
    let connection = server.opened(&runtime);
    for call in 1..=20 {
        let decision = runtime.block_on(take_within(&connection, &policy, "a", LONG)).unwrap();
        assert_eq!(decision.remaining, 100 - call);
        let _: () = server.run(&[b"SCRIPT", b"FLUSH"]);
    }
}

// promise: order-over-redis
#[test]
fn requests_take_effect_in_order() {
    let mut server = Server::start();
    let (runtime, policy) = (runtime(), RateSpec { units: 1, period: HOUR, burst: 500 }.gcra());
    let connection = server.opened(&runtime);
    let decisions = runtime.block_on(async {
        let calls = (0..600).map(|_| take_within(&connection, &policy, "hot", LONG));
        let calls: Vec<_> = calls.collect();
        let mut decisions = Vec::new();
        for call in calls {
            decisions.push(call.await.unwrap());
        }
        decisions
    });
    let remaining: Vec<_> = decisions.iter().map(|decision| decision.remaining).collect();
    let expected: Vec<_> = (0..500).rev().chain(std::iter::repeat_n(0, 100)).collect();
    assert_eq!(remaining, expected);
    assert_eq!(decisions[599].status, Status::Refused);
    // All of them found the script unknown. Only the first brought its source.
    let stats: String = server.run(&[b"INFO", b"commandstats"]);
    assert!(stats.contains("cmdstat_eval:calls=1,"), "{stats}");
}

#[test]
fn a_server_that_starts_late_is_found() {
    let (folder, runtime, policy) = (Folder::new(), runtime(), hundred());
    let connection = opened(folder.route(), &runtime);
    let failure = runtime.block_on(take(&connection, &policy, "a")).unwrap_err();
    assert!(matches!(failure, ScriptFailure::Unavailable(_)), "{failure:?}");
    let _server = Server::start_in(folder);
    runtime.block_on(until_well(&connection, &policy));
}

#[test]
fn a_server_that_is_killed_and_started_again_is_found_again() {
    let (runtime, policy) = (runtime(), hundred());
    let mut server = Server::start();
    let connection = server.opened(&runtime);
    for _ in 0..3 {
        runtime.block_on(until_well(&connection, &policy));
        let folder = server.kill();
        let failure = runtime.block_on(take(&connection, &policy, "a")).unwrap_err();
        assert!(
            matches!(failure, ScriptFailure::Broken(_) | ScriptFailure::Unavailable(_)),
            "the connection is lost: {failure:?}"
        );
        let unavailable = runtime.block_on(take(&connection, &policy, "a")).unwrap_err();
        assert!(matches!(unavailable, ScriptFailure::Unavailable(_)), "{unavailable:?}");
        server = Server::start_in(folder);
        runtime.block_on(until_well(&connection, &policy));
    }
}

#[test]
fn a_frozen_server_times_out_and_what_it_ran_late_is_not_run_again() {
    let (runtime, policy) = (runtime(), hundred());
    let mut server = Server::start();
    let connection = server.opened(&runtime);
    runtime.block_on(until_well(&connection, &policy));
    server.signal("STOP");
    let failure = runtime.block_on(take(&connection, &policy, "frozen")).unwrap_err();
    assert_eq!(failure, ScriptFailure::TimedOut);
    server.signal("CONT");
    runtime.block_on(until_well(&connection, &policy));
    let decision = runtime.block_on(take_within(&connection, &policy, "frozen", LONG)).unwrap();
    assert_eq!(decision.remaining, 98, "the call that timed out ran once, and was not sent again");
    let calls: i64 = server.run(&[b"EXISTS", b"api:default:fw:{frozen}"]);
    assert_eq!(calls, 1);
}

#[test]
fn a_busy_server_is_waited_for() {
    let (runtime, policy) = (runtime(), hundred());
    let mut server = Server::start();
    let connection = server.opened(&runtime);
    let _: () = server.run(&[b"CONFIG", b"SET", b"lua-time-limit", b"10"]);
    let decided_while_busy = || {
        runtime.block_on(until_well(&connection, &policy));
        let client = server.client();
        let busy = std::thread::spawn(move || {
            let mut own = client.get_connection().unwrap();
            redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut own).unwrap_err();
        });
        let mut other = server.client().get_connection().unwrap();
        until("the server is busy", || {
            let answer = redis::cmd("PING").query::<String>(&mut other);
            answer.is_err_and(|error| error.code() == Some("BUSY")).then_some(())
        });
        let asked = decided(&connection, single(&policy, "b"), LONG);
        // Long enough for the request to be refused, at most machines; it is decided in any case.
        for _ in 0..10 {
            redis::cmd("PING").query::<String>(&mut other).unwrap_err();
        }
        redis::cmd("SCRIPT").arg("KILL").query::<()>(&mut other).unwrap();
        busy.join().unwrap();
        match runtime.block_on(asked).unwrap().remove(0) {
            // On a slow machine a health check has seen the server busy. The call has not run.
            Err(CallFailure::Script(ScriptFailure::Unavailable(_))) => None,
            answer => Some(answer.unwrap()),
        }
    };
    let decision = (0..50).find_map(|_| decided_while_busy()).unwrap();
    assert_eq!(decision.remaining, 99);
}

#[test]
fn a_refused_script_is_a_failure_that_says_why() {
    let (runtime, policy) = (runtime(), hundred());
    let mut server = Server::start();
    let words: [&[u8]; 7] =
        [b"ACL", b"SETUSER", b"default", b"resetkeys", b"~other:*", b"+@all", b"nopass"];
    let _: () = server.run(&words);
    let connection = server.opened(&runtime);
    let failure = runtime.block_on(take_within(&connection, &policy, "a", LONG)).unwrap_err();
    let ScriptFailure::Refused(why) = failure else { panic!("{failure:?}") };
    assert!(why.to_lowercase().contains("key"), "{why}");
}

#[test]
fn what_waits_when_the_connection_is_dropped_settles() {
    let (folder, runtime, policy) = (Folder::new(), runtime(), hundred());
    let connection = opened(folder.route(), &runtime);
    let minute = Duration::from_secs(60);
    let settled = ["a", "b"].map(|key| decided(&connection, single(&policy, key), minute));
    drop(connection);
    for one in settled {
        let told = runtime.block_on(async { tokio::time::timeout(LONG, one).await });
        let told = told.unwrap().unwrap().remove(0);
        assert!(matches!(told, Err(CallFailure::Script(ScriptFailure::Closed))), "{told:?}");
    }
}

#[test]
fn keys_that_share_no_slot_of_a_cluster_say_so_and_a_tag_puts_them_together() {
    let (server, runtime) = (Server::start_cluster(), runtime());
    let connection = server.opened(&runtime);
    let named = |name: &str, key_dimension| NamedPolicy {
        name: name.into(),
        policy: hundred(),
        key_dimension,
    };
    let policies = PolicySet::multi(vec![named("ip", 0), named("account", 1)]).unwrap();
    let names = KeyNames::new("api", &policies);
    let keys = ["10.0.0.1", "alice"].map(|key| Some(Key::new(key).unwrap()));
    let mut taken = Vec::new();
    for tag in [None, Some("login")] {
        let (mut batch, mut round) = (CallBatch::new(), Flush::default());
        batch.push_operation(&names, &keys, tag, Operation::Take { cost: 1.into() });
        round.push(Arc::new(policies.clone()), batch);
        taken.extend(runtime.block_on(decided(&connection, round, LONG)).unwrap());
    }
    let [refused, taken] = taken.try_into().unwrap();
    assert_eq!(refused, Err(CallFailure::Script(ScriptFailure::CrossSlot)));
    assert!(ScriptFailure::CrossSlot.to_string().contains("set a tag"));
    assert_eq!(taken.unwrap().remaining, 99);
}
