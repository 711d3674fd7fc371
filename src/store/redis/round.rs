//! The batches of several limiters that are sent together.

use std::fmt;
use std::sync::Arc;

use super::batch::Batch;
use super::job::{Answer, Failure, Job};
use super::reply::{CallError, Reply};
use super::script::Script;
use crate::decision::Decision;
use crate::policy::Policy;

/// A script takes so many calls at most: Lua cannot unpack more than 8,000 values.
const MOST_CALLS: usize = 1_000;

/// Batches in the order in which they are to be answered: those that the same script decides go in
/// one job.
#[derive(Debug, Default)]
pub struct Round {
    groups: Vec<Group>,
    /// By job: its script, and its calls so far.
    jobs: Vec<(&'static Script, usize)>,
}

#[derive(Debug)]
struct Group {
    policy: Arc<Policy>,
    batch: Batch,
    job: usize,
}

/// Why a call has no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The whole job has no answer.
    Job(Failure),
    /// The script had none for this call.
    Call(CallError),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(failure) => failure.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unanswered {}

impl Round {
    /// Adds a limiter's calls.
    pub fn push(&mut self, policy: Arc<Policy>, batch: Batch) {
        let script = Script::of(&policy);
        let fits = |&(other, calls): &(&Script, usize)| {
            std::ptr::eq(other, script) && calls + batch.len() <= MOST_CALLS
        };
        let job = self.jobs.iter().rposition(fits).unwrap_or_else(|| {
            self.jobs.push((script, 0));
            self.jobs.len() - 1
        });
        self.jobs[job].1 += batch.len();
        self.groups.push(Group { policy, batch, job });
    }

    /// The jobs that decide all calls.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> =
            self.jobs.iter().map(|(script, _)| Job::deciding(script)).collect();
        for Group { policy, batch, job } in &self.groups {
            let Job { keys, arguments, .. } = &mut jobs[*job];
            keys.extend(batch.keys());
            batch.write(policy, &mut arguments[0]);
        }
        jobs
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.batch.len()).sum()
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Hands out what became of each call, in order; `answers` are those to the jobs.
    pub fn settle(&self, answers: &[Answer], mut each: impl FnMut(Result<Decision, Unanswered>)) {
        let mut replies: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().map(|values| Reply::new(values))).collect();
        for Group { policy, batch, job } in &self.groups {
            match &mut replies[*job] {
                Ok(reply) => {
                    for decision in batch.decisions(policy, reply) {
                        each(decision.map_err(Unanswered::Call));
                    }
                }
                Err(failure) => {
                    for _ in 0..batch.len() {
                        each(Err(Unanswered::Job(failure.clone())));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::key::Key;
    use crate::store::redis::{Names, Value};

    fn window() -> Policy {
        Policy::FixedWindow(FixedWindow::new(7, 1_000).unwrap())
    }

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(7, 1_000, 7).unwrap())
    }

    fn round(groups: &[(Policy, usize)]) -> Round {
        let mut round = Round::default();
        for (number, (policy, calls)) in groups.iter().enumerate() {
            let names = Names::new(&format!("limiter-{number}"), "default", policy);
            let mut batch = Batch::new();
            for call in 0..*calls {
                batch.push(&names, Key::new(&call.to_string()).unwrap(), 1);
            }
            round.push(Arc::new(policy.clone()), batch);
        }
        round
    }

    fn keys_of(round: &Round) -> Vec<usize> {
        round.jobs().iter().map(|job| job.keys.len()).collect()
    }

    #[test]
    fn what_one_script_decides_goes_in_one_job() {
        let round = round(&[(gcra(), 2), (window(), 3), (gcra(), 4)]);
        assert_eq!((keys_of(&round), round.len()), (vec![6, 3], 9));
        assert!(round.jobs().iter().all(|job| job.arguments.len() == 1));
    }

    #[test]
    fn a_job_has_no_more_calls_than_lua_can_take() {
        assert_eq!(keys_of(&round(&[(gcra(), 600), (gcra(), 400)])), [1_000]);
        assert_eq!(keys_of(&round(&[(gcra(), 600), (gcra(), 401), (gcra(), 500)])), [600, 901]);
    }

    #[test]
    fn answers_come_in_the_order_of_the_calls_and_a_job_fails_alone() {
        let round = round(&[(gcra(), 1), (window(), 2), (gcra(), 1)]);
        let windows: Vec<u8> =
            [1.0_f64, 5.0, 1.0, 6.0].iter().flat_map(|number| number.to_be_bytes()).collect();
        let windows = vec![
            Value::Number(900),
            Value::Bytes(windows),
            Value::Bytes(vec![]),
            Value::Bytes(vec![]),
        ];
        let mut remaining = Vec::new();
        round.settle(&[Err(Failure::TimedOut), Ok(windows)], |decision| {
            remaining.push(decision.map(|decision| decision.remaining));
        });
        let late = || Err(Unanswered::Job(Failure::TimedOut));
        assert_eq!(remaining, [late(), Ok(2), Ok(1), late()]);
    }
}
