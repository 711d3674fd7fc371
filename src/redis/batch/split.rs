//! Splits batches: by policy variant, and into passes of distinct keys.
//!
//! A section of a script's request has one policy set, so the calls of each policy variant form
//! their own entry. If calls under several variants have a key in common, the entries keep them in
//! order.
//!
//! The script's fast paths need distinct keys. The first pass has the first call on each key, the
//! second pass the second call on each key, and so on. Calls on one key stay in order; calls on
//! different keys are independent.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::policy::variants::PolicyVariants;
use crate::redis::batch::call_batch::CallBatch;
use crate::redis::batch::flush::{Flush, FlushEntry};
use crate::redis::batch::subset::SubsetBuilder;

impl Flush {
    /// Adds the batch of a limiter whose calls name variants of its policies.
    pub fn push_variants(&mut self, variants: &PolicyVariants, batch: CallBatch) {
        batch.into_sections().for_each(|section| self.push_section(variants, section));
    }

    fn push_section(&mut self, variants: &PolicyVariants, batch: CallBatch) {
        let before = self.len();
        let Some(groups) = batch.groups_by_variant() else {
            self.push_entry(Arc::clone(variants.get(batch.variant_of(0))), batch, None);
            return;
        };
        let policies = |call| Arc::clone(variants.get(batch.variant_of(call)));
        for (subset, calls) in SubsetBuilder::new(&batch, variants.get(0)).build_groups(&groups) {
            let own = policies(calls[0]);
            let positions = calls.iter().map(|call| before + call).collect();
            self.push_entry(own, subset, Some(positions));
        }
    }

    /// Splits batches with repeated keys into passes. The result cannot be split by slot.
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
        let mut before = 0;
        for (entry, passes) in self.entries.into_iter().zip(passes) {
            let calls = entry.batch.len();
            flush.push_groups(entry, &passes.unwrap_or_default(), before);
            before += calls;
        }
        flush
    }

    /// Adds an entry in parts: one for each group of its calls. `groups` has the group of each call,
    /// or is empty; `before` is the number of calls of the entries before.
    pub(super) fn push_groups(&mut self, entry: FlushEntry, groups: &[usize], before: usize) {
        if groups.iter().all(|group| *group == 0) {
            self.push_entry(entry.policies, entry.batch, entry.positions);
            return;
        }
        let policies = Arc::clone(&entry.policies);
        for (batch, calls) in entry.into_parts(groups, before) {
            self.push_entry(Arc::clone(&policies), batch, Some(calls));
        }
    }
}

