//! One run: plays a scenario in virtual time, and checks what came of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, RngSeed};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate::key::Key;
use tollgate::policy::decision::{Decision, Status};
use tollgate::redis::{
    AnsweredCalls, CallBatch, CallFailure, Cluster, Connection, Connector, Credentials,
    CredentialsSource, Endpoint, Flush, HealthOptions, RedisDeployment, SentinelClient, slot_of,
};

use crate::check;
use crate::locked;
use crate::scenario::{Deployment, Fault, Keys, Scenario};
use crate::server::{self, MASTER, Sentinel, SharedWorld, World};

/// The time without faults at the end of a run, in which the connections recover.
const RECOVERY: Duration = Duration::from_secs(3);

/// Calls are rarer then by this factor: they only keep the connections busy.
const CALM: f64 = 8.0;

/// The time after it, in which all calls must be decided.
const HEALTHY: Duration = Duration::from_secs(1);

/// A call, from its submission.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) limiter: usize,
    pub(crate) key: String,
    /// The name of the key in Redis under the first policy.
    pub(crate) name: String,
    pub(crate) cost: u64,
    /// The name of a key that no other flush has.
    pub(crate) marker: String,
    pub(crate) submitted: Duration,
    pub(crate) deadline: Duration,
    pub(crate) is_after_recovery: bool,
    pub(crate) outcome: Option<(Duration, Result<Decision, CallFailure>)>,
    /// How many outcomes were reported.
    pub(crate) outcomes: u32,
}

/// The result of a run.
pub(crate) struct RunReport {
    pub(crate) calls: usize,
    pub(crate) violations: Vec<String>,
    pub(crate) checksum: u64,
    /// When the calls that failed were submitted.
    pub(crate) failed: Vec<Duration>,
    /// The commands that the servers and sentinels have received.
    pub(crate) commands: u64,
    /// The virtual time of the run.
    pub(crate) elapsed: Duration,
}

struct Run {
    scenario: Scenario,
    world: SharedWorld,
    calls: Arc<Mutex<Vec<Call>>>,
    started: Instant,
    /// The connection of each client.
    connections: Mutex<Vec<RedisDeployment>>,
    /// The end of the faults.
    healed: OnceLock<Duration>,
    /// For how long the clients were suspended, in milliseconds.
    suspended: AtomicU64,
    prints: bool,
}

/// Plays the scenario of a seed. The same seed gives the same run.
pub(crate) fn run(seed: u64, prints: bool) -> RunReport {
    let mut random = fastrand::Rng::with_seed(seed);
    let scenario = Scenario::new(&mut random);
    if prints {
        println!("{scenario:#?}");
    }
    run_scenario(scenario, seed, prints)
}

/// Plays a scenario. The seed decides the rest, such as the keys and the delays.
pub(crate) fn run_scenario(scenario: Scenario, seed: u64, prints: bool) -> RunReport {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .build()
        .expect("a runtime needs no resources");
    runtime.block_on(play(scenario, fastrand::Rng::with_seed(!seed), prints))
}

