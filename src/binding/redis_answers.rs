//! Answers of Redis as JavaScript reads them: doubles, and the texts of failures.

use napi::bindgen_prelude::Float64Array;
use napi_derive::napi;

use super::answer::{self, Failure};
use crate::decision::{self, Decision};
use crate::policy::Policy;
use crate::store::redis::{self, Answer, CallError, Left, Reply, Round, Unanswered};

/// What became of calls.
#[napi(object)]
pub struct RedisAnswers {
    /// An answer for each call; a failure's second number is that of its text.
    pub answers: Float64Array,
    /// What failures say.
    pub texts: Vec<String>,
}

/// [`RedisAnswers`] on their way to JavaScript.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) answers: Vec<f64>,
    pub(super) texts: Vec<String>,
}

impl From<Answers> for RedisAnswers {
    fn from(Answers { answers, texts }: Answers) -> Self {
        Self { answers: Float64Array::new(answers), texts }
    }
}

impl Answers {
    /// What became of the calls of a round, in order.
    pub(super) fn of_round(round: &Round, answers: &[Answer]) -> Self {
        let mut all = Self::default();
        all.answers.reserve(round.len() * answer::LENGTH);
        round.settle(answers, |decision| all.push(decision.map(Some)));
        all
    }

    /// What became of a peek, asked for `cost` units.
    pub(super) fn of_peek(policy: &Policy, cost: u64, answer: Answer) -> Self {
        let standing = answer.map_err(Unanswered::Job).and_then(|values| {
            let mut reply = Reply::new(&values);
            let (outcome, left) = reply.next(policy).map_err(Unanswered::Call)?;
            let now = reply.now();
            Ok(Some(match left {
                Left::State(state) => decision::peek(policy, &state, now, cost),
                Left::Told(standings) => decision::tell_peek(&standings, now, cost, outcome),
            }))
        });
        let mut one = Self::default();
        one.push(standing);
        one
    }

    /// Whether keys were forgotten.
    pub(super) fn of_reset(answer: Answer) -> Self {
        let mut one = Self::default();
        one.push(answer.map(|_| None).map_err(Unanswered::Job));
        one
    }

    fn push(&mut self, answer: Result<Option<Decision>, Unanswered>) {
        let mut place = [0.0; answer::LENGTH];
        match answer {
            Ok(decision) => answer::write(&mut place, Ok(decision)),
            Err(unanswered) => {
                answer::write(&mut place, Err(failure(&unanswered)));
                place[1] = f64::from(self.number_of(unanswered.to_string()));
            }
        }
        self.answers.extend(place);
    }

    /// The number of a text; calls that fail together mostly say the same.
    fn number_of(&mut self, text: String) -> u32 {
        if self.texts.last() != Some(&text) {
            self.texts.push(text);
        }
        u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
    }
}

fn failure(unanswered: &Unanswered) -> Failure {
    match unanswered {
        Unanswered::Job(redis::Failure::Unavailable(_)) => Failure::Unavailable,
        Unanswered::Job(redis::Failure::Broken(_)) => Failure::Broken,
        Unanswered::Job(redis::Failure::TimedOut) => Failure::TimedOut,
        Unanswered::Job(redis::Failure::Refused(_)) => Failure::Refused,
        Unanswered::Job(redis::Failure::Closed) => Failure::Closed,
        Unanswered::Call(CallError::Unreadable | CallError::Unwritten(_)) => Failure::Refused,
        Unanswered::Call(CallError::Malformed) => Failure::Malformed,
    }
}
