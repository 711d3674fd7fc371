//! A connection to one Redis server. It reconnects in the background, sends requests in order, and
//! completes each request by its deadline.
//!
//! **At most once.** A script whose outcome is unknown, because its answer did not come in time or
//! the connection broke after it was sent, is never sent again. A script that surely has not run is
//! sent again until the deadline: one that the server does not know yet (as its source), and one
//! that the server cannot run now (LOADING, BUSY, MASTERDOWN, NOAUTH, READONLY, TRYAGAIN,
//! CLUSTERDOWN).
//!
//! A *session* is one established socket to the server. Calls use one session at a time. It is
//! *healthy* if its server has answered lately, may write, and is the server that the address means
//! now. Two tasks do the work: the reconnector (`reconnector`) opens sessions, checks their health
//! and publishes the connection's state (`state`); the sender (`sender`) sends requests and reports
//! sessions that do not answer. Both use the times of calls and answers in `traffic`.
//!
//! # States
//!
//! ```text
//!  start
//!    |
//!    v             a session passes a health check: a new one, or the last one
//! +--------------+ -----------------------------------------> +----+
//! | Disconnected |                                            | Up |
//! +--------------+ <----------------------------------------- +----+
//!    |             something contradicts the session's           ^
//!    |             health, or ends it                            |
//!    |                                                           | a session passes
//!    | no healthy session for `down_after`                       | a health check
//!    v                                                           |
//! +------+                                                       |
//! | Down | ------------------------------------------------------+
//! +------+
//! ```
//!
//! | State | Requests |
//! |---|---|
//! | Up | are sent |
//! | Disconnected | wait for a session until their deadline |
//! | Down | fail immediately |
//!
//! These contradict a session's health: a check or a script says that the server is a replica or
//! cannot run scripts; nothing is answered for half of `down_after`; a script is not answered by its deadline;
//! the sentinels report another master; this process was suspended. The session stays open, and is
//! checked, while the address is dialed. Its requests in flight fail when a new session takes over.
//!
//! `down_after` is that of [`HealthOptions`].

mod connector;
mod dial;
mod endpoint;
mod flush_request;
mod health;
mod nat_map;
mod reconnector;
mod reply_bound;
mod script_reply;
mod sender;
mod sentinel;
mod server_certificate;
mod server_time;
mod state;
mod tls;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::sender::{PendingRequest, ServerTraits};
use crate::redis::batch::flush::Flush;
use crate::redis::inline_io::inline_task::{InlineTask, PollGuard};
use crate::time::Micros;

pub(crate) use self::flush_request::FlushRequest;
pub(crate) use self::sender::command;
pub(crate) use self::server_time::ServerTime;
pub(crate) use crate::redis::connection::connector::{Handshake, SessionHandle};
pub(crate) use crate::redis::connection::endpoint::CheckedSession;
pub(crate) use crate::redis::connection::reconnector::reconnector;
pub(crate) use crate::redis::connection::script_reply::{error_text, script_reply};
pub(crate) use crate::redis::connection::state::{
    ConnectionState, STILL_CONNECTING, StateSubscriber,
};

#[cfg(feature = "fuzzing")]
pub(crate) use self::{
    health::{health_of, warning_of},
    sentinel::master_of,
};

pub use self::endpoint::Endpoint;
pub use self::flush_request::AnsweredCalls;
pub use self::health::{Health, HealthOptions, ServerInfo, StoreWarning};
pub use self::nat_map::NatMap;
pub use self::sentinel::SentinelClient;
pub use self::tls::{Identity, Tls};
pub use crate::redis::connection::connector::{
    Address, Connector, Credentials, CredentialsProvider, CredentialsSource,
};
pub(crate) use crate::redis::inline_io::socket_handle::SocketHandle;

