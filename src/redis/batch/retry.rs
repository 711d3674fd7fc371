//! Retries of calls that have not been decided: stale ones, and those of a script call whose keys
//! the server does not take together.

use crate::redis::batch::flush::{Flush, FlushEntry};
use crate::redis::batch::script_call::{ScriptFailure, ScriptResult};
use crate::redis::codec::reply::ReplyReader;
use crate::time::Micros;

/// Stale calls are retried this often. If they are stale again, Redis's clock keeps jumping.
const MAX_RETRIES: u32 = 2;

impl Flush {
    /// Prepares a retry of the stale batches. Returns the server's time, or `None` if there is
    /// nothing to retry. `results` has the results of all script calls so far; append the results
    /// of the retry to it.
    ///
    /// All calls of a batch are stale together, so a retry keeps their order.
    pub fn retry_stale(&mut self, results: &[ScriptResult]) -> Option<Micros> {
        if self.retries == MAX_RETRIES || !self.is_timed() {
            return None;
        }
        let (first, mut server_time) = (self.first_current, None);
        let mut read = vec![0; self.script_calls.len()];
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            let Some(script_call) = entry.script_call else { continue };
            let before = read[script_call];
            let outcomes = entry.batch.outcome_count(&entry.policies);
            read[script_call] += outcomes;
            let result = results.get(script_call).filter(|_| script_call >= first);
            let Some(Ok(values)) = result else { continue };
            let reply = ReplyReader::new(values);
            if !entry.batch.is_empty() && reply.is_stale(before) {
                if server_time.is_none() {
                    self.first_current = self.script_calls.len();
                }
                server_time = Some(reply.now());
                entry.stale_in.push(script_call);
                entry.batch.set_time(reply.now());
                entry.script_call = Some(self.assign(&entry.batch, outcomes));
            }
        }
        self.entries = entries;
        self.retries += u32::from(server_time.is_some());
        server_time
    }

    /// Prepares a retry of the script calls that a server refused because their keys are in several
    /// slots: nothing has run. Each of the new script calls has [one key](Self::by_key). Returns
    /// whether there is such a script call. `results` is as for [`retry_stale`](Self::retry_stale).
    pub fn retry_cross_slot(&mut self, results: &[ScriptResult]) -> bool {
        // The outcomes of an attempt cannot be skipped by parts of its batch.
        let is_refused = |entry: &FlushEntry| {
            let result = entry.script_call.and_then(|index| results.get(index));
            entry.stale_in.is_empty() && matches!(result, Some(Err(ScriptFailure::CrossSlot)))
        };
        if self.script_call_of_key.is_some() || !self.entries.iter().any(is_refused) {
            return false;
        }
        self.regroup(is_refused);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::CalendarWindow;
    use crate::calendar::Every;
    use crate::policy::Policy;
    use crate::policy::policy_set::PolicySet;
    use crate::redis::CallError;
    use crate::redis::batch::flush::CallFailure;
    use crate::redis::batch::flush::tests::{completed, flush, gcra, keys_of, reply, window};

    fn daily() -> PolicySet {
        Policy::CalendarWindow(CalendarWindow::new(7, Every::Day, "UTC").unwrap()).into()
    }

    #[test]
    fn only_stale_batches_are_retried_and_complete_in_call_order() {
        let mut flush = flush(&[(daily(), 2), (window(), 1), (gcra(), 1), (daily(), 1)]);
        assert!(flush.is_timed());
        let first = reply(900, &[0., 0., 0., 0., 1., 5., 900., 0., 0., 0.], &[5, 5, 0, 0, 5]);
        let mut results = vec![first];
        assert_eq!(flush.retry_stale(&results), Some(900));
        assert_eq!(keys_of(&flush), [3]);
        results.push(reply(901, &[1., 1., 1., 2., 1., 3.], &[]));
        assert_eq!(flush.retry_stale(&results), None);
        assert_eq!(completed(&flush, &results), [Ok(6), Ok(5), Ok(2), Ok(7), Ok(4)]);
    }

    /// The script adds flags to an outcome for other parameters, an override or a block.
    #[test]
    fn stale_outcomes_with_other_flags_are_retried() {
        for flags in [8, 16, 32, 8 + 16 + 32] {
            let mut flush = flush(&[(daily(), 1)]);
            let results = [reply(900, &[0., 0.], &[5 + flags])];
            assert_eq!(flush.retry_stale(&results), Some(900), "{flags}");
        }
    }

    #[test]
    fn a_batch_that_is_stale_three_times_fails_uncharged() {
        let mut flush = flush(&[(daily(), 1), (window(), 1)]);
        let mut results = vec![reply(900, &[0., 0., 1., 5.], &[5, 0])];
        for now in [900_u64, 950] {
            assert_eq!(flush.retry_stale(&results), Some(now));
            assert_eq!(keys_of(&flush), [1]);
            results.push(reply(now.cast_signed() + 50, &[0., 0.], &[5]));
        }
        assert_eq!(flush.retry_stale(&results), None);
        assert_eq!(completed(&flush, &results), [Err(CallFailure::Call(CallError::Stale)), Ok(2)]);
    }

    #[test]
    fn a_retry_that_fails_reports_the_failure() {
        let mut flush = flush(&[(daily(), 1), (window(), 1)]);
        let mut results = vec![reply(900, &[0., 0., 1., 5.], &[5, 0])];
        assert_eq!(flush.retry_stale(&results), Some(900));
        results.push(Err(ScriptFailure::TimedOut));
        assert_eq!(flush.retry_stale(&results), None);
        let late = Err(CallFailure::Script(ScriptFailure::TimedOut));
        assert_eq!(completed(&flush, &results), [late, Ok(2)]);
    }
}
