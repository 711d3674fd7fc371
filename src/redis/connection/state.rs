//! The state of a connection, and the reconnector, which keeps a session open: it opens sessions,
//! checks their health, and replaces a session that breaks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::endpoint::{CheckedSession, Endpoint};
use super::health::{Health, HealthCheck, ServerInfo, StoreWarning, check_health};
use crate::redis::batch::script_call::ScriptFailure;
use crate::redis::connection::connector::SessionHandle;

/// The first pause between attempts to connect. It doubles after each attempt.
const MIN_CONNECT_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause between attempts to connect.
const MAX_CONNECT_PAUSE: Duration = Duration::from_millis(200);

/// The interval of health checks while the server is healthy.
const HEALTHY_INTERVAL: Duration = Duration::from_millis(250);
/// The interval of health checks while the server is unhealthy.
const UNHEALTHY_INTERVAL: Duration = Duration::from_millis(50);

/// The reason for a lost session if no other is known.
const BROKE: &str = "the connection broke";
/// The reason for a lost session if the server does not answer a health check.
const NO_ANSWER: &str = "Redis does not answer";

/// How long a server may be unhealthy before the connection is down, so that calls fail
/// immediately.
#[derive(Debug, Clone, Copy)]
pub struct HealthTimeouts {
    /// The maximum time without a session.
    pub disconnected: Duration,
    /// The maximum time during which the server answers nothing, or reports that it cannot run
    /// scripts.
    pub unresponsive: Duration,
    /// After this time without an answer to a health check, the session is closed and replaced.
    pub dead: Duration,
}

/// The state of a connection. See the diagram in the [parent module](super).
#[derive(Clone)]
pub(crate) enum ConnectionState {
    /// There is a session, with this id.
    Up(SessionHandle, u64),
    /// There is no session now, for this reason.
    Disconnected(Arc<str>),
    /// The server is unreachable or cannot run scripts, for this reason. It is not worth waiting
    /// for it.
    Down(Arc<str>),
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(_, id) => write!(f, "Up({id})"),
            Self::Disconnected(why) => write!(f, "Disconnected({why})"),
            Self::Down(why) => write!(f, "Down({why})"),
        }
    }
}

/// A report of the sender to the reconnector.
enum SessionReport {
    /// The session with this id broke.
    Broken(u64),
    /// A script call was not answered or could not run: check the server's health now.
    Suspect,
}

/// Receives a connection's state, and sends reports to its reconnector.
pub(crate) struct StateSubscriber {
    current: watch::Receiver<ConnectionState>,
    reports: mpsc::UnboundedSender<SessionReport>,
    /// The last session that was reported as broken. The reconnector may not have processed the
    /// report yet.
    broken_session: Option<u64>,
}

/// Keeps a session open.
pub(crate) struct Reconnector {
    endpoint: Endpoint,
    timeouts: HealthTimeouts,
    publisher: StatePublisher,
    reports: mpsc::UnboundedReceiver<SessionReport>,
}

/// Publishes the state of the connection, the health of the server, and warnings.
struct StatePublisher {
    state: watch::Sender<ConnectionState>,
    health: watch::Sender<Health>,
    warn: Box<dyn Fn(StoreWarning) + Send + Sync>,
}

impl StatePublisher {
    fn publish_disconnected(&self, why: &Arc<str>) {
        self.state.send_if_modified(|state| {
            let is_down = matches!(state, ConnectionState::Down(_));
            *state = if is_down {
                ConnectionState::Down(why.clone())
            } else {
                ConnectionState::Disconnected(why.clone())
            };
            !is_down
        });
    }

    fn publish_down(&self, why: &Arc<str>) {
        self.state.send_replace(ConnectionState::Down(why.clone()));
        self.health.send_if_modified(|health| {
            let was_down = matches!(health, Health::Down(_));
            *health = Health::Down(why.clone());
            !was_down
        });
    }

    fn publish_up(&self, session: &SessionHandle, id: u64, info: &Arc<ServerInfo>) {
        self.health.send_if_modified(|health| {
            let up = Health::Up(info.clone());
            let has_changed = *health != up;
            *health = up;
            has_changed
        });
        self.state.send_replace(ConnectionState::Up(session.clone(), id));
    }

