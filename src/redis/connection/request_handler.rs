//! What is sent, and what follows from its answers: some of it may have to be sent once more.

use std::sync::Arc;

use super::server_time::ServerTime;
use crate::redis::batch::flush::Round;
use crate::redis::batch::script_call::{Answer, Job};
use crate::time::Micros;

/// The course of a request, as its sender goes along with it.
pub(crate) trait Course: Send {
    /// Makes the jobs anew, right before they are first sent, if they have got out of date.
    fn renewed(&mut self) -> Option<Vec<Job>> {
        None
    }

    /// Hears the answers, one for each job. There may be jobs to be sent next, in the request's place, and
    /// then it hears those to them; otherwise it is over.
    fn hear(&mut self, answers: Vec<Answer>) -> Vec<Job>;
}

/// A round is made up around a time that differs by so much is out of date. No window is as short.
const OUT_OF_DATE: Micros = 100_000;

/// Decides a round: what is stale is asked again with what is so at the server's time.
pub(crate) struct Deciding<C, H> {
    round: Round,
    clock: C,
    server_time: Arc<ServerTime>,
    /// The server's time, as far as was known, when the jobs were made.
    about: Micros,
    answers: Vec<Answer>,
    hear: Option<H>,
}

impl<C: Fn() -> Micros, H> Deciding<C, H> {
    /// The course of a round, and its jobs.
    pub(crate) fn new(
        round: Round,
        clock: C,
        server_time: Arc<ServerTime>,
        hear: H,
    ) -> (Self, Vec<Job>) {
        let about = server_time.at(clock());
        let mut round = round.in_waves();
        round.set_time(about);
        let jobs = round.jobs();
        (Self { round, clock, server_time, about, answers: Vec::new(), hear: Some(hear) }, jobs)
    }
}

impl<C, H> Course for Deciding<C, H>
where
    C: Fn() -> Micros + Send,
    H: FnOnce(&Round, &[Answer]) + Send,
{
    /// Otherwise what was made up before the server's time was known would be stale when what was made up
    /// right after it is not, and be overtaken.
    fn renewed(&mut self) -> Option<Vec<Job>> {
        if !self.round.is_timed() {
            return None;
        }
        let about = self.server_time.at((self.clock)());
        (about.abs_diff(self.about) >= OUT_OF_DATE).then(|| {
            self.about = about;
            self.round.set_time(about);
            self.round.jobs()
        })
    }

    fn hear(&mut self, answers: Vec<Answer>) -> Vec<Job> {
        self.answers.extend(answers);
        if let Some(now) = self.round.again(&self.answers) {
            self.server_time.learn(now, (self.clock)());
            return self.round.jobs();
        }
        if let Some(hear) = self.hear.take() {
            hear(&self.round, &self.answers);
        }
        Vec::new()
    }
}
