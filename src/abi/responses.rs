//! The wire form of a round's answers: doubles, and the texts of failures.

use crate::abi::response::{self, Failure};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::Response;
use crate::redis::{self, CallError, CallFailure};

/// What became of calls.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// An answer for each call; a failure's second number is that of its text.
    pub(crate) answers: Vec<f64>,
    /// What failures say.
    pub(crate) texts: Vec<String>,
}

impl Answers {
    /// No answers, and room for those to so many calls.
    pub(crate) fn with_room_for(calls: usize) -> Self {
        Self { answers: Vec::with_capacity(calls * response::LENGTH), texts: Vec::new() }
    }

    /// Adds an answer of six doubles. What there is of several limits goes behind all answers: that
    /// the n-th one begins at six times n is true of them all. Only a take of a single limit is told
    /// without.
    pub(crate) fn push(
        &mut self,
        executed: Result<Execution, CallFailure>,
        takes: bool,
        details: &mut Vec<f64>,
    ) {
        let mut place = [0.0; response::LENGTH];
        match executed {
            Ok(Execution { response: Response { decision, limits: None }, .. }) if takes => {
                response::write(&mut place, Ok(Some(decision)));
            }
            Ok(executed) => {
                // From the end of the answers, until that is known.
                let (several, bookings);
                (place, several, bookings) = response::executed(executed, details.len());
                details.extend(response::details_of(&several));
                details.extend(response::doubles_of(&bookings));
            }
            Err(unanswered) => {
                response::write(&mut place, Err(failure(&unanswered)));
                place[1] = f64::from(self.number_of(unanswered.to_string()));
            }
        }
        self.answers.extend(place);
    }

    /// Appends the numbers of named limits, when all calls have been answered.
    pub(crate) fn close(mut self, details: Vec<f64>) -> Self {
        if !details.is_empty() {
            let end = self.answers.len();
            for (index, place) in self.answers.as_chunks_mut().0.iter_mut().enumerate() {
                response::move_details(place, end - index * response::LENGTH);
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

fn failure(unanswered: &CallFailure) -> Failure {
    match unanswered {
        CallFailure::Script(redis::ScriptFailure::Unavailable(_)) => Failure::Unavailable,
        CallFailure::Script(redis::ScriptFailure::Broken(_)) => Failure::Broken,
        CallFailure::Script(redis::ScriptFailure::TimedOut) => Failure::TimedOut,
        CallFailure::Script(redis::ScriptFailure::Refused(_)) => Failure::Refused,
        CallFailure::Script(redis::ScriptFailure::Closed) => Failure::Closed,
        CallFailure::Call(CallError::Unreadable | CallError::Unwritten(_) | CallError::Stale) => {
            Failure::Refused
        }
        CallFailure::Call(CallError::Malformed) => Failure::Malformed,
    }
}
