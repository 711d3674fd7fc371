//! What a seed stands for: servers, limiters, traffic and faults.

use std::time::Duration;

use tollgate::algorithm::{
    BucketLayout, CalendarWindow, FixedWindow, Gcra, SlidingCounter, SlidingLog, SlidingWindow,
    TokenBucket,
};
use tollgate::calendar::Every;
use tollgate::policy::Policy;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::redis::KeyNames;

use crate::network::Delays;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

/// More units than a run can take.
const PLENTY: u64 = 100_000;

/// A run.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) deployment: Deployment,
    pub(crate) delays: Delays,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) clients: Vec<Client>,
    pub(crate) limiters: Vec<Limiter>,
    /// The time with faults. A time without faults follows.
    pub(crate) faulty: Duration,
    pub(crate) faults: Vec<(Duration, Fault)>,
    /// The interval at which replicas copy the keys.
    pub(crate) replication: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    Server,
    /// Servers behind one address that take no script on keys of several slots.
    Sharded,
    Sentinel,
    Cluster,
}

/// A process that calls.
#[derive(Debug)]
pub(crate) struct Client {
    /// The mean pause between flushes.
    pub(crate) pause: Duration,
    /// The most calls in a batch; 0 if it makes no calls.
    pub(crate) max_calls: usize,
    /// Its clock minus the servers' clock, in microseconds.
    pub(crate) clock_offset: i64,
}

