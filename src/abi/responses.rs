//! The encoding of a flush's responses: doubles, and the texts of failures.

use crate::abi::response::{self, FailureCode};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::Response;
use crate::redis::{self, CallError, CallFailure};

/// The responses to calls.
#[derive(Debug, Default)]
pub(crate) struct FlushResponses {
    /// The doubles of a response for each call, and then of all reports. The second double of a
    /// failure is the index of its text.
    pub(crate) doubles: Vec<f64>,
    /// The texts of failures.
    pub(crate) texts: Vec<String>,
}

impl FlushResponses {
    /// No responses yet, with capacity for `calls` of them.
    pub(crate) fn with_capacity(calls: usize) -> Self {
        Self { doubles: Vec::with_capacity(calls * response::LENGTH), texts: Vec::new() }
    }

    /// Adds the doubles of a response. Limit reports go to `details`, which follow all
    /// responses: so the n-th response always begins at n times its length. Only a take under a single
    /// limit without a name has no reports, unless its key is blocked.
    pub(crate) fn push(
        &mut self,
        executed: Result<Execution, CallFailure>,
        takes: bool,
        details: &mut Vec<f64>,
    ) {
        let mut buffer = [0.0; response::LENGTH];
        match executed {
            Ok(Execution {
                response: Response { decision, limits: None, blocks: None }, ..
            }) if takes => {
                response::write(&mut buffer, Ok(Some(decision)));
            }
            Ok(executed) => {
                // The offset is from the end of the responses, which is not known yet.
                let own;
                (buffer, own) = response::encode_execution(executed, details.len());
                own.append_to(details);
            }
            Err(error) => {
                response::write(&mut buffer, Err(failure_code(&error)));
                buffer[1] = f64::from(self.text_index(error.to_string()));
            }
        }
        self.doubles.extend(buffer);
    }

    /// Appends the limit reports, after the last response.
    pub(crate) fn finish(mut self, details: Vec<f64>) -> Self {
        if !details.is_empty() {
            let end = self.doubles.len();
            for (index, buffer) in self.doubles.as_chunks_mut().0.iter_mut().enumerate() {
                response::shift_details(buffer, end - index * response::LENGTH);
            }
            self.doubles.extend(details);
        }
        self
    }

    /// The index of a text. Calls that fail together mostly have the same text.
    fn text_index(&mut self, text: String) -> u32 {
        if self.texts.last() != Some(&text) {
            self.texts.push(text);
        }
        u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
    }
}

fn failure_code(error: &CallFailure) -> FailureCode {
    match error {
        CallFailure::Script(redis::ScriptFailure::Unavailable(_)) => FailureCode::Unavailable,
        CallFailure::Script(redis::ScriptFailure::Broken(_)) => FailureCode::Broken,
        CallFailure::Script(redis::ScriptFailure::TimedOut) => FailureCode::TimedOut,
        CallFailure::Script(redis::ScriptFailure::Refused(_) | redis::ScriptFailure::CrossSlot) => {
            FailureCode::Refused
        }
        CallFailure::Script(redis::ScriptFailure::Failed(_)) => FailureCode::Malformed,
        CallFailure::Script(redis::ScriptFailure::Closed) => FailureCode::Closed,
        CallFailure::Call(CallError::Unreadable | CallError::Unwritten(_) | CallError::Stale) => {
            FailureCode::Refused
        }
        CallFailure::Call(CallError::TooManyHolds) => FailureCode::TooManyHolds,
        CallFailure::Call(CallError::Malformed) => FailureCode::Malformed,
    }
}
