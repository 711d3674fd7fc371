//! The state of a connection: its publisher, which the reconnector uses, and its subscribers, which
//! send requests.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::health::{Health, ServerInfo, StoreWarning};
use super::traffic::Traffic;
use crate::redis::batch::script_call::ScriptFailure;
use crate::redis::connection::connector::SessionHandle;

/// The reason before the first attempt to connect has ended.
pub(crate) const STILL_CONNECTING: &str = "still connecting";

/// The reason for a lost session if no other is known.
pub(crate) const BROKE: &str = "the connection broke";

/// The reason of a session that is checked before its next use: see [`Traffic::is_stale`].
pub(crate) const STALE: &str = "the connection was not used for long";

/// The state of a connection. See the diagram in the [parent module](super).
#[derive(Clone)]
pub(crate) enum ConnectionState {
    /// There is a healthy session. Each time that a session is found healthy has its own id.
    Up(SessionHandle, u64),
    /// There is no healthy session now, for this reason.
    Disconnected(Arc<str>),
    /// There has been no healthy session for long, for this reason. It is not worth waiting for one.
    Down(Arc<str>),
}

pub(crate) enum SessionReport {
    Broken(u64),
    /// A script call on the session with this id was not answered, nor was any other since then.
    Unanswered(u64),
    /// On the session with this id, the server said that it accepts no script, for this reason.
    Refused(u64, Arc<str>),
    /// A script call was answered late or could not run: check the server's health now.
    Suspect,
}

/// The failure of a request that was queued until its deadline.
pub(crate) fn queue_timeout() -> ScriptFailure {
    ScriptFailure::Unavailable("too many requests were in flight".into())
}

/// Receives a connection's state, and sends reports to its reconnector.
pub(crate) struct StateSubscriber {
    pub(crate) current: watch::Receiver<ConnectionState>,
    reports: mpsc::UnboundedSender<SessionReport>,
    pub(crate) traffic: Arc<Traffic>,
    /// The last session reported as broken. The reconnector may not have seen the report yet.
    broken_session: Option<u64>,
}

/// Publishes the state of the connection, the health of the server, and warnings.
pub(crate) struct StatePublisher {
    state: watch::Sender<ConnectionState>,
    health: watch::Sender<Health>,
    pub(crate) warn: Box<dyn Fn(StoreWarning) + Send + Sync>,
}

pub(crate) fn state_channels(
    traffic: Arc<Traffic>,
    warn: impl Fn(StoreWarning) + Send + Sync + 'static,
) -> (
    StatePublisher,
    mpsc::UnboundedReceiver<SessionReport>,
    StateSubscriber,
    watch::Receiver<Health>,
) {
    let (reporter, reports) = mpsc::unbounded_channel();
    let (state, current) = watch::channel(ConnectionState::Disconnected(STILL_CONNECTING.into()));
    let (health, health_receiver) = watch::channel(Health::Connecting);
    let publisher = StatePublisher { state, health, warn: Box::new(warn) };
    let subscriber = StateSubscriber { current, reports: reporter, traffic, broken_session: None };
    (publisher, reports, subscriber, health_receiver)
}

impl StatePublisher {
    /// Publishes why there is no healthy session. A connection that is down stays down.
    pub(crate) fn publish_failure(&self, why: &Arc<str>) {
        if self.is_down() {
            self.publish_down(why);
        } else {
            self.state.send_replace(ConnectionState::Disconnected(why.clone()));
        }
    }

    /// Publishes that the connection is down, for the reason why there is no healthy session.
    pub(crate) fn publish_given_up(&self) {
        let state = self.state.borrow().clone();
        if let ConnectionState::Disconnected(why) = state {
            self.publish_down(&why);
        }
    }

    fn publish_down(&self, why: &Arc<str>) {
        self.state.send_replace(ConnectionState::Down(why.clone()));
        self.publish_health(Health::Down(why.clone()));
    }

    pub(crate) fn publish_up(&self, session: &SessionHandle, id: u64, info: &Arc<ServerInfo>) {
        self.publish_health(Health::Up(info.clone()));
        self.state.send_replace(ConnectionState::Up(session.clone(), id));
    }

    fn publish_health(&self, new: Health) {
        self.health.send_if_modified(|health| {
            let has_changed = *health != new;
            *health = new;
            has_changed
        });
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(*self.state.borrow(), ConnectionState::Down(_))
    }
}

impl StateSubscriber {
    /// The current state. A session that was reported as broken, or that must be checked before its
    /// next use, counts as disconnected.
    pub(crate) fn current(&self) -> ConnectionState {
        let state = self.current.borrow().clone();
        match state {
            ConnectionState::Up(_, id) if self.broken_session == Some(id) => {
                ConnectionState::Disconnected(BROKE.into())
            }
            ConnectionState::Up(..) if self.traffic.is_stale() => {
                self.request_health_check();
                ConnectionState::Disconnected(STALE.into())
            }
            state => state,
        }
    }

    /// Waits for a healthy session. Fails at the deadline, or as soon as the connection is down. A
    /// request that may not start waits for these in any case.
    pub(crate) async fn wait_until_up(
        &mut self,
        deadline: Instant,
        may_start: bool,
    ) -> Result<(SessionHandle, u64), ScriptFailure> {
        let (broken, traffic, reports) = (self.broken_session, &self.traffic, &self.reports);
        let is_decided = |state: &ConnectionState| match state {
            ConnectionState::Up(_, id) if Some(*id) == broken || !may_start => false,
            ConnectionState::Up(..) => {
                let is_stale = traffic.is_stale();
                if is_stale {
                    // This fails only while the connection is being dropped.
                    let _sent = reports.send(SessionReport::Suspect);
                }
                !is_stale
            }
            ConnectionState::Disconnected(_) => false,
            ConnectionState::Down(_) => true,
        };
        let found = timeout_at(deadline, self.current.wait_for(is_decided)).await;
        let state = match found.map(|found| found.map(|state| state.clone())) {
            Ok(Ok(state)) => state,
            // The reconnector ends only when the connection is dropped.
            Ok(Err(_)) => return Err(ScriptFailure::Closed),
            Err(_) if may_start => self.current(),
            Err(_) => return Err(queue_timeout()),
        };
        match state {
            ConnectionState::Up(session, id) => Ok((session, id)),
            ConnectionState::Disconnected(why) | ConnectionState::Down(why) => {
                Err(ScriptFailure::Unavailable(why))
            }
        }
    }

    pub(crate) fn report_broken(&mut self, id: u64) {
        self.broken_session = Some(id);
        self.report(SessionReport::Broken(id));
    }

    pub(crate) fn request_health_check(&self) {
        self.report(SessionReport::Suspect);
    }

    /// Reports that a script could not run on this session now, for this reason. A check may not find
    /// the reason: some servers do not report their role, and the end of BUSY may be near.
    pub(crate) fn report_refused(&self, id: u64, why: &Arc<str>) {
        let code = why.split(' ').next();
        self.report(match code {
            Some("MASTERDOWN" | "NOAUTH" | "READONLY") => SessionReport::Refused(id, why.clone()),
            _ => SessionReport::Suspect,
        });
    }

    /// Reports that a call on this session, sent at this time, was not answered by its deadline.
    pub(crate) fn report_unanswered(&self, id: u64, sent_at: Instant) {
        self.report(match self.traffic.answered_at() < sent_at {
            true => SessionReport::Unanswered(id),
            false => SessionReport::Suspect,
        });
    }

    fn report(&self, report: SessionReport) {
        // This fails only while the connection is being dropped.
        let _sent = self.reports.send(report);
    }
}
