//! What Node is told of a round.

use napi::bindgen_prelude::{Float64Array, FnArgs, Uint32Array};

use crate::abi::responses::Answers;
use crate::redis::AnsweredCalls;

/// What JavaScript is told of a round: its number, the answers, the texts of failures, and the numbers of the calls, if
/// these are not all.
pub(crate) type SettleArguments = FnArgs<(u32, Float64Array, Vec<String>, Option<Uint32Array>)>;

/// What became of a round, by its number, or of some of its calls.
pub(crate) struct Heard {
    pub(crate) round: u32,
    pub(crate) answers: Answers,
    pub(crate) calls: Option<Vec<u32>>,
}

impl Heard {
    pub(crate) fn into_arguments(self) -> SettleArguments {
        let Answers { answers, texts } = self.answers;
        let (answers, calls) = (Float64Array::new(answers), self.calls.map(Uint32Array::new));
        FnArgs::from((self.round, answers, texts, calls))
    }
}

/// What became of the calls of parts of a round, in order.
pub(crate) fn of_parts(parts: &[AnsweredCalls<'_>]) -> Answers {
    let mut all = Answers::with_room_for(parts.iter().map(|part| part.flush.len()).sum());
    let mut details = Vec::new();
    for AnsweredCalls { flush: round, answers, .. } in parts {
        let mut takes = round.takes();
        round.settle(answers, |performed| {
            all.push(performed, takes.next() == Some(true), &mut details);
        });
    }
    all.close(details)
}