/// Policies, and the keys that are called under them.
#[derive(Debug)]
pub(crate) struct Limiter {
    pub(crate) policies: PolicySet,
    pub(crate) names: KeyNames,
    pub(crate) keys: Keys,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Keys {
    /// Each key is called once.
    Once,
    /// A few keys whose limit is never reached, so that `remaining` shows the order of calls.
    Ordered,
    /// A few keys of which no window of this length admits more than this many units.
    Bounded(u64, u64),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Cuts all links to a node, or some.
    Cut {
        node: usize,
        all: bool,
    },
    Partition {
        node: usize,
        lasting: Duration,
    },
    /// The node executes nothing for a time, and then all that has come.
    Freeze {
        node: usize,
        lasting: Duration,
    },
    Restart {
        node: usize,
        away: Duration,
        loading: Duration,
        keeps_keys: bool,
    },
    Busy {
        node: usize,
        lasting: Duration,
    },
    /// The node has no memory for writes.
    Full {
        node: usize,
        lasting: Duration,
    },
    /// A proxy reports an error for each script that the node runs.
    ProxyErrors {
        node: usize,
        lasting: Duration,
    },
    FlushScripts {
        node: usize,
    },
    /// The master of a shard freezes or dies, and its replica becomes the master.
    Failover {
        shard: usize,
        kills: bool,
        after: Duration,
        demoted_after: Duration,
    },
    /// The slot of one of the ordered or bounded keys moves to another shard.
    Migrate {
        key: usize,
        to: usize,
        lasting: Duration,
    },
    /// The address of the server leads to its replica, which is the master now. The old master
    /// knows it, or all its links are silent from now on.
    Move {
        is_silent: bool,
    },
    /// The node is a replica for a time. Its links stay.
    ReadOnly {
        node: usize,
        lasting: Duration,
    },
    /// The node runs no scripts for a time, and then all that have come.
    WritePause {
        node: usize,
        lasting: Duration,
    },
    /// All clients are suspended. All their links are silent from then on.
    Suspend {
        lasting: Duration,
    },
    /// A client closes its connection and opens another.
    Reopen {
        client: usize,
    },
}

fn millis(random: &mut fastrand::Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

fn choose<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

impl Scenario {
    pub(crate) fn new(random: &mut fastrand::Rng) -> Self {
        let deployment = choose(
            random,
            &[
                Deployment::Server,
                Deployment::Server,
                Deployment::Sharded,
                Deployment::Sentinel,
                Deployment::Cluster,
                Deployment::Cluster,
            ],
        );
        let is_distant = random.u8(..8) == 0;
        let delays = Delays {
            min: millis(random, if is_distant { 20..80 } else { 0..4 }),
            jitter: millis(random, if is_distant { 1..40 } else { 0..6 }),
        };
        // Without faults, a call takes up to three round trips.
        let timeouts = if is_distant { &[1_000, 1_500] } else { &[100, 1_000] };
        let command_timeout = Duration::from_millis(choose(random, timeouts));
        let timeouts = if is_distant { &[1_000, 2_000] } else { &[300, 1_000] };
        let connect_timeout = Duration::from_millis(choose(random, timeouts));
        let clients = (0..random.usize(1..4)).map(|_| Client::new(random)).collect();
        let faulty = millis(random, 500..4_000);
        let count = random.usize(0..7);
        let faults = (0..count).map(|_| {
            let at = millis(random, 1..faulty.as_millis() as u64);
            (at, Fault::new(random, deployment))
        });
        let mut faults: Vec<_> = faults.collect();
        faults.sort_by_key(|(at, _)| *at);
        Self {
            deployment,
            delays,
            command_timeout,
            connect_timeout,
            clients,
            limiters: limiters(random),
            faulty,
            faults,
            replication: millis(random, 1..200),
        }
    }
}

impl Client {
    fn new(random: &mut fastrand::Rng) -> Self {
        let hours = choose(random, &[0, 0, -3, 5]);
        Self {
            pause: Duration::from_millis(choose(random, &[30, 100, 300])),
            max_calls: choose(random, &[1, 2, 6]),
            clock_offset: hours * HOUR.cast_signed() + random.i64(-2_000_000..2_000_000),
        }
    }
}

impl Fault {
    fn new(random: &mut fastrand::Rng, deployment: Deployment) -> Self {
        let (nodes, shards) = match deployment {
            Deployment::Server | Deployment::Sharded => (2, 1),
            Deployment::Sentinel => (2, 1),
            Deployment::Cluster => (6, 3),
        };
        let node = random.usize(..nodes);
        let lasting = millis(random, 1..1_500);
        match random.u8(..if shards == 3 { 17 } else { 15 }) {
            0 | 1 => Self::Cut { node, all: random.bool() },
            2 => Self::Partition { node, lasting },
            3 => Self::Freeze { node, lasting },
            4 => Self::Restart {
                node,
                away: millis(random, 1..1_000),
                loading: millis(random, 0..300),
                keeps_keys: random.u8(..4) > 0,
            },
            5 => Self::Busy { node, lasting },
            6 => Self::Full { node, lasting },
            7 => Self::FlushScripts { node },
            8 if !matches!(deployment, Deployment::Server | Deployment::Sharded) => {
                Self::Failover {
                    shard: random.usize(..shards),
                    kills: random.bool(),
                    after: millis(random, 1..500),
                    demoted_after: millis(random, 1..1_000),
                }
            }
            8 => Self::Move { is_silent: random.bool() },
            9 => Self::Reopen { client: random.usize(..3) },
            10 => Self::ReadOnly { node, lasting },
            11 => Self::WritePause { node, lasting },
            12 => Self::Suspend { lasting: lasting * 20 },
            13 => Self::Cut { node, all: true },
            14 => Self::ProxyErrors { node, lasting },
            _ => Self::Migrate { key: random.usize(..8), to: random.usize(..shards), lasting },
        }
    }
}

pub(crate) fn limiters(random: &mut fastrand::Rng) -> Vec<Limiter> {
    let mut limiters = Vec::new();
    let mut add = |policies: PolicySet, keys: Keys| {
        let prefix = format!("l{}", limiters.len());
        let names = KeyNames::new(&prefix, &policies);
        limiters.push(Limiter { policies, names, keys });
    };
    add(any_policy(random, PLENTY, HOUR).into(), Keys::Once);
    add(any_policy(random, PLENTY, HOUR).into(), Keys::Once);
    add(calendar().into(), Keys::Once);
    let several = ["a", "b"].map(|name| NamedPolicy {
        name: name.into(),
        policy: any_policy(random, PLENTY, HOUR),
        key_dimension: 0,
    });
    add(PolicySet::multi(several.into()).expect("the names differ"), Keys::Once);
    add(Policy::FixedWindow(expect(FixedWindow::new(PLENTY * PLENTY, HOUR))).into(), Keys::Ordered);
    let (limit, window) = (random.u64(2..12), random.u64(1..4) * SECOND);
    let bounded = match random.u8(..5) {
        0 => (Policy::FixedWindow(expect(FixedWindow::new(limit, window))), 2 * limit),
        1 => (Policy::Gcra(expect(Gcra::new(limit, window, limit))), 2 * limit),
        2 => (Policy::SlidingLog(expect(SlidingLog::new(limit, window, false))), limit),
        3 => (sliding_window(random, limit, window), limit),
        _ => {
            let burst = random.u64(1..=limit);
            (Policy::Gcra(expect(Gcra::new(limit, window, burst))), limit + burst)
        }
    };
    add(bounded.0.into(), Keys::Bounded(window, bounded.1));
    limiters
}

fn expect<T, E: std::fmt::Debug>(policy: Result<T, E>) -> T {
    policy.expect("the numbers are valid")
}

fn calendar() -> Policy {
    Policy::CalendarWindow(expect(CalendarWindow::new(PLENTY, Every::HOUR, "UTC")))
}

fn sliding_window(random: &mut fastrand::Rng, limit: u64, window: u64) -> Policy {
    let layout = if random.bool() { BucketLayout::List } else { BucketLayout::Hash };
    Policy::SlidingWindow(expect(SlidingWindow::new(limit, window, 10, layout)))
}

fn any_policy(random: &mut fastrand::Rng, limit: u64, window: u64) -> Policy {
    match random.u8(..7) {
        0 => Policy::FixedWindow(expect(FixedWindow::new(limit, window))),
        1 => Policy::Gcra(expect(Gcra::new(limit, window, limit))),
        2 => Policy::TokenBucket(expect(TokenBucket::new(limit, limit, window))),
        3 => Policy::SlidingCounter(expect(SlidingCounter::new(limit, window))),
        4 => Policy::SlidingLog(expect(SlidingLog::new(limit, window, false))),
        5 => calendar(),
        _ => sliding_window(random, limit, window),
    }
}
