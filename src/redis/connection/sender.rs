//! Sends requests in the order in which they come, and settles each by its deadline.
//!
//! One task does it all, so that the order is the task's own. A request goes as one pipeline. What
//! has surely not run is sent again: then nothing new is sent until all that is under way has been
//! answered, and what is to be repeated goes again, in its order.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesOrdered, StreamExt as _};
use redis::{Cmd, Value as Reply};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::redis::batch::script_call::{Answer, Failure, Job};
use crate::redis::connection::connector::Line;
use crate::redis::connection::request_handler::Course;
use crate::redis::connection::retry_method::{Verdict, refused, verdict};
use crate::redis::connection::state::Links;

/// How long to wait before sending again what the server could not run just now.
const PAUSE: Duration = Duration::from_millis(25);

/// As long as it takes to read an answer that has come.
const MOMENT: Duration = Duration::from_millis(1);

/// So many requests are under way at most: the client's queue has room for a few more, and one that
/// found it full would lose its place.
const MOST_UNDER_WAY: usize = 40;

/// Jobs that go together.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) jobs: Vec<Job>,
    pub(crate) deadline: Instant,
    pub(crate) settle: Settle,
}

/// Tells a request's course of the answers: one for each job. If nobody does, all is closed.
pub(crate) struct Settle {
    jobs: usize,
    course: Option<Box<dyn Course>>,
}

impl Settle {
    pub(crate) fn new(jobs: usize, course: impl Course + 'static) -> Self {
        Self { jobs, course: Some(Box::new(course)) }
    }

    /// Tells the answers, and gives back the jobs that are to be sent next.
    fn with(&mut self, answers: Vec<Answer>) -> Vec<Job> {
        let Some(mut course) = self.course.take() else { return Vec::new() };
        let next = course.hear(answers);
        if !next.is_empty() {
            (self.jobs, self.course) = (next.len(), Some(course));
        }
        next
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        self.with(vec![Err(Failure::Closed); self.jobs]);
    }
}

impl fmt::Debug for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settle").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// A request with what is known of its jobs.
struct Open {
    request: Request,
    /// By job: its answer, or how it is to be sent (again).
    jobs: Vec<JobState>,
}

enum JobState {
    Settled(Answer),
    /// To be sent as the script's digest.
    Digest,
    /// To be sent as the script's source: the server does not know it.
    Source,
    /// As before, but the server could not run it, for this reason.
    Paused(Arc<str>),
}

impl Open {
    fn new(request: Request) -> Self {
        let standing = |job: &Job| match job.script.is_rare() {
            true => JobState::Source,
            false => JobState::Digest,
        };
        let jobs = request.jobs.iter().map(standing).collect();
        Self { request, jobs }
    }

    /// The request as it is to be sent for the first time.
    fn renewed(mut self) -> Self {
        let course = self.request.settle.course.as_mut();
        if let Some(jobs) = course.and_then(|course| course.renewed()) {
            debug_assert_eq!(jobs.len(), self.request.jobs.len());
            self.request.jobs = jobs;
        }
        self
    }

    /// Settles all jobs that are open.
    fn fail(mut self, failure: &Failure) -> Option<Self> {
        for job in &mut self.jobs {
            if !matches!(job, JobState::Settled(_)) {
                *job = JobState::Settled(Err(failure.clone()));
            }
        }
        self.answer()
    }

    /// Answers, unless a job is to be sent again. What the answers lead to is sent as the same request.
    fn answer(mut self) -> Option<Self> {
        if self.jobs.iter().any(|job| !matches!(job, JobState::Settled(_))) {
            return Some(self);
        }
        let settled = self.jobs.into_iter().filter_map(|job| match job {
            JobState::Settled(answer) => Some(answer),
            _ => None,
        });
        let next = self.request.settle.with(settled.collect());
        if next.is_empty() {
            return None;
        }
        let Request { deadline, settle, .. } = self.request;
        self = Self::new(Request { jobs: next, deadline, settle });
        if Instant::now() < deadline {
            return Some(self);
        }
        self.fail(&Failure::Unavailable("there was no time to ask again".into()))
    }

    fn commands(&self) -> redis::Pipeline {
        let mut pipeline = redis::pipe();
        for (job, standing) in self.request.jobs.iter().zip(&self.jobs) {
            let command = match standing {
                JobState::Settled(_) => continue,
                JobState::Source => command("EVAL", job.script.source(), job),
                JobState::Digest | JobState::Paused(_) => {
                    command("EVALSHA", job.script.sha1(), job)
                }
            };
            pipeline.add_command(command);
        }
        pipeline
    }
}

