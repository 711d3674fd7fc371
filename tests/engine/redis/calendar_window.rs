//! Calendars over a connection: the client computes the boundaries and Redis's clock selects one,
//! also if the client's clock shows another hour or another year.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate::algorithm::Algorithm as _;
use tollgate::calendar::Every;
use tollgate::clock::{Clock as _, SystemClock};
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::{AnsweredCalls, CallBatch, CallFailure, Connection, Flush, KeyNames};

use crate::algorithm::calendar_window::CalendarSpec;
use crate::policy::specs::{DAY, HOUR, RateSpec, SECOND, WindowSpec};
use crate::redis::server::Server;

/// How far a client's clock is ahead or behind.
const SKEWS: [i64; 7] = [
    0,
    HOUR.cast_signed(),
    -HOUR.cast_signed(),
    4 * DAY.cast_signed(),
    400 * DAY.cast_signed(),
    -400 * DAY.cast_signed(),
    -100_000 * DAY.cast_signed(),
];

const WINDOWS: [Every; 4] = [Every::HOUR, Every::Day, Every::Week, Every::Month];

/// A client whose clock is wrong. It counts its clock readings: when it encodes a flush, when it
/// sends it, and when the flush turns out to be stale.
struct Client {
    connection: Connection,
    skew: i64,
    looks: Arc<AtomicUsize>,
    runtime: Runtime,
}

impl Client {
    fn new(server: &Server, skew: i64) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let connection = server.opened(&runtime);
        Self { connection, skew, looks: Arc::default(), runtime }
    }

    fn clock(&self) -> impl Fn() -> u64 + Send + 'static {
        let (skew, looks) = (self.skew, Arc::clone(&self.looks));
        move || {
            looks.fetch_add(1, Ordering::Relaxed);
            SystemClock.now().saturating_add_signed(skew)
        }
    }

    fn looks(&self) -> usize {
        self.looks.swap(0, Ordering::Relaxed)
    }

    /// Sends a flush, and returns the receiver of its results.
    fn send(&self, calls: &[(&Policy, &[&str])]) -> oneshot::Receiver<Vec<Decision>> {
        let mut round = Flush::default();
        for (index, (policy, keys)) in calls.iter().enumerate() {
            let names = KeyNames::new(&format!("limiter-{index}"), &(*policy).clone().into());
            let mut batch = CallBatch::new();
            keys.iter().for_each(|key| batch.push(&names, Key::new(key).unwrap(), 1));
            round.push(Arc::new((*policy).clone().into()), batch);
        }
        self.decided(round)
    }

    fn decided(&self, round: Flush) -> oneshot::Receiver<Vec<Decision>> {
        let (told, hears) = oneshot::channel();
        let deadline = Instant::now() + Duration::from_secs(30);
        let told = Mutex::new(Some(told));
        self.connection.decide(round, self.clock(), deadline, move |parts| {
            let [AnsweredCalls { flush, answers, .. }] = parts else { panic!("{parts:?}") };
            let mut decisions: Vec<Result<Decision, CallFailure>> = Vec::new();
            flush.complete(answers, |one| decisions.push(one.map(|one| one.response.decision)));
            let decisions = decisions.into_iter().map(Result::unwrap).collect();
            told.lock().unwrap().take().unwrap().send(decisions).unwrap();
        });
        hears
    }

    fn take(&self, policy: &Policy, key: &str) -> Decision {
        self.runtime.block_on(self.send(&[(policy, &[key])])).unwrap().remove(0)
    }

    /// Executes operations on keys in one flush.
    fn execute(&self, policies: &Arc<PolicySet>, calls: &[(&str, Operation)]) -> Vec<Decision> {
        let (names, mut batch) = (KeyNames::new("several", policies), CallBatch::new());
        for (key, operation) in calls {
            let key = Some(Key::new(key).unwrap());
            batch.push_operation(&names, &[key], None, operation.clone());
        }
        let mut round = Flush::default();
        round.push(Arc::clone(policies), batch);
        self.runtime.block_on(self.decided(round)).unwrap()
    }

    fn peek(&self, policy: &Policy, key: &str) -> Decision {
        let names = KeyNames::new("limiter-0", &policy.clone().into());
        let (mut batch, mut round) = (CallBatch::new(), Flush::peeking());
        let key = Some(Key::new(key).unwrap());
        batch.push_operation(&names, &[key], None, Operation::Peek { cost: 1.into() });
        round.push(Arc::new(policy.clone().into()), batch);
        self.runtime.block_on(self.decided(round)).unwrap().remove(0)
    }
}