    fn is_down(&self) -> bool {
        matches!(*self.state.borrow(), ConnectionState::Down(_))
    }
}

/// Creates a reconnector, which the caller must run, and subscriptions to the state of its
/// connection and to the health of its server.
pub(crate) fn reconnector(
    endpoint: Endpoint,
    timeouts: HealthTimeouts,
    warn: impl Fn(StoreWarning) + Send + Sync + 'static,
) -> (Reconnector, StateSubscriber, watch::Receiver<Health>) {
    let (reporter, reports) = mpsc::unbounded_channel();
    let (state, current) = watch::channel(ConnectionState::Disconnected("still connecting".into()));
    let (health, health_receiver) = watch::channel(Health::Connecting);
    let publisher = StatePublisher { state, health, warn: Box::new(warn) };
    (
        Reconnector { endpoint, timeouts, publisher, reports },
        StateSubscriber { current, reports: reporter, broken_session: None },
        health_receiver,
    )
}

impl Reconnector {
    /// Opens a session, and a new one whenever the session breaks.
    pub(crate) async fn run(mut self) {
        let mut disconnected_at = Instant::now();
        for id in 0.. {
            let mut opened = self.open_session(disconnected_at).await;
            self.publisher.publish_up(&opened.session.handle, id, &opened.info);
            opened.warnings.drain(..).for_each(&self.publisher.warn);
            let why = self.monitor(opened, id).await;
            disconnected_at = Instant::now();
            self.publisher.publish_disconnected(&why);
        }
    }

    /// Tries to connect until it succeeds. After `disconnected`, the connection is down.
    async fn open_session(&mut self, disconnected_at: Instant) -> CheckedSession {
        let Self { endpoint, timeouts, publisher, .. } = self;
        let mut pause = MIN_CONNECT_PAUSE;
        let down_at = disconnected_at + timeouts.disconnected;
        loop {
            let connecting = endpoint.connect();
            tokio::pin!(connecting);
            let opened = tokio::select! {
                opened = &mut connecting => opened,
                () = sleep_until(down_at), if !publisher.is_down() => {
                    let why = match &*publisher.state.borrow() {
                        ConnectionState::Disconnected(why) | ConnectionState::Down(why) => {
                            why.clone()
                        }
                        ConnectionState::Up(..) => "there is no connection".into(),
                    };
                    publisher.publish_down(&why);
                    connecting.await
                }
            };
            match opened {
                Ok(opened) => return opened,
                Err(why) if Instant::now() >= down_at => publisher.publish_down(&why),
                Err(why) => publisher.publish_disconnected(&why),
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_CONNECT_PAUSE);
        }
    }

    /// Checks the health of a session until the session breaks or must be replaced, and returns
    /// the reason. It does so without calls, too: a call that found the session broken could not
    /// know whether its script has run.
    async fn monitor(&mut self, opened: CheckedSession, id: u64) -> Arc<str> {
        let Self { endpoint, timeouts, publisher, reports } = self;
        let CheckedSession { mut session, info, .. } = opened;
        let handle = session.handle.clone();
        let mut connection = handle.connection.clone();
        let is_fixed = endpoint.is_fixed();
        let failover = endpoint.wait_for_failover();
        tokio::pin!(failover);
        let mut unhealthy_since = None;
        loop {
            let pause =
                if unhealthy_since.is_none() { HEALTHY_INTERVAL } else { UNHEALTHY_INTERVAL };
            tokio::select! {
                report = reports.recv() => match report {
                    Some(SessionReport::Broken(other)) if other != id => continue,
                    Some(SessionReport::Broken(_)) | None => return BROKE.into(),
                    Some(SessionReport::Suspect) => {}
                },
                () = &mut failover => return "the master has changed".into(),
                () = session.closed() => return BROKE.into(),
                () = sleep(pause) => {}
            }
            let check_started = Instant::now();
            let check = check_health(&mut connection);
            tokio::pin!(check);
            let result = loop {
                let down_at = unhealthy_since.unwrap_or(check_started) + timeouts.unresponsive;
                tokio::select! {
                    result = &mut check => break result,
                    report = reports.recv() => match report {
                        Some(SessionReport::Broken(other)) if other != id => {}
                        Some(SessionReport::Broken(_)) | None => return BROKE.into(),
                        Some(SessionReport::Suspect) => {}
                    },
                    () = &mut failover => return "the master has changed".into(),
                    () = session.closed() => return BROKE.into(),
                    () = sleep_until(down_at), if !publisher.is_down() => {
                        publisher.publish_down(&NO_ANSWER.into());
                    }
                    () = sleep_until(check_started + timeouts.dead) => return NO_ANSWER.into(),
                }
            };
            let why = match result {
                HealthCheck::Healthy(_) => {
                    unhealthy_since = None;
                    if publisher.is_down() {
                        publisher.publish_up(&handle, id, &info);
                    }
                    continue;
                }
                HealthCheck::Broken(why) => return why,
                HealthCheck::Replica if !is_fixed => {
                    return "the master has become a replica".into();
                }
                HealthCheck::Replica => "Redis is a read-only replica".into(),
                HealthCheck::Unhealthy(why) => why,
            };
            if check_started.duration_since(*unhealthy_since.get_or_insert(check_started))
                >= timeouts.unresponsive
            {
                publisher.publish_down(&why);
            }
        }
    }
}

