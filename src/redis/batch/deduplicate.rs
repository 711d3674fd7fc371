//! Splits calls on repeated keys into passes of distinct keys.
//!
//! The script's fast paths need distinct keys. The first pass has the first call on each key, the
//! second pass the second call on each key, and so on. Calls on one key stay in order; calls on
//! different keys are independent.

use std::sync::Arc;

use crate::redis::batch::call_batch::pass_count;
use crate::redis::batch::flush::{Flush, FlushEntry};
use crate::redis::batch::subset::SubsetBuilder;

impl Flush {
    /// Splits batches with repeated keys into one entry per pass. The result cannot be partitioned
    /// by slot any more.
    #[must_use]
    pub fn deduplicate(self) -> Self {
        // A peek changes no state, so repeated keys cost it nothing.
        let passes_of =
            |entry: &FlushEntry| entry.batch.passes(&entry.policies).filter(|_| !self.peeks);
        let passes: Vec<_> = self.entries.iter().map(passes_of).collect();
        if passes.iter().all(Option::is_none) {
            return self;
        }
        let mut flush = Self::default();
        for (FlushEntry { policies, batch, .. }, passes) in self.entries.into_iter().zip(passes) {
            let Some(passes) = passes else {
                flush.push(policies, batch);
                continue;
            };
            let first = flush.entries.len();
            let mut subsets = SubsetBuilder::new(&batch, &policies);
            for pass in 0..pass_count(&passes) {
                let mut calls = (0..passes.len()).collect::<Vec<_>>();
                calls.retain(|&call| usize::from(passes[call]) == pass);
                flush.push(Arc::clone(&policies), subsets.build(&calls));
            }
            flush.entries[first].passes = passes;
        }
        flush
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CalendarWindow, FixedWindow};
    use crate::calendar::Every;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::policy_set::PolicySet;
    use crate::redis::batch::call_batch::CallBatch;
    use crate::redis::{KeyNames, ReplyValue, ScriptResult};

    fn window() -> PolicySet {
        Policy::FixedWindow(FixedWindow::new(9, 1_000).unwrap()).into()
    }

    fn monthly() -> PolicySet {
        Policy::CalendarWindow(CalendarWindow::new(9, Every::Month, "UTC").unwrap()).into()
    }

    /// A call of one unit on each of these keys, split into passes.
    fn flush(policies: &PolicySet, keys: &str) -> Flush {
        let names = KeyNames::new("api", policies);
        let mut batch = CallBatch::new();
        for key in keys.chars() {
            batch.push(&names, Key::new(&key.to_string()).unwrap(), 1);
        }
        let mut flush = Flush::default();
        flush.push(Arc::new(policies.clone()), batch);
        flush.deduplicate()
    }

    /// The keys of each entry.
    fn entries(flush: &Flush) -> Vec<String> {
        let of_name = |name: &[u8]| char::from(name[name.len() - 2]);
        flush.entries.iter().map(|entry| entry.batch.keys().iter().map(of_name).collect()).collect()
    }

    /// A reply: the units used in an open window, by call.
    fn reply(used: &[u32], outcomes: &[u8]) -> ScriptResult {
        let states = used.iter().flat_map(|&used| [2.0, f64::from(used)].map(f64::to_be_bytes));
        let states = states.flatten().collect();
        let outcomes = ReplyValue::Bytes(outcomes.to_vec());
        Ok(vec![
            ReplyValue::Number(900),
            ReplyValue::Bytes(states),
            outcomes,
            ReplyValue::Bytes(vec![]),
        ])
    }

    fn remaining(flush: &Flush, answers: &[ScriptResult]) -> Vec<u64> {
        let mut all = Vec::new();
        flush.complete(answers, |one| all.push(one.unwrap().response.decision.remaining));
        all
    }

    #[test]
    fn calls_on_one_key_are_in_different_passes_and_complete_in_call_order() {
        let flush = flush(&window(), "abacadb");
        assert_eq!(entries(&flush), ["abcd", "ab", "a"]);
        assert_eq!(flush.script_calls().len(), 1, "one script decides them");
        let answers = [reply(&[1, 2, 3, 4, 5, 6, 7], &[])];
        // For each call: a b a c a d b.
        assert_eq!(remaining(&flush, &answers), [8, 7, 4, 6, 2, 5, 3]);
    }

    #[test]
    fn many_calls_on_a_key_stay_together() {
        assert_eq!(entries(&flush(&window(), "abcdefaaaaaa")), ["abcdef", "a", "a", "a"]);
        assert_eq!(entries(&flush(&window(), "abaaaa")), ["ab"], "most of them repeat");
        assert_eq!(entries(&flush(&window(), "abc")), ["abc"]);
    }

    #[test]
    fn stale_passes_are_retried_and_complete_in_call_order() {
        let mut flush = flush(&monthly(), "aab");
        let mut answers = vec![reply(&[0, 0, 0], &[5, 5, 5])];
        assert_eq!(flush.retry_stale(&answers), Some(900));
        assert_eq!(flush.script_calls().len(), 1);
        answers.push(reply(&[1, 2, 3], &[]));
        assert_eq!(flush.retry_stale(&answers), None);
        assert_eq!(remaining(&flush, &answers), [8, 6, 7]);
    }
}
