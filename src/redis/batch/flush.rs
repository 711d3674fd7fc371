//! The batches of several limiters that are sent together.

use std::collections::HashMap;
use std::sync::Arc;
use std::{fmt, iter};

use crate::policy::execute::Execution;
use crate::policy::policy_set::PolicySet;
use crate::redis::batch::call_batch::CallBatch;
use crate::redis::batch::hit_predictor::HitPredictor;
use crate::redis::batch::policy_registry;
use crate::redis::batch::script_call::{ScriptCall, ScriptFailure, ScriptResult};
use crate::redis::batch::subset::SubsetBuilder;
use crate::redis::codec::codec;
use crate::redis::codec::reply::{CallError, ReplyReader};
use crate::time::Micros;

/// The maximum number of outcomes in one script call: Lua cannot unpack more than 8,000 values.
const MAX_OUTCOMES: usize = 1_000;

/// Batches, in the order in which their calls complete.
#[derive(Debug, Default)]
pub struct Flush {
    pub(crate) entries: Vec<FlushEntry>,
    /// For each script call: its outcomes so far.
    pub(crate) script_calls: Vec<usize>,
    pub(super) first_current: usize,
    pub(super) retries: u32,
    /// Set if each script call has the keys of one first key: see [`by_key`](Self::by_key).
    pub(super) script_call_of_key: Option<HashMap<Box<[u8]>, usize>>,
    pub(crate) peeks: bool,
    /// The script call of a flush that only registers policies.
    pub(crate) registration: Option<Box<ScriptCall>>,
}

#[derive(Debug)]
pub(crate) struct FlushEntry {
    pub(crate) policies: Arc<PolicySet>,
    pub(crate) batch: CallBatch,
    /// `None` if no script call may have the calls: the keys of each do not share a hash tag.
    pub(super) script_call: Option<usize>,
    /// The earlier script calls that reported this batch as stale.
    pub(super) stale_in: Vec<usize>,
    /// The indexes of the calls in the flush; `None` if they follow those of the entries before.
    pub(crate) positions: Option<Box<[usize]>>,
}