impl StateSubscriber {
    /// The current state. A session that was reported as broken counts as disconnected.
    pub(crate) fn current(&self) -> ConnectionState {
        self.without_broken(self.current.borrow().clone())
    }

    fn without_broken(&self, state: ConnectionState) -> ConnectionState {
        match state {
            ConnectionState::Up(_, id) if self.broken_session == Some(id) => {
                ConnectionState::Disconnected(BROKE.into())
            }
            state => state,
        }
    }

    /// Waits for a session. Fails at the deadline, or as soon as the connection is down.
    pub(crate) async fn wait_until_up(
        &mut self,
        deadline: Instant,
    ) -> Result<(SessionHandle, u64), ScriptFailure> {
        let broken = self.broken_session;
        let is_decided = |state: &ConnectionState| match state {
            ConnectionState::Up(_, id) => Some(*id) != broken,
            ConnectionState::Disconnected(_) => false,
            ConnectionState::Down(_) => true,
        };
        let found = timeout_at(deadline, self.current.wait_for(is_decided)).await;
        let state = match found.map(|found| found.map(|state| state.clone())) {
            Ok(Ok(state)) => state,
            // The reconnector ends only when the connection is dropped.
            Ok(Err(_)) => return Err(ScriptFailure::Closed),
            Err(_) => self.current.borrow().clone(),
        };
        match self.without_broken(state) {
            ConnectionState::Up(session, id) => Ok((session, id)),
            ConnectionState::Disconnected(why) | ConnectionState::Down(why) => {
                Err(ScriptFailure::Unavailable(why))
            }
        }
    }

    /// Waits until the connection is down, and returns the reason; `None` at the deadline.
    pub(crate) async fn wait_until_down(&mut self, deadline: Instant) -> Option<ScriptFailure> {
        let is_down = |state: &ConnectionState| matches!(state, ConnectionState::Down(_));
        match timeout_at(deadline, self.current.wait_for(is_down)).await {
            Ok(Ok(state)) => match &*state {
                ConnectionState::Down(why) => Some(ScriptFailure::Unavailable(why.clone())),
                _ => None,
            },
            Ok(Err(_)) => Some(ScriptFailure::Closed),
            Err(_) => None,
        }
    }

    /// Subscribes to the state of the connection.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ConnectionState> {
        self.current.clone()
    }

    /// Reports that the session with this id broke.
    pub(crate) fn report_broken(&mut self, id: u64) {
        self.broken_session = Some(id);
        self.report(SessionReport::Broken(id));
    }

    /// Requests a health check now.
    pub(crate) fn request_health_check(&self) {
        self.report(SessionReport::Suspect);
    }

    fn report(&self, report: SessionReport) {
        // This fails only while the connection is being dropped.
        let _sent = self.reports.send(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let timeouts = HealthTimeouts { disconnected: second, unresponsive: second, dead: second };
        let (reconnector, mut state, _) = reconnector(endpoint, timeouts, |_| {});
        drop(reconnector);
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = runtime.block_on(state.wait_until_up(deadline));
        assert_eq!(found.err(), Some(ScriptFailure::Closed));
    }
}
