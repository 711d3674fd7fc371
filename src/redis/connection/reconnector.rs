//! The reconnector keeps a healthy session open.
//!
//! A session is healthy if its server has answered lately, may write, and is the server that the
//! address means now. While a session is healthy, its server is checked. Whatever contradicts its
//! health ends that: an answer that says so, silence, scripts without an answer, a new master, or a
//! suspension of this process. Then the address is dialed, and the session that is in doubt is
//! checked, at the same time. The first session that passes a check takes over. Until then there is
//! no session for calls: they wait.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::endpoint::{CheckedSession, Endpoint};
use super::health::{Health, HealthCheck, HealthOptions, StoreWarning, check_health};
use super::state::{
    BROKE, STALE, STILL_CONNECTING, SessionReport, StatePublisher, StateSubscriber, state_channels,
};
use super::traffic::{IdleChecks, Traffic};
use crate::redis::connection::connector::NO_ANSWER;

/// The first pause between attempts to connect. It doubles after each attempt, also if the session
/// that it opened ends soon without an answer to a call.
const MIN_CONNECT_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause between attempts to connect.
const MAX_CONNECT_PAUSE: Duration = Duration::from_millis(200);

/// After a session of this length, the next attempt to connect needs no pause.
const LASTING_SESSION: Duration = Duration::from_secs(1);

/// The interval of health checks while calls flow.
const HEALTHY_INTERVAL: Duration = Duration::from_millis(250);
/// The interval of health checks of a session that is in doubt.
const DOUBT_INTERVAL: Duration = Duration::from_millis(50);

/// The interval at which the process records that it runs.
const RUN_INTERVAL: Duration = Duration::from_secs(1);
/// A session that has passed no check for this long must be checked before its next use.
const MAX_CHECK_AGE: Duration = Duration::from_secs(90);

pub(crate) struct Reconnector {
    endpoint: Endpoint,
    options: HealthOptions,
    publisher: StatePublisher,
    reports: mpsc::UnboundedReceiver<SessionReport>,
    traffic: Arc<Traffic>,
    /// The pause before the next attempt to connect.
    pause: Duration,
}

struct Outage {
    why: Arc<str>,
    down_at: Instant,
    /// The session that is in doubt, unless it has ended.
    session: Option<CheckedSession>,
}

/// Creates a reconnector, which the caller must run, and subscriptions to the state of its
/// connection and to the health of its server. `servers` is the number of servers that share the
/// health checks of an idle process; `None` means those of the endpoint.
pub(crate) fn reconnector(
    endpoint: Endpoint,
    options: HealthOptions,
    servers: Option<Arc<AtomicUsize>>,
    warn: impl Fn(StoreWarning) + Send + Sync + 'static,
) -> (Reconnector, StateSubscriber, watch::Receiver<Health>) {
    let servers = servers.unwrap_or_else(|| Arc::new(AtomicUsize::new(endpoint.servers())));
    let traffic = Arc::new(Traffic::new(IdleChecks { interval: options.idle_interval, servers }));
    let (publisher, reports, subscriber, health) = state_channels(Arc::clone(&traffic), warn);
    let pause = Duration::ZERO;
    (Reconnector { endpoint, options, publisher, reports, traffic, pause }, subscriber, health)
}

impl Reconnector {
    /// Opens a session, and replaces it whenever it is in doubt.
    pub(crate) async fn run(mut self) {
        let down_at = Instant::now() + self.options.down_after;
        let mut outage = Outage { why: STILL_CONNECTING.into(), down_at, session: None };
        for id in 0.. {
            let mut healthy = self.find_healthy_session(outage).await;
            self.traffic.confirm();
            self.publisher.publish_up(&healthy.session.handle, id, &healthy.info);
            healthy.warnings.drain(..).for_each(&self.publisher.warn);
            let up_since = Instant::now();
            outage = self.monitor(healthy, id).await;
            if up_since.elapsed() >= LASTING_SESSION || self.traffic.answered_at() >= up_since {
                self.pause = Duration::ZERO;
            }
            self.publisher.publish_failure(&outage.why);
        }
    }

    /// Waits until the session in doubt or a new one passes a health check.
    async fn find_healthy_session(&mut self, outage: Outage) -> CheckedSession {
        let Self { endpoint, publisher, reports, traffic, pause, .. } = self;
        let key = traffic.key();
        let recheck = recheck(outage.session, endpoint.needs_master(), key.as_deref());
        let dial = dial(endpoint, publisher, key.as_deref(), pause);
        tokio::pin!(recheck, dial);
        loop {
            tokio::select! {
                biased;
                // These are reports of the session in doubt.
                Some(_) = reports.recv() => {}
                healthy = &mut recheck => return healthy,
                healthy = &mut dial => return healthy,
                () = sleep_until(outage.down_at), if !publisher.is_down() => {
                    publisher.publish_given_up();
                }
            }
        }
    }

