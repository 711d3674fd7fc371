//! The result of a flush, as arguments of JavaScript's callback.

use napi::bindgen_prelude::{Float64Array, FnArgs, Uint32Array};

use crate::abi::responses::FlushResponses;
use crate::redis::AnsweredCalls;

/// The flush's number, the answers, the texts of failures, and the numbers of the calls if these
/// are not all calls of the flush.
pub(crate) type FlushArguments = FnArgs<(u32, Float64Array, Vec<String>, Option<Uint32Array>)>;

/// The result of a flush, or of some of its calls.
pub(crate) struct FlushResult {
    /// The flush's number.
    pub(crate) flush: u32,
    pub(crate) answers: FlushResponses,
    pub(crate) calls: Option<Vec<u32>>,
}

impl FlushResult {
    pub(crate) fn into_arguments(self) -> FlushArguments {
        let FlushResponses { doubles, texts } = self.answers;
        let (doubles, calls) = (Float64Array::new(doubles), self.calls.map(Uint32Array::new));
        FnArgs::from((self.flush, doubles, texts, calls))
    }
}

/// The answers of partitions of a flush, in order.
pub(crate) fn of_partitions(partitions: &[AnsweredCalls<'_>]) -> FlushResponses {
    let calls = partitions.iter().map(|partition| partition.flush.len()).sum();
    let mut all = FlushResponses::with_capacity(calls);
    let mut details = Vec::new();
    for AnsweredCalls { flush, answers, .. } in partitions {
        let mut takes = flush.takes();
        flush.complete(answers, |executed| {
            all.push(executed, takes.next() == Some(true), &mut details);
        });
    }
    all.finish(details)
}