async fn play(scenario: Scenario, mut random: fastrand::Rng, prints: bool) -> RunReport {
    tollgate::redis::simulation::set_suspended(Duration::ZERO);
    let mut world = World::new(scenario.delays, random.fork());
    match scenario.deployment {
        Deployment::Server => world.add_shard(true),
        Deployment::Sharded => {
            world.add_shard(true);
            world.is_sharded = true;
        }
        Deployment::Sentinel => {
            world.add_shard(true);
            world.sentinels.extend((0..3).map(|_| Sentinel { master: 0, is_alive: true }));
        }
        Deployment::Cluster => {
            (0..3).for_each(|_| world.add_shard(true));
            world.is_cluster = true;
        }
    }
    let world = Arc::new(Mutex::new(world));
    let for_network = Arc::clone(&world);
    tollgate::redis::simulation::set_network(move |address| {
        let connecting = server::connect(Arc::clone(&for_network), port_of(address));
        Box::pin(async move {
            let socket = connecting.await?;
            Ok(Box::new(socket) as Box<dyn tollgate::redis::simulation::SimulatedSocket>)
        })
    });
    let run = Arc::new(Run {
        scenario,
        world,
        calls: Arc::default(),
        started: Instant::now(),
        connections: Mutex::default(),
        healed: OnceLock::new(),
        suspended: AtomicU64::new(0),
        prints,
    });
    let clients = run.scenario.clients.len();
    let opened = (0..clients).map(|_| run.open()).collect();
    *locked(&run.connections) = opened;
    let replication = tokio::spawn(Arc::clone(&run).replicate());
    let mut tasks = Vec::new();
    for &(at, fault) in &run.scenario.faults {
        tasks.push(tokio::spawn(Arc::clone(&run).inject(at, fault)));
    }
    for client in 0..clients {
        tasks.push(tokio::spawn(Arc::clone(&run).call(client, random.fork())));
    }
    sleep(run.scenario.faulty).await;
    // A fault may last longer than the faulty time, and ends by itself.
    for task in tasks.drain(..run.scenario.faults.len()) {
        task.await.expect("a fault does not panic");
    }
    locked(&run.world).heal();
    run.healed.get_or_init(|| run.started.elapsed());
    run.print("healed");
    for task in tasks {
        task.await.expect("a client does not panic");
    }
    replication.abort();
    sleep(run.scenario.command_timeout + Duration::from_secs(1)).await;
    // What still waits now settles when the connections are dropped: too late.
    let calls = std::mem::take(&mut *locked(&run.calls));
    locked(&run.connections).clear();
    let violations = check::violations(&run.scenario, &locked(&run.world), &calls);
    let mut world = locked(&run.world);
    for call in &calls {
        world.record(format!("{call:?}").as_bytes());
    }
    let (checksum, elapsed, commands) = (world.checksum, world.elapsed(), world.commands);
    drop(world);
    let has_failed = |call: &&Call| !matches!(call.outcome, Some((_, Ok(_))));
    let failed = calls.iter().filter(has_failed).map(|call| call.submitted).collect();
    RunReport { calls: calls.len(), violations, checksum, failed, commands, elapsed }
}

impl Run {
    fn print(&self, event: &str) {
        if self.prints {
            println!("{:>8.3} s  {event}", self.started.elapsed().as_secs_f64());
        }
    }

    fn open(&self) -> RedisDeployment {
        let Scenario { command_timeout, connect_timeout, .. } = self.scenario;
        let credentials = CredentialsSource::Fixed(Credentials::default());
        let connector = Connector { credentials, tls: None, database: 0, timeout: connect_timeout };
        let health =
            HealthOptions { down_after: command_timeout, idle_interval: Duration::from_secs(15) };
        let runtime = tokio::runtime::Handle::current();
        let direct = |endpoint| {
            RedisDeployment::Server(Connection::open(endpoint, health, &runtime, |_| {}))
        };
        match self.scenario.deployment {
            Deployment::Server | Deployment::Sharded => {
                direct(Endpoint::direct(World::node_address(0), connector))
            }
            Deployment::Sentinel => {
                let nodes = (0..3).map(World::sentinel_address).collect();
                let sentinels = SentinelClient::new(nodes, MASTER.into(), connector.clone());
                direct(Endpoint::master(sentinels, connector))
            }
            Deployment::Cluster => {
                let seeds = [0, 2].map(World::node_address).to_vec();
                RedisDeployment::Cluster(Cluster::open(seeds, connector, health, &runtime, |_| {}))
            }
        }
    }

    async fn replicate(self: Arc<Self>) {
        loop {
            sleep(self.scenario.replication).await;
            locked(&self.world).replicate();
        }
    }

