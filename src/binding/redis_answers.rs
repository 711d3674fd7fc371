//! Answers of Redis as JavaScript reads them: doubles, and the texts of failures.

use napi::bindgen_prelude::{Float64Array, FnArgs, Uint32Array};

use super::answer::{self, Failure};
use crate::perform::Performed;
use crate::several::Told;
use crate::store::redis::{self, CallError, Settled, Unanswered};

/// What JavaScript is told of a round: its number, the answers, the texts of failures, and the numbers of the calls, if
/// these are not all.
pub(super) type SettleArguments = FnArgs<(u32, Float64Array, Vec<String>, Option<Uint32Array>)>;

/// What became of a round, by its number, or of some of its calls.
pub(super) struct Heard {
    pub(super) round: u32,
    pub(super) answers: Answers,
    pub(super) calls: Option<Vec<u32>>,
}

impl Heard {
    pub(super) fn into_arguments(self) -> SettleArguments {
        let Answers { answers, texts } = self.answers;
        let (answers, calls) = (Float64Array::new(answers), self.calls.map(Uint32Array::new));
        FnArgs::from((self.round, answers, texts, calls))
    }
}

/// What became of calls.
#[derive(Default)]
pub(super) struct Answers {
    /// An answer for each call; a failure's second number is that of its text.
    pub(super) answers: Vec<f64>,
    /// What failures say.
    pub(super) texts: Vec<String>,
}

impl Answers {
    /// What became of the calls of parts of a round, in order.
    pub(super) fn of_parts(parts: &[Settled<'_>]) -> Self {
        let mut all = Self::with_room_for(parts.iter().map(|part| part.round.len()).sum());
        let mut details = Vec::new();
        for Settled { round, answers, .. } in parts {
            let mut takes = round.takes();
            round.settle(answers, |performed| {
                all.push(performed, takes.next() == Some(true), &mut details);
            });
        }
        all.close(details)
    }

    fn with_room_for(calls: usize) -> Self {
        Self { answers: Vec::with_capacity(calls * answer::LENGTH), texts: Vec::new() }
    }

    /// Adds an answer of six doubles. What there is of several limits goes behind all answers: that
    /// the n-th one begins at six times n is true of them all. Only a take of a single limit is told
    /// without.
    fn push(
        &mut self,
        performed: Result<Performed, Unanswered>,
        takes: bool,
        details: &mut Vec<f64>,
    ) {
        let mut place = [0.0; answer::LENGTH];
        match performed {
            Ok(Performed { told: Told { decision, several: None }, .. }) if takes => {
                answer::write(&mut place, Ok(Some(decision)));
            }
            Ok(performed) => {
                // From the end of the answers, until that is known.
                let (several, bookings);
                (place, several, bookings) = answer::performed(performed, details.len());
                details.extend(answer::details_of(&several));
                details.extend(answer::doubles_of(&bookings));
            }
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