fn calendar(every: Every, limit: u64) -> CalendarSpec {
    CalendarSpec { limit, every, zone: "Asia/Kathmandu" }
}

/// Waits for the next boundary by Redis's clock, whatever the client's clock shows.
fn ends_right(spec: CalendarSpec, decision: Decision) {
    let end = spec.window().calendar().end_after(decision.at);
    let until = (end * 1_000).saturating_sub(decision.at).div_ceil(1_000);
    assert_eq!(decision.reset_after_ms, until, "{spec:?}");
}

// promise: client-clocks
#[test]
fn a_client_whose_clock_is_wrong_asks_twice_once_and_has_redis_boundaries() {
    let mut server = Server::start();
    for skew in SKEWS {
        for every in WINDOWS {
            let _: () = server.run(&[b"FLUSHALL"]);
            let client = Client::new(&server, skew);
            let spec = calendar(every, 3);
            let policy = spec.policy();
            for (number, key) in ["a", "b", "a", "a", "a"].into_iter().enumerate() {
                let decision = client.take(&policy, key);
                ends_right(spec, decision);
                let status = [
                    Status::Allowed,
                    Status::Allowed,
                    Status::Allowed,
                    Status::AllowedLast,
                    Status::Refused,
                ];
                assert_eq!(decision.status, status[number], "{skew} {every:?}");
                let looks = client.looks();
                assert!(looks == 2 || number == 0 && looks == 3 && skew != 0, "{looks} at {skew}");
            }
        }
    }
}

#[test]
fn a_peek_by_a_wrong_clock_is_right_and_changes_nothing() {
    let server = Server::start();
    for skew in SKEWS {
        let spec = calendar(Every::Day, 3);
        let policy = spec.policy();
        let key = format!("key {skew}");
        let fresh = Client::new(&server, skew).peek(&policy, &key);
        assert_eq!(fresh.remaining, 3);
        ends_right(spec, fresh);
        ends_right(spec, Client::new(&server, skew).take(&policy, &key));
        let peeked = Client::new(&server, skew).peek(&policy, &key);
        ends_right(spec, peeked);
        assert_eq!((peeked.status, peeked.remaining), (Status::Allowed, 2));
    }
}

/// PolicySet in the same call as a calendar charge once, and the results arrive in call order.
#[test]
fn only_what_is_stale_is_asked_again() {
    let server = Server::start();
    let client = Client::new(&server, 400 * DAY.cast_signed());
    let window = WindowSpec { limit: 10, window: HOUR }.policy();
    let gcra = RateSpec { units: 20, period: HOUR, burst: 20 }.gcra();
    let (daily, hourly) = (calendar(Every::Day, 5).policy(), calendar(Every::HOUR, 7).policy());
    let rounds = [
        client.send(&[
            (&daily, &["a", "a"]),
            (&window, &["a", "a", "b"]),
            (&hourly, &["a"]),
            (&gcra, &["a"]),
        ]),
        client.send(&[
            (&daily, &["a"]),
            (&window, &["a"]),
            (&hourly, &["a", "c"]),
            (&gcra, &["a"]),
        ]),
    ];
    let remaining = rounds.map(|round| {
        let decisions = client.runtime.block_on(round).unwrap();
        decisions.into_iter().map(|decision| decision.remaining).collect::<Vec<_>>()
    });
    assert_eq!(remaining[0], [4, 3, 9, 8, 9, 6, 19]);
    assert_eq!(remaining[1], [2, 7, 5, 6, 18]);
}

/// The script adds flags to the outcome of a key with a block, an override or other numbers. The
/// flags must not hide a stale outcome, if a policy with such a key comes before the calendar.
#[test]
fn a_stale_calendar_is_asked_again_whatever_is_known_of_the_key() {
    let server = Server::start();
    let policies = |units| {
        let rate = RateSpec { units, period: HOUR, burst: units }.gcra();
        let named = [("rate", rate), ("daily", calendar(Every::Day, 50).policy())];
        let named =
            named.map(|(name, policy)| NamedPolicy { name: name.into(), policy, key_dimension: 0 });
        Arc::new(PolicySet::multi(named.into()).unwrap())
    };
    let own = RateSpec { units: 30, period: HOUR, burst: 30 }.gcra();
    let own = Operation::Override { policies: vec![Some(Arc::new(own)), None], lasting: HOUR };
    let take = Operation::Take { cost: 1.into() };
    let cases = [
        ("blocked", Operation::Block { lasting: HOUR }, 20, Status::Blocked),
        ("overridden", own, 20, Status::Allowed),
        ("changed", take.clone(), 40, Status::Allowed),
    ];
    for (key, operation, units, status) in cases {
        let right = Client::new(&server, 0);
        right.execute(&policies(20), &[(key, operation)]);
        let wrong = Client::new(&server, 400 * DAY.cast_signed());
        // The general path of the script reads the policies before the calendar first.
        let calls = [(key, Operation::TakeUpTo { units: 1 }), ("other", take.clone())];
        let decisions = wrong.execute(&policies(units), &calls);
        let statuses: Vec<Status> = decisions.iter().map(|decision| decision.status).collect();
        assert_eq!(statuses, [status, Status::Allowed], "{key}");
    }
}

