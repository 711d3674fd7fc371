//! Answers of Redis as JavaScript reads them: doubles, and the texts of failures.

use napi::bindgen_prelude::Float64Array;
use napi_derive::napi;

use super::answer::{self, Failure};
use crate::algorithm::Algorithm as _;
use crate::algorithm::Look;
use crate::policy::Policy;
use crate::several::{self, Told};
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
        let mut all = Self::with_room_for(round.len());
        let mut details = Vec::new();
        round.settle(answers, |told| all.push(told.map(Some), &mut details));
        all.close(details)
    }

    /// What became of a peek, asked for `cost` units.
    pub(super) fn of_peek(policy: &Policy, cost: u64, answer: Answer) -> Self {
        let standing = answer.map_err(Unanswered::Job).and_then(|values| {
            let mut reply = Reply::new(&values);
            let (outcome, left) = reply.next(policy).map_err(Unanswered::Call)?;
            let now = reply.now();
            Ok(Some(match left {
                Left::State(state) => several::peek(policy, &state, now, cost),
                Left::Told(standings) => {
                    let look = Look::at(standings, cost, outcome);
                    Told::of_peek(policy.named_limits() > 0, &look, now, cost)
                }
            }))
        });
        Self::of_one(standing)
    }

    /// Whether keys were forgotten.
    pub(super) fn of_reset(answer: Answer) -> Self {
        Self::of_one(answer.map(|_| None).map_err(Unanswered::Job))
    }

    fn of_one(told: Result<Option<Told>, Unanswered>) -> Self {
        let (mut one, mut details) = (Self::with_room_for(1), Vec::new());
        one.push(told, &mut details);
        one.close(details)
    }

    fn with_room_for(calls: usize) -> Self {
        Self { answers: Vec::with_capacity(calls * answer::LENGTH), texts: Vec::new() }
    }

    /// Adds an answer of six doubles. What there is of named limits goes behind all answers: that
    /// the n-th one begins at six times n is true of them all.
    fn push(&mut self, told: Result<Option<Told>, Unanswered>, details: &mut Vec<f64>) {
        let mut place = [0.0; answer::LENGTH];
        match told {
            Ok(Some(Told { decision, several: Some(several) })) => {
                // From the end of the answers, until that is known.
                place = answer::head_of(&decision, several.speaker, details.len());
                details.extend(answer::details_of(&several));
            }
            Ok(told) => answer::write(&mut place, Ok(told.map(|told| told.decision))),
            Err(unanswered) => {
                answer::write(&mut place, Err(failure(&unanswered)));
                place[1] = f64::from(self.number_of(unanswered.to_string()));
            }
        }
        self.answers.extend(place);
    }

    /// Appends the numbers of named limits.
    fn close(mut self, details: Vec<f64>) -> Self {
        if !details.is_empty() {
            let end = self.answers.len();
            for (index, place) in self.answers.as_chunks_mut().0.iter_mut().enumerate() {
                answer::move_details(place, end - index * answer::LENGTH);
            }
            self.answers.extend(details);
        }
        self
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
        Unanswered::Call(CallError::Unreadable | CallError::Unwritten(_) | CallError::Stale) => {
            Failure::Refused
        }
        Unanswered::Call(CallError::Malformed) => Failure::Malformed,
    }
}
