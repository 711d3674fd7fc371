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

/// The results that JavaScript has not received, in the order in which the flushes were completed.
///
/// The runtime's thread and the event loop's thread complete flushes. JavaScript receives all
/// results from here, so the results of one thread do not overtake those of the other.
#[derive(Default)]
pub(crate) struct FlushResults(Mutex<VecDeque<FlushArguments>>);

impl FlushResults {
    pub(crate) fn push(&self, result: FlushArguments) {
        locked(&self.0).push_back(result);
    }

    pub(crate) fn pop(&self) -> Option<FlushArguments> {
        locked(&self.0).pop_front()
    }

    /// The arguments for the next result. There is none if the event loop's thread has passed it on
    /// in the meantime.
    pub(crate) fn next_arguments(&self) -> FlushArguments {
        let none = || FnArgs::from((None, CopiedArray(Vec::new()), Vec::new(), None));
        self.pop().unwrap_or_else(none)
    }
}

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