/// The reason why a call has no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// The whole script call failed.
    Script(ScriptFailure),
    /// The script ran, but reported an error for this call.
    Call(CallError),
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Script(failure) => failure.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl Flush {
    /// A flush without calls that registers the text of a prefix's policies in Redis for
    /// `lasting_ms` milliseconds; 0 registers nothing. Its one result is the list of all registered
    /// texts.
    #[must_use]
    pub fn registering(prefix: &str, text: &str, lasting_ms: u64) -> Self {
        let registration = Some(Box::new(policy_registry::registration(prefix, text, lasting_ms)));
        Self { registration, script_calls: vec![0], ..Self::default() }
    }

    /// A flush whose calls report what they would do and change nothing.
    #[must_use]
    pub fn peeking() -> Self {
        Self { peeks: true, ..Self::default() }
    }

    /// Adds the batch of a limiter.
    pub fn push(&mut self, policies: Arc<PolicySet>, batch: CallBatch) {
        for (policies, section) in iter::repeat(policies).zip(batch.into_sections()) {
            self.push_entry(policies, section, None);
        }
    }

    /// Adds a batch, all calls of which have the same variant. With one key per script call, calls
    /// whose keys do not share a hash tag are not sent: they fail.
    pub(super) fn push_entry(
        &mut self,
        policies: Arc<PolicySet>,
        batch: CallBatch,
        positions: Option<Box<[usize]>>,
    ) {
        let may_send = self.script_call_of_key.is_none() || batch.shares_hash_tag();
        let script_call = may_send.then(|| self.assign(&batch, batch.outcome_count(&policies)));
        let stale_in = Vec::new();
        self.entries.push(FlushEntry { policies, batch, script_call, stale_in, positions });
    }

    /// Whether a batch fits into the latest script call. True if there is no script call yet.
    pub(crate) fn fits(&self, policies: &PolicySet, batch: &CallBatch) -> bool {
        let others = self.script_calls[self.first_current..].last();
        others.is_none_or(|others| others + batch.outcome_count(policies) <= MAX_OUTCOMES)
    }

    pub(crate) fn extend(&mut self, other: Self) {
        let before = self.len();
        for FlushEntry { policies, batch, positions, .. } in other.entries {
            let moved = positions.map(|all| all.iter().map(|position| before + position).collect());
            self.push_entry(policies, batch, moved);
        }
    }

    /// Appends the calls of a later flush, if one script call can have them all. Neither flush has
    /// been sent. Returns whether it did; otherwise both are unchanged.
    pub fn append(&mut self, later: &mut Self) -> bool {
        let (&[outcomes], &[more]) = (&self.script_calls[..], &later.script_calls[..]) else {
            return false;
        };
        let fits = self.peeks == later.peeks && outcomes + more <= MAX_OUTCOMES;
        if fits {
            self.extend(std::mem::take(later));
        }
        fits
    }

    /// Assigns the outcomes of a batch to the latest script call, or to a new one if they do not
    /// fit. With one key per script call, only batches with the same first key share a script call.
    pub(super) fn assign(&mut self, batch: &CallBatch, outcomes: usize) -> usize {
        let next = self.script_calls.len();
        let latest = match &mut self.script_call_of_key {
            None => next.checked_sub(1),
            Some(of_key) => batch.first_key().and_then(|key| of_key.get(key).copied()),
        };
        let fits = |index: &usize| {
            *index >= self.first_current && self.script_calls[*index] + outcomes <= MAX_OUTCOMES
        };
        let script_call = latest.filter(fits).unwrap_or(next);
        if script_call == next {
            self.script_calls.push(0);
        }
        if let (Some(of_key), Some(key)) = (&mut self.script_call_of_key, batch.first_key()) {
            of_key.insert(key.into(), script_call);
        }
        self.script_calls[script_call] += outcomes;
        script_call
    }

    /// Sets the estimated time at which the server decides the calls: see [`CallBatch::set_time`].
    pub fn set_time(&mut self, estimated_now: Micros) {
        self.entries.iter_mut().for_each(|entry| entry.batch.set_time(estimated_now));
    }

    /// Whether any request depends on the estimated time.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        let is_timed = |entry: &FlushEntry| {
            entry.policies.named().iter().any(|named| codec(&named.policy).depends_on_time())
        };
        self.entries.iter().any(is_timed)
    }

    /// The script calls of the current attempt: for all calls, or, after
    /// [`retry_stale`](Self::retry_stale), for the stale ones.
    #[must_use]
    pub fn script_calls(&self) -> Vec<ScriptCall> {
        if let Some(registration) = &self.registration {
            return vec![ScriptCall::clone(registration)];
        }
        let current = &self.script_calls[self.first_current..];
        let mut script_calls: Vec<ScriptCall> =
            current.iter().map(|_| ScriptCall::deciding()).collect();
        for FlushEntry { policies, batch, script_call, .. } in &self.entries {
            let current = script_call.and_then(|index| index.checked_sub(self.first_current));
            let Some(index) = current else { continue };
            let ScriptCall { keys, arguments, .. } = &mut script_calls[index];
            batch.add_keys_to(keys);
            batch.write(policies, &mut arguments[0]);
        }
        if self.peeks {
            script_calls.iter_mut().for_each(|call| call.arguments.push(b"peek".to_vec()));
        }
        script_calls
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| entry.batch.len()).sum()
    }

    /// For each call, in order: whether it is a plain take.
    pub fn takes(&self) -> impl Iterator<Item = bool> {
        let is_in_order = self.is_in_order();
        let entries = self.entries.iter().filter(move |_| is_in_order);
        let mut ordered = vec![false; if is_in_order { 0 } else { self.len() }];
        if !is_in_order {
            let mut positions = self.positions();
            let takes = self.entries.iter().flat_map(|entry| entry.batch.takes());
            takes.for_each(|take| ordered[positions.next().unwrap_or_default()] = take);
        }
        entries.flat_map(|entry| entry.batch.takes()).chain(ordered)
    }

    fn is_in_order(&self) -> bool {
        self.entries.iter().all(|entry| entry.positions.is_none())
    }

    /// For each call, entry by entry: its index in the flush.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        let mut before = 0;
        self.entries.iter().flat_map(move |entry| {
            let start = before;
            before += entry.batch.len();
            (0..entry.batch.len()).map(move |call| entry.position(call, start))
        })
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Calls `each` with each call's result, in call order. `results` has those of all attempts.
    pub fn complete(
        &self,
        results: &[ScriptResult],
        mut each: impl FnMut(Result<Execution, CallFailure>),
    ) {
        let mut replies: Vec<_> = results
            .iter()
            .map(|result| result.as_ref().map(|values| ReplyReader::new(values)))
            .collect();
        if self.is_in_order() {
            self.entries.iter().for_each(|entry| entry.complete(&mut replies, &mut each));
            return;
        }
        let mut completed: Vec<_> = (0..self.len()).map(|_| None).collect();
        let mut positions = self.positions();
        for entry in &self.entries {
            entry.complete(&mut replies, &mut |one| {
                completed[positions.next().unwrap_or_default()] = Some(one);
            });
        }
        completed.into_iter().flatten().for_each(each);
    }
}