pub(crate) fn command(name: &'static str, script: &str, job: &Job) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(job.keys.len());
    for word in job.keys.iter().chain(job.arguments.iter().map(Vec::as_slice)) {
        command.arg(word);
    }
    command
}

/// A request that was sent, with the number of its link and what came of it.
struct Done {
    open: Open,
    link: u64,
    replies: Result<Vec<Reply>, Lost>,
}

/// Why there are no replies.
enum Lost {
    InTime,
    Broken(Arc<str>),
}

async fn send(open: Open, line: Line, link: u64) -> Done {
    let commands = open.commands();
    let mut connection = line.connection.clone();
    let sending = connection.send_packed_commands(&commands, 0, commands.len());
    tokio::pin!(sending);
    let mut sent = timeout_at(open.request.deadline, &mut sending).await;
    if sent.is_err() {
        // The answer may have come, and the caller not have come to it.
        line.catch_up();
        sent = timeout(MOMENT, sending).await;
    }
    let replies = match sent {
        Ok(Ok(replies)) => Ok(replies),
        Ok(Err(error)) => Err(Lost::Broken(error.to_string().into())),
        Err(_) => Err(Lost::InTime),
    };
    Done { open, link, replies }
}

/// Sends what comes until the connection is dropped.
pub(crate) async fn run(mut requests: mpsc::UnboundedReceiver<Request>, mut links: Links) {
    let mut under_way = FuturesOrdered::new();
    let mut next: Option<Open> = None;
    let mut again: VecDeque<Open> = VecDeque::new();
    loop {
        if under_way.is_empty() && !again.is_empty() {
            if again
                .iter()
                .any(|open| open.jobs.iter().any(|job| matches!(job, JobState::Paused(_))))
            {
                sleep(PAUSE).await;
            }
            for open in std::mem::take(&mut again) {
                match links.up_before(open.request.deadline).await {
                    Ok((line, link)) => under_way.push_back(send(open, line, link)),
                    Err(failure) => again.extend(open.fail(&failure)),
                }
            }
        }
        let may_start = again.is_empty() && under_way.len() < MOST_UNDER_WAY;
        let deadline = next.as_ref().map_or_else(Instant::now, |open| open.request.deadline);
        tokio::select! {
            biased;
            Some(done) = under_way.next(), if !under_way.is_empty() => {
                again.extend(settled(done, &mut links));
            }
            request = requests.recv(), if next.is_none() => match request {
                Some(request) => next = Some(Open::new(request)),
                None => return,
            },
            found = place(&mut links, deadline, may_start), if next.is_some() => {
                let Some(open) = next.take() else { continue };
                match found {
                    Ok(_) if Instant::now() >= deadline => again.extend(open.fail(&too_late())),
                    Ok((line, link)) => {
                        under_way.push_back(send(open.renewed(), line, link));
                    }
                    Err(failure) => again.extend(open.fail(&failure)),
                }
            }
        }
    }
}

/// The link for the next request; while it may not start it waits for its turn, but no longer than there is hope.
async fn place(
    links: &mut Links,
    deadline: Instant,
    may_start: bool,
) -> Result<(Line, u64), Failure> {
    if may_start {
        return links.up_before(deadline).await;
    }
    Err(links.down_before(deadline).await.unwrap_or_else(too_late))
}

/// Of a request that waited for its turn until its deadline.
fn too_late() -> Failure {
    Failure::Unavailable("too much was under way to it".into())
}

/// Settles what was answered, and gives back what is to be sent again.
fn settled(done: Done, links: &mut Links) -> Option<Open> {
    let Done { mut open, link, replies } = done;
    let replies = match replies {
        Ok(replies) => replies,
        Err(Lost::InTime) => {
            links.suspect();
            return open.fail(&Failure::TimedOut);
        }
        Err(Lost::Broken(why)) => {
            links.report(link);
            return open.fail(&Failure::Broken(why));
        }
    };
    let late = Instant::now() + PAUSE >= open.request.deadline;
    let waiting = open.jobs.iter_mut().filter(|job| !matches!(job, JobState::Settled(_)));
    for (job, reply) in waiting.zip(replies) {
        *job = match read(reply) {
            JobState::Paused(why) if late => JobState::Settled(Err(Failure::Unavailable(why))),
            standing => standing,
        };
    }
    if open.jobs.iter().any(|job| matches!(job, JobState::Paused(_))) {
        links.suspect();
    }
    open.answer()
}

fn read(reply: Reply) -> JobState {
    match verdict(reply) {
        Verdict::Answer(answer) => JobState::Settled(answer),
        Verdict::Unknown => JobState::Source,
        Verdict::NotNow(why) | Verdict::Torn(why) => JobState::Paused(why),
        Verdict::Elsewhere(error) => JobState::Settled(refused(&error)),
    }
}
