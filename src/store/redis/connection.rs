//! A connection to one Redis server: it is kept up in the background, sends what it is given in
//! order, and settles everything by its deadline.
//!
//! **At most once.** A script whose outcome is unknown, because its answer did not come in time or
//! the connection broke after it was sent, is never sent again. What surely has not run is sent
//! again until the deadline: a script that the server does not know yet (as its source), and one
//! that the server cannot run just now (LOADING, BUSY, MASTERDOWN, READONLY, TRYAGAIN, CLUSTERDOWN).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::Client;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::course::{Course, Deciding, Plain};
use super::job::{Answer, Failure, Job};
use super::link::{Link, keeper};
use super::round::Round;
use super::sender::{self, Request, Settle};
use super::server_time::ServerTime;
use crate::time::Micros;

/// A connection that is kept up until it is dropped.
#[derive(Debug)]
pub struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    link: watch::Receiver<Link>,
    tasks: [JoinHandle<()>; 2],
    server_time: Arc<ServerTime>,
}

impl Connection {
    /// Starts to connect, on the given runtime, and goes on trying as long as this is not dropped.
    #[must_use]
    pub fn open(client: Client, connect_timeout: Duration, runtime: &Handle) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (keeper, links) = keeper(client, connect_timeout);
        let link = links.watch();
        let tasks = [runtime.spawn(keeper.run()), runtime.spawn(sender::run(incoming, links))];
        Self { requests, link, tasks, server_time: Arc::default() }
    }

    /// Whether there is a link, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        matches!(*self.link.borrow(), Link::Up(..))
    }

    /// Runs jobs, in order, after those of earlier calls. By the deadline `hear` is called, on the
    /// runtime's thread, with one answer for each job.
    pub fn run(
        &self,
        jobs: Vec<Job>,
        deadline: Instant,
        hear: impl FnOnce(Vec<Answer>) + Send + 'static,
    ) {
        self.send(jobs, deadline, Plain(Some(hear)));
    }

    fn send(&self, jobs: Vec<Job>, deadline: Instant, course: impl Course + 'static) {
        let settle = Settle::new(jobs.len(), course);
        // If nobody hears requests any more, this one is dropped, and so settled.
        let _unheard = self.requests.send(Request { jobs, deadline, settle });
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
        self.send(jobs, deadline, course);
    }

    /// [`run`](Self::run) one job, which is sent even if the future is not waited for.
    pub fn ask(&self, job: Job, deadline: Instant) -> impl Future<Output = Answer> + use<> {
        let (answer, answered) = oneshot::channel();
        self.run(vec![job], deadline, |mut answers| {
            // Nobody waits any more if this fails.
            let _unheard = answer.send(answers.pop());
        });
        async move { answered.await.ok().flatten().unwrap_or(Err(Failure::Closed)) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