    /// Submits flushes until the end of the run.
    async fn call(self: Arc<Self>, client: usize, mut random: fastrand::Rng) {
        let own = &self.scenario.clients[client];
        if own.max_calls == 0 {
            return;
        }
        let mut serial = 0;
        loop {
            let calm = if self.healed.get().is_some() { CALM } else { 1.0 };
            sleep(own.pause.mul_f64(2.0 * calm * random.f64())).await;
            let healed = self.healed.get().map(|healed| self.started.elapsed() - *healed);
            if healed.is_some_and(|healed| healed >= RECOVERY + HEALTHY) {
                return;
            }
            // Several flushes in one turn of the event loop.
            for _ in 0..if random.u8(..6) == 0 { 3 } else { 1 } {
                let is_after_recovery = healed.is_some_and(|healed| healed >= RECOVERY);
                self.submit(client, &mut serial, is_after_recovery, &mut random);
            }
        }
    }

    fn submit(
        &self,
        client: usize,
        serial: &mut u32,
        is_after_recovery: bool,
        random: &mut fastrand::Rng,
    ) {
        let own = &self.scenario.clients[client];
        let (mut flush, mut calls) = (Flush::default(), Vec::new());
        let now = self.started.elapsed();
        let mut marker = String::new();
        for number in 0..random.usize(1..4) {
            // The first limiter has keys that are called once.
            let index = if number == 0 { 0 } else { random.usize(..self.scenario.limiters.len()) };
            let limiter = &self.scenario.limiters[index];
            let mut batch = CallBatch::new();
            for _ in 0..random.usize(1..=own.max_calls) {
                *serial += 1;
                let key = match limiter.keys {
                    Keys::Once => format!("once-{client}-{serial}"),
                    Keys::Ordered | Keys::Bounded(..) => format!("shared-{}", random.u8(..3)),
                };
                let text = Key::new(&key).expect("a short key");
                let name = String::from_utf8_lossy(&limiter.names.of(text)).into_owned();
                if marker.is_empty() {
                    marker.clone_from(&name);
                }
                let cost = if random.u8(..4) == 0 { random.u64(1..3) } else { 1 };
                batch.push(&limiter.names, text, cost);
                calls.push(Call {
                    client,
                    limiter: index,
                    name,
                    marker: marker.clone(),
                    key,
                    cost,
                    submitted: now,
                    deadline: now + self.scenario.command_timeout,
                    is_after_recovery,
                    outcome: None,
                    outcomes: 0,
                });
            }
            flush.push(Arc::new(limiter.policies.clone()), batch);
        }
        let first = {
            let mut all = locked(&self.calls);
            let first = all.len();
            all.extend(calls);
            first
        };
        let (record, started) = (Arc::clone(&self.calls), self.started);
        let on_complete = move |parts: &[AnsweredCalls<'_>]| {
            let mut record = locked(&record);
            for AnsweredCalls { flush, answers, calls } in parts {
                let mut index = 0;
                flush.complete(answers, |result| {
                    let call = calls.map_or(index, |calls| calls[index] as usize);
                    index += 1;
                    // The record is empty after the end of the run.
                    if let Some(call) = record.get_mut(first + call) {
                        call.outcomes += 1;
                        let result = result.map(|execution| execution.response.decision);
                        call.outcome = Some((started.elapsed(), result));
                    }
                });
            }
        };
        let clock_started = self.started;
        let (offset, epoch) = (own.clock_offset, server::EPOCH);
        let clock = move || {
            let elapsed = clock_started.elapsed().as_micros() as u64;
            (epoch + elapsed).saturating_add_signed(offset)
        };
        let deadline = Instant::now() + self.scenario.command_timeout;
        locked(&self.connections)[client].decide(flush, clock, deadline, on_complete);
    }

