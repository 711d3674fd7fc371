//! Flushes whose script calls have one key each, for servers behind one address that each have some
//! of the keys.
//!
//! A proxy such as twemproxy sends a script to the server that its first key belongs to, and the
//! script finds its other keys there, too, whatever their names. So a script call may only have
//! calls with the same first key: then each key is on one server. The other keys of such a call are
//! those of its other policies and its holds. All of them must share a hash tag.

use std::collections::HashMap;

use crate::redis::batch::call_batch::CallBatch;
use crate::redis::batch::flush::{Flush, FlushEntry};
use crate::redis::batch::split::groups_by_id;
use crate::redis::slot::hash_tag;

impl Flush {
    /// Regroups an unsent flush so that the calls of a script call have the same first key. Calls
    /// whose own keys do not share a hash tag are not sent: they fail.
    #[must_use]
    pub fn by_key(mut self) -> Self {
        if self.registration.is_none() {
            self.script_calls.clear();
            self.regroup(|_| true);
        }
        self
    }

    /// Moves the calls of some entries to new script calls, in parts with calls on the same keys.
    pub(super) fn regroup(&mut self, is_moved: impl Fn(&FlushEntry) -> bool) {
        self.first_current = self.script_calls.len();
        self.script_call_of_key = Some(HashMap::new());
        let mut before = 0;
        for entry in std::mem::take(&mut self.entries) {
            let calls = entry.batch.len();
            if is_moved(&entry) {
                let (groups, _) = groups_by_id(entry.batch.calls().map(|(_, numbers)| numbers));
                self.push_groups(entry, &groups, before);
            } else {
                self.entries.push(entry);
            }
            before += calls;
        }
    }
}