impl FlushEntry {
    /// For each group of calls: their batch, and their indexes in the flush. `groups` has the group
    /// of each call; `before` is the number of calls of the entries before.
    pub(super) fn into_parts(
        self,
        groups: &[usize],
        before: usize,
    ) -> Vec<(CallBatch, Box<[usize]>)> {
        if groups.iter().all(|group| *group == 0) {
            let calls = (0..groups.len()).map(|call| self.position(call, before)).collect();
            return vec![(self.batch, calls)];
        }
        let parts = SubsetBuilder::new(&self.batch, &self.policies).build_groups(groups);
        let positions =
            |calls: Vec<usize>| calls.iter().map(|&call| self.position(call, before)).collect();
        parts.into_iter().map(|(batch, calls)| (batch, positions(calls))).collect()
    }

    /// The index of a call in the flush. `before` is the number of calls of the entries before.
    fn position(&self, call: usize, before: usize) -> usize {
        self.positions.as_ref().map_or(before + call, |positions| positions[call])
    }

    fn complete(
        &self,
        replies: &mut [Result<ReplyReader<'_>, &ScriptFailure>],
        each: &mut impl FnMut(Result<Execution, CallFailure>),
    ) {
        let Self { policies, batch, script_call, stale_in, .. } = self;
        // Skip the stale outcomes of earlier attempts.
        for stale in stale_in {
            if let Ok(reply) = &mut replies[*stale] {
                batch.executions(policies, reply).for_each(drop);
            }
        }
        let refused = Err(&ScriptFailure::CrossSlot);
        match script_call.map_or(refused, |index| replies[index].as_mut().map_err(|why| *why)) {
            Ok(reply) => {
                let mut misses = 0;
                for one in batch.executions(policies, reply) {
                    let is_hit =
                        one.as_ref().is_ok_and(|one| HitPredictor::is_hit(policies, &one.response));
                    misses += usize::from(!is_hit);
                    each(one.map_err(CallFailure::Call));
                }
                batch.predictor.learn(batch.calls.len(), misses);
            }
            Err(failure) => {
                for _ in 0..batch.len() {
                    each(Err(CallFailure::Script(failure.clone())));
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::key::Key;
    use crate::policy::Policy;
    use crate::protocol::{ScriptAlgorithm, form};
    use crate::redis::{KeyNames, ReplyValue, slot_of};

    pub(crate) fn window() -> PolicySet {
        Policy::FixedWindow(FixedWindow::new(7, 1_000).unwrap()).into()
    }

    pub(crate) fn gcra() -> PolicySet {
        Policy::Gcra(Gcra::new(7, 1_000, 7).unwrap()).into()
    }

    pub(crate) fn flush(entries: &[(PolicySet, usize)]) -> Flush {
        let mut flush = Flush::default();
        for (number, (policy, calls)) in entries.iter().enumerate() {
            let names = KeyNames::new(&format!("limiter-{number}"), policy);
            let mut batch = CallBatch::new();
            for call in 0..*calls {
                batch.push(&names, Key::new(&call.to_string()).unwrap(), 1);
            }
            flush.push(Arc::new(policy.clone()), batch);
        }
        flush
    }

    pub(crate) fn keys_of(flush: &Flush) -> Vec<usize> {
        flush.script_calls().iter().map(|script_call| script_call.keys.len()).collect()
    }

    #[test]
    fn one_script_call_has_the_calls_of_all_limiters() {
        let flush = flush(&[(gcra(), 2), (window(), 3), (gcra(), 4)]);
        assert_eq!((keys_of(&flush), flush.len()), (vec![9], 9));
        assert!(flush.script_calls().iter().all(|script_call| script_call.arguments.len() == 1));
    }

    #[test]
    fn a_script_call_has_at_most_as_many_calls_as_lua_can_unpack() {
        assert_eq!(keys_of(&flush(&[(gcra(), 600), (gcra(), 400)])), [1_000]);
        assert_eq!(keys_of(&flush(&[(gcra(), 600), (gcra(), 401), (gcra(), 500)])), [600, 901]);
    }

    pub(crate) fn reply(now: i64, states: &[f64], outcomes: &[u8]) -> ScriptResult {
        let states = states.iter().flat_map(|number| number.to_be_bytes()).collect();
        let outcomes = ReplyValue::Bytes(outcomes.to_vec());
        Ok(vec![
            ReplyValue::Number(now),
            ReplyValue::Bytes(states),
            outcomes,
            ReplyValue::Bytes(vec![]),
        ])
    }

    pub(crate) fn completed(
        flush: &Flush,
        results: &[ScriptResult],
    ) -> Vec<Result<u64, CallFailure>> {
        let mut remaining = Vec::new();
        flush.complete(results, |result| {
            remaining.push(result.map(|one| one.response.decision.remaining));
        });
        remaining
    }

    #[test]
    fn results_come_in_call_order_and_a_script_call_fails_alone() {
        let flush = flush(&[(gcra(), MAX_OUTCOMES), (window(), 2), (gcra(), 1)]);
        let mut remaining = completed(
            &flush,
            &[Err(ScriptFailure::TimedOut), reply(900, &[1., 5., 1., 6., 900., 0.], &[])],
        );
        let last = remaining.split_off(MAX_OUTCOMES);
        assert!(
            remaining
                .iter()
                .all(|result| *result == Err(CallFailure::Script(ScriptFailure::TimedOut)))
        );
        assert_eq!(last, [Ok(2), Ok(1), Ok(7)]);
    }

    #[test]
    fn replies_train_the_hit_predictor() {
        let names = KeyNames::new("api", &window());
        let mut pending = CallBatch::new();
        let mut forms = Vec::new();
        for count in [1., 2., 1., 3.] {
            let mut flush = Flush::default();
            pending.push(&names, Key::new("a").unwrap(), 1);
            flush.push(Arc::new(window()), pending.take());
            forms.push(flush.script_calls()[0].arguments[0][0]);
            flush.complete(&[reply(900, &[1., count], &[])], |result| assert!(result.is_ok()));
        }
        // A newly opened window is a miss.
        let window = form::SINGLE_POLICY + ScriptAlgorithm::FixedWindow as u8;
        assert_eq!(forms, [window, window, form::WINDOW_OPTIMISTIC, window]);
    }

    #[test]
    fn a_registration_goes_to_the_slot_of_its_key_and_is_one_script_call() {
        let slots = Flush::registering("api", "default: gcra", 5).by_slot();
        let [partition] = &slots.partitions[..] else { panic!("{slots:?}") };
        assert_eq!((partition.slot, partition.calls.len()), (slot_of(b"api:~policies"), 0));
        assert!(slots.cross_slot.is_none());
        let mut flush = Flush::registering("api", "default: gcra", 5).deduplicate();
        let script_calls = flush.script_calls();
        assert_eq!(script_calls[0].keys.iter().collect::<Vec<_>>(), [b"api:~policies"]);
        assert_eq!(
            (script_calls.len(), &script_calls[0].arguments[..]),
            (1, &[b"default: gcra".to_vec(), b"5".to_vec()][..])
        );
        assert!(script_calls[0].script.is_rare());
        assert_eq!(
            flush.retry_stale(&[Ok(vec![ReplyValue::Bytes(b"default: gcra".to_vec())])]),
            None
        );
    }
}