/// For each id: its group, by first appearance. Also the id of each group.
pub(super) fn groups_by_id<I: Copy + Eq + Hash>(
    ids: impl IntoIterator<Item = I>,
) -> (Vec<usize>, Vec<I>) {
    let (mut known, mut found) = (Vec::new(), HashMap::new());
    let group = |id| {
        *found.entry(id).or_insert_with(|| {
            known.push(id);
            known.len() - 1
        })
    };
    (ids.into_iter().map(group).collect(), known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CalendarWindow, FixedWindow};
    use crate::calendar::Every;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::policy_set::PolicySet;
    use crate::redis::batch::flush;
    use crate::redis::{KeyNames, ScriptResult};

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

    fn entries(flush: &Flush) -> Vec<String> {
        let of_name = |name: &[u8]| char::from(name[name.len() - 2]);
        flush.entries.iter().map(|entry| entry.batch.keys().iter().map(of_name).collect()).collect()
    }

    /// A reply: the units used in an open window, by call.
    fn reply(used: &[u32], outcomes: &[u8]) -> ScriptResult {
        let states: Vec<_> = used.iter().flat_map(|&used| [2.0, f64::from(used)]).collect();
        flush::tests::reply(900, &states, outcomes)
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
    fn an_appended_flush_completes_after_the_first_one() {
        let (mut first, mut later) = (flush(&window(), "aab"), flush(&window(), "bac"));
        assert!(first.append(&mut later));
        assert_eq!((entries(&first).join(" "), later.len()), ("ab a bac".into(), 0));
        assert_eq!(first.script_calls().len(), 1);
        let answers = [reply(&[1, 2, 3, 4, 5, 6], &[])];
        assert_eq!(remaining(&first, &answers), [8, 6, 7, 5, 4, 3]);
    }

    #[test]
    fn a_flush_is_not_appended_to_one_of_another_kind_or_beyond_one_script_call() {
        let mut peek = flush(&window(), "a");
        peek.peeks = true;
        assert!(!flush(&window(), "a").append(&mut peek));
        let many = || flush(&window(), &"a".repeat(501));
        let mut later = many();
        assert!(!many().append(&mut later));
        assert_eq!(later.len(), 501);
    }

    /// A key number has two bytes: number 65,536 would be that of another key.
    #[test]
    fn a_batch_of_more_keys_than_a_request_can_number_is_split_and_completes_in_call_order() {
        const CALLS: usize = 70_001;
        let other = Policy::FixedWindow(FixedWindow::new(5, 1_000).unwrap());
        let mut variants = PolicyVariants::new(window());
        let upper = variants.add(other.into()).unwrap();
        let names = KeyNames::new("api", &window());
        for variant in [0, upper] {
            let mut batch = CallBatch::new();
            for number in 0..CALLS {
                batch.push(&names, Key::new(&number.to_string()).unwrap(), 1);
                batch.set_variant(if number % 7 == 0 { variant } else { 0 });
            }
            assert_eq!(batch.len(), CALLS);
            let mut flush = Flush::default();
            flush.push_variants(&variants, batch.take());
            assert!(batch.is_empty());
            assert_eq!(flush.len(), CALLS);
            let mut names_of_calls = vec![Vec::new(); CALLS];
            let mut positions = flush.positions();
            for FlushEntry { batch, .. } in &flush.entries {
                assert!(batch.len() <= 1_000);
                for (_, numbers) in batch.calls() {
                    let name = batch.names[0].get(usize::from(numbers[0]) - 1);
                    names_of_calls[positions.next().unwrap()] = name.to_vec();
                }
            }
            let expected =
                (0..CALLS).map(|number| format!("api:default:fw:{{{number}}}").into_bytes());
            assert!(names_of_calls.into_iter().eq(expected));
        }
    }

    #[test]
    fn many_calls_on_a_key_stay_together() {
        assert_eq!(entries(&flush(&window(), "abcdefaaaaaa")), ["abcdef", "a", "a", "a"]);
        assert_eq!(entries(&flush(&window(), "abaaaa")), ["ab"], "most of them repeat");
        assert_eq!(entries(&flush(&window(), "abc")), ["abc"]);
    }

    /// A call of one unit on each key: lower case under variant 0, upper case under variant 1.
    fn flush_of_variants(keys: &str) -> Flush {
        let other = Policy::FixedWindow(FixedWindow::new(5, 1_000).unwrap());
        let mut variants = PolicyVariants::new(window());
        let upper = variants.add(other.into()).unwrap();
        let names = KeyNames::new("api", &window());
        let mut batch = CallBatch::new();
        for key in keys.chars() {
            let lower = key.to_ascii_lowercase().to_string();
            batch.push(&names, Key::new(&lower).unwrap(), 1);
            batch.set_variant(if key.is_uppercase() { upper } else { 0 });
        }
        let mut flush = Flush::default();
        flush.push_variants(&variants, batch.take());
        flush
    }

    #[test]
    fn calls_of_a_variant_are_together_unless_another_variant_has_their_key_in_between() {
        let entries_of = |keys| entries(&flush_of_variants(keys));
        assert_eq!(entries_of("abc"), ["abc"]);
        assert_eq!(entries_of("ABC"), ["abc"]);
        assert_eq!(entries_of("aBcD"), ["ac", "bd"]);
        assert_eq!(entries_of("aAa"), ["a", "a", "a"]);
        assert_eq!(entries_of("aBAbc"), ["a", "ba", "bc"]);
        assert_eq!(entries(&flush_of_variants("aBcDaD").deduplicate()), ["ac", "a", "bd", "d"]);
    }

    #[test]
    fn calls_of_variants_are_decided_by_their_own_numbers_and_complete_in_call_order() {
        for flush in [flush_of_variants("aBAbc"), flush_of_variants("aBAbc").deduplicate()] {
            assert_eq!(flush.script_calls().len(), 1, "one script decides them");
            // In the order of the entries: a, BA, bc. The limits are 9 and 5.
            let answers = [reply(&[1, 2, 2, 1, 3], &[])];
            assert_eq!(remaining(&flush, &answers), [8, 3, 3, 8, 6]);
            assert_eq!(flush.takes().collect::<Vec<_>>(), [true; 5]);
        }
    }

    #[test]
    fn the_slots_of_variants_name_their_calls_in_call_order() {
        let slots = flush_of_variants("aBAbc").by_slot();
        let mut calls: Vec<_> =
            slots.partitions.iter().map(|partition| partition.calls.clone()).collect();
        calls.sort();
        assert_eq!(calls, [vec![0, 2], vec![1, 3], vec![4]]);
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