/// A connection to one server. It reconnects until it is dropped.
pub struct Connection {
    requests: mpsc::UnboundedSender<PendingRequest>,
    sender: Arc<InlineTask>,
    runtime: Handle,
    state: watch::Receiver<ConnectionState>,
    health: watch::Receiver<Health>,
    tasks: [JoinHandle<()>; 2],
    server: Arc<ServerTraits>,
}

impl Connection {
    /// Starts to connect on the given runtime, and retries until this is dropped. `warn` is called
    /// on the runtime's thread if the server's configuration has a problem.
    #[must_use]
    pub fn open(
        endpoint: Endpoint,
        options: HealthOptions,
        runtime: &Handle,
        warn: impl Fn(StoreWarning) + Send + Sync + 'static,
    ) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (reconnector, subscriber, health) = reconnector(endpoint, options, None, warn);
        let state = subscriber.current.clone();
        let reconnecting = runtime.spawn(reconnector.run());
        let (sender, sending) = InlineTask::spawn(runtime, sender::run(incoming, subscriber));
        let (runtime, tasks) = (runtime.clone(), [reconnecting, sending]);
        Self { requests, sender, runtime, state, health, tasks, server: Arc::default() }
    }

    /// Sends one key per script call from now on: see [`Flush::by_key`]. A server that refuses the
    /// keys of several slots has the same effect.
    pub fn send_one_key_per_script(&self) {
        self.server.has_one_key_per_script.store(true, Ordering::Relaxed);
    }

    /// Whether the connection is up, according to the last published state.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.state.borrow(), ConnectionState::Up(..))
    }

    /// Subscribes to the health of the server.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Decides a flush after those of earlier calls. `on_answers` is called once, by the deadline,
    /// on the runtime's thread or inside this call or [`read_inline`](Self::read_inline).
    ///
    /// [Stale](super::CallError::Stale) calls are sent again, before later requests, with the
    /// server's time. The difference between that time and `clock` is used for later calls.
    pub fn decide(
        &self,
        flush: Flush,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
        deadline: Instant,
        on_answers: impl Fn(&[AnsweredCalls<'_>]) + Send + Sync + 'static,
    ) {
        let request = FlushRequest::new(flush, clock, deadline, on_answers);
        if let Some(pending) = PendingRequest::new(request, &self.server) {
            self.send(pending);
        }
    }

    /// The session's socket. `None` without a session, or if its socket has no inline I/O.
    #[must_use]
    pub fn socket_handle(&self) -> Option<SocketHandle> {
        let ConnectionState::Up(session, id) = &*self.state.borrow() else { return None };
        let read_ownership = Arc::clone(session.read_ownership.as_ref()?);
        Some(SocketHandle { read_ownership, driver: session.driver.clone(), session_id: *id })
    }

    /// Reads the available answers from a socket on this thread, and completes their requests.
    pub fn read_inline(&self, socket: &SocketHandle) {
        let Some(driver) = socket.driver.upgrade() else { return };
        let _timers = self.runtime.enter();
        // If the runtime polls the driver, skip: unless it reads all, the event loop calls again.
        let Some(mut driver) = driver.try_lock() else { return };
        let mut sender = self.sender.try_lock();
        socket.read_ownership.on_readable(&mut driver);
        sender.as_mut().map(PollGuard::poll_while_woken);
        // Write the requests that the sender has sent again.
        driver.poll_while_woken();
    }

    /// Queues a request, and writes it on this thread as far as possible without waiting.
    fn send(&self, request: PendingRequest) {
        let driver = match &*self.state.borrow() {
            ConnectionState::Up(session, _) => session.driver.upgrade(),
            ConnectionState::Disconnected(_) | ConnectionState::Down(_) => None,
        };
        let _timers = self.runtime.enter();
        let mut driver = driver.as_ref().and_then(|driver| driver.try_lock());
        let mut sender = self.sender.try_lock();
        // If the sender has ended, the request is dropped, which completes it as closed.
        let _sent = self.requests.send(request);
        sender.as_mut().map(PollGuard::poll_while_woken);
        driver.as_mut().map(PollGuard::poll_while_woken);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