impl CallBatch {
    /// Whether all keys have the same hash tag. The batch has one key for each policy.
    pub(super) fn shares_hash_tag(&self) -> bool {
        let named = self.names.iter().filter(|keys| !keys.is_empty());
        let mut tags = named.map(|keys| hash_tag(keys.get(0)));
        let first = tags.next();
        tags.all(|tag| Some(tag) == first)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::algorithm::FixedWindow;
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::policy::operation::Operation;
    use crate::policy::policy_set::{NamedPolicy, PolicySet};
    use crate::redis::batch::flush::{self, CallFailure};
    use crate::redis::{KeyNames, ScriptFailure, ScriptResult};

    /// Policies by name, each with its key dimension.
    fn policies(dimensions: &[(&str, usize)]) -> PolicySet {
        let named = |&(name, key_dimension): &(&str, usize)| {
            let policy = Policy::FixedWindow(FixedWindow::new(9, 1_000).unwrap());
            NamedPolicy { name: name.into(), policy, key_dimension }
        };
        PolicySet::multi(dimensions.iter().map(named).collect()).unwrap()
    }

    /// A take on the keys of each call: one letter for each key dimension.
    fn flush(prefix: &str, policies: &PolicySet, calls: &[&str], tag: Option<&str>) -> Flush {
        let names = KeyNames::new(prefix, policies);
        let mut batch = CallBatch::new();
        for call in calls {
            let letters: Vec<_> = call.chars().map(String::from).collect();
            let keys: Vec<_> = letters.iter().map(|key| Key::new(key).ok()).collect();
            batch.push_operation(&names, &keys, tag, Operation::Take { cost: 1.into() });
        }
        let mut flush = Flush::default();
        flush.push(Arc::new(policies.clone()), batch);
        flush
    }

    fn keys_of(flush: &Flush) -> Vec<String> {
        let of_call = |keys: &crate::redis::ScriptKeys| {
            let names: Vec<_> = keys.iter().map(String::from_utf8_lossy).collect();
            names.join(" ")
        };
        flush.script_calls().iter().map(|call| of_call(&call.keys)).collect()
    }

    fn replies(used: &[&[u32]]) -> Vec<ScriptResult> {
        let reply = |used: &&[u32]| {
            let states: Vec<_> = used.iter().flat_map(|&used| [2.0, f64::from(used)]).collect();
            flush::tests::reply(900, &states, &[])
        };
        used.iter().map(reply).collect()
    }

    /// The remaining units of each call, or 99 for a call whose keys do not share a hash tag.
    fn remaining(flush: &Flush, results: &[ScriptResult]) -> Vec<u64> {
        let mut all = Vec::new();
        flush.complete(results, |one| {
            all.push(match one {
                Ok(one) => one.response.decision.remaining,
                Err(CallFailure::Script(ScriptFailure::CrossSlot)) => 99,
                Err(other) => panic!("{other}"),
            });
        });
        all
    }

    #[test]
    fn a_script_call_has_the_calls_on_one_key_of_one_limiter() {
        let one = policies(&[("a", 0)]);
        let mut all = flush("x", &one, &["p", "q", "p"], None);
        all.extend(flush("y", &one, &["p"], None));
        let all = all.by_key();
        assert_eq!(keys_of(&all), ["x:a:fw:{p}", "x:a:fw:{q}", "y:a:fw:{p}"]);
        assert_eq!(remaining(&all, &replies(&[&[1, 3], &[2], &[4]])), [8, 7, 6, 5]);
        // Again: the calls of an appended flush are regrouped with those before.
        let mut all = all;
        all.extend(flush("x", &one, &["q"], None).by_key());
        let all = all.by_key();
        assert_eq!(keys_of(&all)[1], "x:a:fw:{q} x:a:fw:{q}");
        assert_eq!(remaining(&all, &replies(&[&[1, 3], &[2, 6], &[4]])), [8, 7, 6, 5, 3]);
    }

    #[test]
    fn the_policies_and_the_holds_of_a_key_are_in_one_script_call() {
        let two = policies(&[("a", 0), ("b", 0)]);
        let all = flush("x", &two, &["p", "q"], None).by_key();
        assert_eq!(keys_of(&all), ["x:a:fw:{p} x:b:fw:{p}", "x:a:fw:{q} x:b:fw:{q}"]);
    }

    #[test]
    fn a_call_on_keys_with_several_hash_tags_fails_unsent() {
        let two = policies(&[("ip", 0), ("user", 1)]);
        let all = flush("x", &two, &["pu", "pp", "qu"], None).by_key();
        assert_eq!(keys_of(&all), ["x:ip:fw:{p} x:user:fw:{p}"]);
        assert_eq!(remaining(&all, &replies(&[&[1, 1]])), [99, 8, 99]);
        let tagged = flush("x", &two, &["pu", "pv", "qu"], Some("t")).by_key();
        assert_eq!(
            keys_of(&tagged),
            [
                "x:ip:fw:{t}p x:user:fw:{t}u x:ip:fw:{t}p x:user:fw:{t}v",
                "x:ip:fw:{t}q x:user:fw:{t}u"
            ]
        );
    }

    #[test]
    fn after_a_refusal_for_several_slots_each_key_has_a_script_call() {
        let one = policies(&[("a", 0)]);
        let mut all = flush("x", &one, &["p", "q", "p"], None).deduplicate();
        let mut results = vec![Err(ScriptFailure::CrossSlot)];
        assert!(all.retry_cross_slot(&results));
        assert_eq!(keys_of(&all), ["x:a:fw:{p} x:a:fw:{p}", "x:a:fw:{q}"]);
        results.extend(replies(&[&[1, 3], &[2]]));
        assert!(!all.retry_cross_slot(&results));
        assert_eq!(remaining(&all, &results), [8, 7, 6]);
    }

    #[test]
    fn a_refusal_of_the_keys_of_one_call_is_final() {
        let two = policies(&[("ip", 0), ("user", 1)]);
        let mut all = flush("x", &two, &["pu"], None);
        let results = [Err(ScriptFailure::CrossSlot)];
        assert!(all.retry_cross_slot(&results));
        assert_eq!(keys_of(&all), Vec::<String>::new());
        assert_eq!(remaining(&all, &results), [99]);
        let mut tagged = flush("x", &two, &["pu"], Some("t")).by_key();
        assert!(!tagged.retry_cross_slot(&results));
        assert_eq!(remaining(&tagged, &results), [99]);
    }
}