    /// Checks a session until its health is in doubt. It does so without calls, too: a call that
    /// found the session broken could not know whether its script has run.
    async fn monitor(&mut self, healthy: CheckedSession, id: u64) -> Outage {
        let Self { endpoint, options, reports, traffic, .. } = self;
        let down_after = options.down_after;
        let needs_master = endpoint.needs_master();
        let failover = endpoint.wait_for_failover(traffic);
        tokio::pin!(failover);
        let mut session = healthy;
        let (connection, handshake) =
            (session.session.handle.connection.clone(), session.handshake);
        let mut check: Option<BoxFuture<'static, HealthCheck>> = None;
        let (mut checked_at, mut passed_at) = (Instant::now(), Instant::now());
        // The reason, when the connection is down, and whether the session has ended.
        let (why, down_at, has_ended): (Arc<str>, _, _) = loop {
            let silent_since = checked_at.max(traffic.answered_at());
            let mut must_check = false;
            tokio::select! {
                biased;
                result = async { check.as_mut().expect("there is one").await }, if check.is_some() => {
                    check = None;
                    let is_broken = matches!(result, HealthCheck::Broken(_));
                    if let Some(why) = result.objection(needs_master) {
                        break (why, checked_at + down_after, is_broken);
                    }
                    passed_at = checked_at;
                }
                Some(report) = reports.recv() => match report {
                    SessionReport::Broken(of) if of == id => {
                        break (BROKE.into(), Instant::now() + down_after, true);
                    }
                    // The call has already waited until its deadline.
                    SessionReport::Unanswered(of) if of == id => {
                        break (NO_ANSWER.into(), Instant::now() + down_after / 4, false);
                    }
                    SessionReport::Refused(of, why) if of == id => {
                        break (why, Instant::now() + down_after, false);
                    }
                    SessionReport::Suspect => must_check = true,
                    SessionReport::Broken(_)
                    | SessionReport::Unanswered(_)
                    | SessionReport::Refused(..) => {}
                },
                () = &mut failover => {
                    break ("the master has changed".into(), Instant::now() + down_after, true);
                }
                () = session.session.closed() => {
                    break (BROKE.into(), Instant::now() + down_after, true);
                }
                () = traffic.wait_for_check(checked_at, HEALTHY_INTERVAL), if check.is_none() => {
                    must_check = true;
                }
                () = sleep_until(silent_since + down_after / 2), if check.is_some() => {
                    // A server that answers scripts is slow, not silent.
                    if checked_at.max(traffic.answered_at()) == silent_since {
                        break (NO_ANSWER.into(), silent_since + down_after, false);
                    }
                }
                () = sleep(RUN_INTERVAL) => {}
            }
            if traffic.is_stale() {
                break (STALE.into(), Instant::now() + down_after, false);
            }
            if passed_at.elapsed() < MAX_CHECK_AGE {
                traffic.confirm();
            }
            if must_check && check.is_none() {
                checked_at = Instant::now();
                check = Some(check_health(connection.clone(), handshake, None).boxed());
            }
        };
        // The time of a suspension does not count.
        let down_at = match traffic.is_stale() {
            true => Instant::now() + down_after,
            false => down_at,
        };
        let why = format!("{}: {why}", session.info.address).into();
        Outage { why, down_at, session: (!has_ended).then_some(session) }
    }
}

/// Checks a session until it passes. Never completes if there is none or it ends.
async fn recheck(
    session: Option<CheckedSession>,
    needs_master: bool,
    key: Option<&[u8]>,
) -> CheckedSession {
    if let Some(session) = session {
        loop {
            let connection = session.session.handle.connection.clone();
            let check = check_health(connection, session.handshake, key).await;
            if matches!(check, HealthCheck::Broken(_)) {
                break;
            }
            if check.objection(needs_master).is_none() {
                return session;
            }
            sleep(DOUBT_INTERVAL).await;
        }
    }
    std::future::pending().await
}

/// Tries to open a session until one passes a health check. Publishes each failure.
async fn dial(
    endpoint: &mut Endpoint,
    publisher: &StatePublisher,
    key: Option<&[u8]>,
    pause: &mut Duration,
) -> CheckedSession {
    loop {
        if !pause.is_zero() {
            sleep(*pause).await;
        }
        *pause = (*pause * 2).clamp(MIN_CONNECT_PAUSE, MAX_CONNECT_PAUSE);
        match endpoint.connect(key).await {
            Ok(healthy) => return healthy,
            Err(why) => publisher.publish_failure(&why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::batch::script_call::ScriptFailure;
    use crate::redis::connection::connector::{Address, Connector, Credentials, CredentialsSource};

    /// The parts of a connection may be dropped in any order. A request that waits for a session of
    /// a connection that is being dropped must fail as closed, not as unavailable.
    #[test]
    fn without_a_reconnector_the_connection_is_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let second = Duration::from_secs(1);
        let credentials = CredentialsSource::Fixed(Credentials::default());
        let connector = Connector { credentials, tls: None, database: 0, timeout: second };
        let endpoint = Endpoint::direct(Address::Tcp("127.0.0.1".into(), 1), connector);
        let options = HealthOptions { down_after: second, idle_interval: second };
        let (reconnector, mut state, _) = reconnector(endpoint, options, None, |_| {});
        drop(reconnector);
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = runtime.block_on(state.wait_until_up(deadline, true));
        assert_eq!(found.err(), Some(ScriptFailure::Closed));
    }
}
