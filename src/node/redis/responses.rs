//! The results of flushes, as arguments of JavaScript's callback.

use std::collections::VecDeque;
use std::sync::Mutex;

use napi::bindgen_prelude::FnArgs;

use crate::abi::responses::FlushResponses;
use crate::node::redis::copied_array::CopiedArray;
use crate::node::redis::limiter::locked;
use crate::redis::AnsweredCalls;

/// The flush's number, the answers, the texts of failures, and the numbers of the calls if these
/// are not all calls of the flush. Without a number there is no result.
pub(crate) type FlushArguments =
    FnArgs<(Option<u32>, CopiedArray<f64>, Vec<String>, Option<CopiedArray<u32>>)>;

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
        let (doubles, calls) = (CopiedArray(doubles), self.calls.map(CopiedArray));
        FnArgs::from((Some(self.flush), doubles, texts, calls))
    }
}

/// The results that JavaScript has not received, in the order in which the flushes were completed.
///
/// The runtime's thread and the event loop's thread complete flushes. JavaScript receives all
/// results from here, so the results of one thread do not overtake those of the other.
#[derive(Default)]
pub(crate) struct FlushResults(Mutex<VecDeque<FlushResult>>);

impl FlushResults {
    pub(crate) fn push(&self, result: FlushResult) {
        locked(&self.0).push_back(result);
    }

    pub(crate) fn pop(&self) -> Option<FlushResult> {
        locked(&self.0).pop_front()
    }

    /// The arguments for the next result. There is none if the event loop's thread has passed it on
    /// in the meantime.
    pub(crate) fn next_arguments(&self) -> FlushArguments {
        self.pop().map_or_else(
            || FnArgs::from((None, CopiedArray(Vec::new()), Vec::new(), None)),
            FlushResult::into_arguments,
        )
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