    async fn inject(self: Arc<Self>, at: Duration, fault: Fault) {
        sleep_until(self.started + at).await;
        self.print(&format!("{fault:?}"));
        let world = || locked(&self.world);
        match fault {
            Fault::Cut { node, all } => world().cut(node, all),
            Fault::Partition { node, lasting } => {
                world().partition(node, lasting);
                sleep(lasting).await;
            }
            Fault::Freeze { node, lasting } => {
                world().freeze(node, lasting);
                sleep(lasting).await;
            }
            Fault::Restart { node, away, loading, keeps_keys } => {
                world().kill(node);
                sleep(away).await;
                world().start(node, keeps_keys, loading);
                sleep(loading).await;
            }
            Fault::Busy { node, lasting } => {
                world().nodes[node].busy_until = Instant::now() + lasting;
                sleep(lasting).await;
            }
            Fault::Full { node, lasting } => {
                world().nodes[node].full_until = Instant::now() + lasting;
                sleep(lasting).await;
            }
            Fault::ProxyErrors { node, lasting } => {
                world().nodes[node].proxy_errors_until = Instant::now() + lasting;
                sleep(lasting).await;
            }
            Fault::Move { is_silent } => world().move_address(is_silent),
            Fault::ReadOnly { node, lasting } => {
                let was_replica = std::mem::replace(&mut world().nodes[node].is_replica, true);
                sleep(lasting).await;
                // Another fault may have promoted it, or its replica.
                let is_master = world().shards.iter().any(|shard| shard.master == node);
                world().nodes[node].is_replica = was_replica && !is_master;
            }
            Fault::WritePause { node, lasting } => {
                world().pause_writes(node, lasting);
                sleep(lasting).await;
            }
            Fault::Suspend { lasting } => {
                world().silence_links(None);
                let suspended = self.suspended.fetch_add(millis_of(lasting), Ordering::Relaxed);
                let suspended = Duration::from_millis(suspended) + lasting;
                tollgate::redis::simulation::set_suspended(suspended);
            }
            Fault::FlushScripts { node } => world().flush_scripts(node),
            Fault::Failover { shard, kills, after, demoted_after } => {
                let master = world().shards[shard].master;
                if kills {
                    world().kill(master);
                } else {
                    world().freeze(master, after + demoted_after / 2);
                }
                sleep(after).await;
                // Another fault may have promoted the replica.
                if world().shards[shard].master == master {
                    world().promote(shard);
                    self.print("promoted");
                }
                let promoted = world().shards[shard].master;
                let sentinels = world().sentinels.len();
                for sentinel in 0..sentinels {
                    sleep(Duration::from_millis(20)).await;
                    if let Some(sentinel) = world().sentinels.get_mut(sentinel) {
                        sentinel.master = promoted;
                    }
                }
                sleep(demoted_after).await;
                if kills {
                    world().start(master, true, Duration::ZERO);
                }
                if world().shards[shard].master == promoted {
                    world().demote(shard);
                }
            }
            Fault::Migrate { key, to, lasting } => {
                let names: Vec<_> = self.shared_keys().collect();
                let slot = slot_of(&names[key % names.len()]);
                if !world().begin_migration(slot, to) {
                    return;
                }
                for _ in 0..2 {
                    sleep(lasting / 3).await;
                    world().move_some_keys(slot);
                }
                sleep(lasting / 3).await;
                world().end_migration(slot);
            }
            Fault::Reopen { client } => {
                let client = client % self.scenario.clients.len();
                let opened = self.open();
                let closed = std::mem::replace(&mut locked(&self.connections)[client], opened);
                drop(closed);
            }
        }
    }

    /// The names of the keys that many calls share.
    fn shared_keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let shared = self.scenario.limiters.iter().filter(|own| !matches!(own.keys, Keys::Once));
        shared.flat_map(|limiter| {
            (0..3).map(|number| {
                let key = format!("shared-{number}");
                limiter.names.of(Key::new(&key).expect("a short key"))
            })
        })
    }
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn port_of(address: &str) -> u16 {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.expect("an address of the simulation has a port")
}

/// Whether a call was admitted.
pub(crate) fn is_admitted(status: Status) -> bool {
    matches!(status, Status::Allowed | Status::AllowedLast)
}
