//! A connection to one Redis server: it is kept up in the background, sends what it is given in
//! order, and settles everything by its deadline.
//!
//! **At most once.** A script whose outcome is unknown, because its answer did not come in time or
//! the connection broke after it was sent, is never sent again. What surely has not run is sent
//! again until the deadline: a script that the server does not know yet (as its source), and one
//! that the server cannot run just now (LOADING, BUSY, MASTERDOWN, READONLY, TRYAGAIN, CLUSTERDOWN).

mod connector;
mod health;
mod request_handler;
mod retry_method;
mod route;
mod sender;
mod sentinel;
mod server_time;
mod state;
mod tls;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::sender::{Request, Settle};
use crate::redis::batch::flush::Round;
use crate::redis::batch::script_call::Answer;
use crate::redis::connection::request_handler::Deciding;
use crate::redis::inline_io::inline_task::{Held, Stepped};
use crate::time::Micros;

pub(crate) use self::sender::command;
pub(crate) use self::server_time::ServerTime;
pub(crate) use crate::redis::connection::connector::Opened;
pub(crate) use crate::redis::connection::retry_method::{Verdict, refused, verdict};
pub(crate) use crate::redis::connection::state::{Link, Links, keeper};

pub use self::health::{About, Health, Warning};
pub use self::route::Route;
pub use self::sentinel::Sentinels;
pub use self::tls::{Identity, Tls};
pub use crate::redis::connection::connector::{Access, Address, Credentials, Login, Logins};
pub use crate::redis::connection::state::Patience;
pub(crate) use crate::redis::inline_io::socket_handle::LinkSocket;

/// A connection that is kept up until it is dropped.
#[derive(Debug)]
pub struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    sender: Arc<Stepped>,
    runtime: Handle,
    link: watch::Receiver<Link>,
    health: watch::Receiver<Health>,
    tasks: [JoinHandle<()>; 2],
    server_time: Arc<ServerTime>,
}

impl Connection {
    /// Starts to connect, on the given runtime, and goes on trying as long as this is not dropped. `warn` hears,
    /// on the runtime's thread, what should not remain as it is.
    #[must_use]
    pub fn open(
        route: Route,
        patience: Patience,
        runtime: &Handle,
        warn: impl Fn(Warning) + Send + Sync + 'static,
    ) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (keeper, links, health) = keeper(route, patience, warn);
        let link = links.watch();
        let keeping = runtime.spawn(keeper.run());
        let (sender, sending) = Stepped::spawn(runtime, sender::run(incoming, links));
        let (runtime, tasks) = (runtime.clone(), [keeping, sending]);
        Self { requests, sender, runtime, link, health, tasks, server_time: Arc::default() }
    }

    /// Whether there is a link, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up(..))
    }

    /// Watches how the server is.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Decides a round, in order, after those of earlier calls: by the deadline `hear` is called, on the
    /// runtime's thread, with the round and the answers that settle it.
    ///
    /// What is [stale](super::CallError::Stale) is asked again, in its place, with what is so at the
    /// server's time; and how far that is from `clock` is remembered for later calls.
    pub fn decide(
        &self,
        round: Round,
        clock: impl Fn() -> Micros + Send + 'static,
        deadline: Instant,
        hear: impl FnOnce(&Round, &[Answer]) + Send + 'static,
    ) {
        let (course, jobs) = Deciding::new(round, clock, Arc::clone(&self.server_time), hear);
        let settle = Settle::new(jobs.len(), course);
        self.send(Request { jobs, deadline, settle });
    }
}

impl Connection {
    /// The socket of the link, if there is a link whose socket can be watched.
    #[must_use]
    pub fn link_socket(&self) -> Option<LinkSocket> {
        let Link::Up(line, link) = &*self.link.borrow() else { return None };
        let reading = Arc::clone(line.reading.as_ref()?);
        Some(LinkSocket { reading, driver: line.driver.clone(), link: *link })
    }

    /// Reads what has come over a socket, and settles what it answers, on this thread.
    pub fn look(&self, socket: &LinkSocket) {
        let Some(driver) = socket.driver.upgrade() else { return };
        let _timers = self.runtime.enter();
        // If the runtime is at it, there will be another look unless it reads all.
        let Some(mut driver) = driver.hold() else { return };
        let mut sender = self.sender.hold();
        socket.reading.look();
        driver.ring();
        driver.step();
        sender.as_mut().map(Held::step);
        // What is to be sent again.
        driver.step();
    }

    /// Sends a request as far as that goes at once, on this thread.
    fn send(&self, request: Request) {
        let driver = match &*self.link.borrow() {
            Link::Up(line, _) => line.driver.upgrade(),
            Link::Away(_) | Link::Down(_) => None,
        };
        let _timers = self.runtime.enter();
        let mut driver = driver.as_ref().and_then(|driver| driver.hold());
        let mut sender = self.sender.hold();
        // If nobody hears requests any more, this one is dropped, and so settled.
        let _unheard = self.requests.send(request);
        sender.as_mut().map(Held::step);
        driver.as_mut().map(Held::step);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