/// Found by the simulation: calls under shorter windows, which were stale, shortened a window before
/// earlier calls were decided, which were stale, too.
#[test]
fn a_stale_call_changes_no_key() {
    let server = Server::start();
    let policies = |window| {
        let window = WindowSpec { limit: 9, window }.policy();
        let named = [("window", window), ("daily", calendar(Every::Day, 50).policy())];
        let named =
            named.map(|(name, policy)| NamedPolicy { name: name.into(), policy, key_dimension: 0 });
        Arc::new(PolicySet::multi(named.into()).unwrap())
    };
    let (long, short) = (policies(HOUR), policies(SECOND));
    let take = Operation::Take { cost: 9.into() };
    Client::new(&server, 0).execute(&long, &[("a", take.clone())]);
    let names = KeyNames::new("several", &long);
    let mut round = Flush::default();
    for (policies, operation) in [(&long, take), (&short, Operation::Unblock)] {
        let mut batch = CallBatch::new();
        batch.push_operation(&names, &[Some(Key::new("a").unwrap())], None, operation);
        round.push(Arc::clone(policies), batch);
    }
    let wrong = Client::new(&server, 400 * DAY.cast_signed());
    let decisions = wrong.runtime.block_on(wrong.decided(round)).unwrap();
    assert_eq!(decisions[0].status, Status::Refused);
    assert!(decisions[0].retry_after_ms > 3_500_000, "{decisions:?}");
}

/// If the first of several flushes in flight is stale, the others do not overtake it or each other.
/// Nor do later flushes, made with a clock that is right by then.
#[test]
fn calls_on_a_key_take_effect_in_their_order_though_they_are_stale() {
    let server = Server::start();
    for skew in SKEWS {
        let client = Client::new(&server, skew);
        let policy = calendar(Every::Month, 1_000).policy();
        let key = format!("key {skew}");
        let keys = [key.as_str(); 3];
        let mut rounds = Vec::new();
        for _ in 0..100 {
            rounds.push(client.send(&[(&policy, &keys)]));
            std::thread::sleep(Duration::from_micros(20));
        }
        let mut expected = policy.capacity();
        for round in rounds {
            for decision in client.runtime.block_on(round).unwrap() {
                expected -= 1;
                assert_eq!(decision.remaining, expected, "{skew}");
            }
        }
    }
}

/// The boundaries in the request reach two windows back and six ahead.
#[test]
fn a_clock_that_is_off_by_less_than_the_list_reaches_need_not_ask_twice() {
    let server = Server::start();
    for (skew, looks) in
        [(-DAY.cast_signed(), 2), (-7 * DAY.cast_signed(), 3), (DAY.cast_signed(), 2)]
    {
        let client = Client::new(&server, skew);
        let spec = CalendarSpec { limit: 3, every: Every::Day, zone: "UTC" };
        ends_right(spec, client.take(&spec.policy(), &format!("key {skew}")));
        assert_eq!(client.looks(), looks, "{skew}");
    }
}

#[test]
fn short_windows_come_one_after_the_other() {
    let server = Server::start();
    let client = Client::new(&server, HOUR.cast_signed());
    let spec = CalendarSpec { limit: 1, every: Every::part(SECOND).unwrap(), zone: "UTC" };
    let (mut last, mut admitted) = (0, 0);
    while admitted < 3 {
        let decision = client.take(&spec.policy(), "a");
        let second = decision.at / SECOND;
        if decision.status == Status::AllowedLast {
            ends_right(spec, decision);
            assert!(second > last);
            (last, admitted) = (second, admitted + 1);
        } else {
            assert_eq!((decision.status, second), (Status::Refused, last));
            std::thread::sleep(Duration::from_millis(decision.reset_after_ms));
        }
    }
}
