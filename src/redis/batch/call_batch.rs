//! A batch of calls of one limiter.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::key::Key;
use crate::policy::operation::Operation;
use crate::policy::policy_set::PolicySet;
use crate::protocol::form;
use crate::redis::batch::hit_predictor::HitPredictor;
use crate::redis::codec::request::{self, CallRequest};
use crate::redis::key_hash::KeyHashBuilder;
use crate::redis::key_name::KeyNames;
use crate::redis::script_keys::ScriptKeys;
use crate::time::Micros;

/// The most calls that one section of a request has, and so the most keys of a dimension. A key number
/// has two bytes, and Lua cannot unpack more than 8,000 values.
const MAX_CALLS: usize = 1_000;

/// The last pass of a deduplicated batch. It has all remaining calls.
const LAST_PASS: usize = 3;

/// With more calls per key than this, most calls would be in the last pass.
const MAX_CALLS_PER_KEY: usize = 2;

/// The calls of one limiter that one script decides together, in order.
#[derive(Debug, Clone, Default)]
pub struct CallBatch {
    /// For each policy: the distinct names of its keys.
    pub(crate) names: Vec<ScriptKeys>,
    /// For each key dimension: the hash and the number of each key in the batch.
    known: Vec<HashTable<(u64, u16)>>,
    /// The names of hold keys: one for each call that reads or writes holds, in order.
    pub(crate) holds: ScriptKeys,
    pub(crate) calls: Vec<CallRequest>,
    /// For each call, one number per key dimension: the number of its key from 1, or 0 for no key.
    pub(crate) numbers: Vec<u16>,
    /// For each call: the number of its policy variant. Empty if all calls use variant 0.
    pub(crate) variants: Vec<u16>,
    /// The server's estimated time when it runs the script.
    pub(crate) estimated_now: Micros,
    hashes: KeyHashBuilder,
    pub(crate) predictor: Arc<HitPredictor>,
    /// The calls before these, in batches of [`MAX_CALLS`].
    full: Vec<Self>,
}

impl CallBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call that takes units, for a limiter with one key dimension. A [`Flush`] splits a batch
    /// of many calls.
    ///
    /// [`Flush`]: crate::redis::Flush
    pub fn push(&mut self, names: &KeyNames, key: Key<'_>, cost: u64) {
        self.begin_call(names);
        let number = self.key_number(names, 0, key, None);
        self.numbers.push(number);
        self.calls.push(CallRequest::Take(cost));
    }

    /// Adds any operation. `keys` has one key per key dimension; `tag` is the call's own hash tag.
    pub fn push_operation(
        &mut self,
        names: &KeyNames,
        keys: &[Option<Key<'_>>],
        tag: Option<&str>,
        operation: Operation,
    ) {
        self.begin_call(names);
        for dimension in 0..names.dimensions {
            let key = keys.get(dimension).copied().flatten();
            let number = key.map_or(0, |key| self.key_number(names, dimension, key, tag));
            self.numbers.push(number);
        }
        if let Some(key) = keys.first().copied().flatten().filter(|_| uses_holds(&operation)) {
            self.holds.push(|name| names.write_holds(key, tag, name));
        }
        self.calls.push(operation.into());
    }

    /// Sets the policy variant of the call that was added last.
    pub fn set_variant(&mut self, variant: u16) {
        if variant > 0 || !self.variants.is_empty() {
            self.variants.resize(self.calls.len() - 1, 0);
            self.variants.push(variant);
        }
    }

    pub(crate) fn variant_of(&self, call: usize) -> u16 {
        self.variants.get(call).copied().unwrap_or_default()
    }

    fn begin_call(&mut self, names: &KeyNames) {
        if self.calls.len() >= MAX_CALLS {
            let mut full = std::mem::take(&mut self.full);
            full.push(self.take());
            self.full = full;
        }
        if self.known.is_empty() {
            self.known.resize_with(names.dimensions, HashTable::new);
            self.names.resize_with(names.dimensions_of_policies().count(), ScriptKeys::default);
        }
    }

    /// Returns the number of a key. Adds the key to all policies of its dimension if it is new.
    fn key_number(
        &mut self,
        names: &KeyNames,
        dimension: usize,
        key: Key<'_>,
        tag: Option<&str>,
    ) -> u16 {
        let mut policies = names.dimensions_of_policies().enumerate();
        let mut of_dimension = policies.by_ref().filter(|&(_, other)| other == dimension);
        let Some((first, _)) = of_dimension.next() else { return 0 };
        let own = &mut self.names[first];
        own.push(|name| names.write(first, key, tag, name));
        let added = own.len();
        // The names of a dimension differ in key and tag only. No UTF-8 text has a byte 255.
        let mut hasher = self.hashes.build_hasher();
        hasher.write(key.as_str().as_bytes());
        if let Some(tag) = tag {
            hasher.write_u8(u8::MAX);
            hasher.write(tag.as_bytes());
        }
        let hash = hasher.finish();
        let same = |&(other, number): &(u64, u16)| {
            other == hash && own.get(usize::from(number) - 1) == own.get(added - 1)
        };
        if let Some(&(_, known)) = self.known[dimension].find(hash, same) {
            self.names[first].drop_last();
            return known;
        }
        let number = u16::try_from(added).unwrap_or(u16::MAX);
        self.known[dimension].insert_unique(hash, (hash, number), |&(hash, _)| hash);
        for (policy, _) in of_dimension {
            self.names[policy].push(|name| names.write(policy, key, tag, name));
        }
        number
    }

    /// Takes all calls out, and reserves as much space. Both batches share the hit predictor.
    #[must_use]
    pub fn take(&mut self) -> Self {
        self.known.iter_mut().for_each(HashTable::clear);
        let names =
            self.names.iter().map(|keys| ScriptKeys::with_capacity_of(keys, keys.len())).collect();
        let calls = Vec::with_capacity(self.calls.len());
        let numbers = Vec::with_capacity(self.numbers.len());
        Self {
            names: std::mem::replace(&mut self.names, names),
            holds: std::mem::take(&mut self.holds),
            calls: std::mem::replace(&mut self.calls, calls),
            numbers: std::mem::replace(&mut self.numbers, numbers),
            variants: std::mem::take(&mut self.variants),
            predictor: Arc::clone(&self.predictor),
            full: std::mem::take(&mut self.full),
            ..Self::default()
        }
    }

    /// The calls in batches that each fit into one section of a request, in order.
    pub(crate) fn into_sections(mut self) -> impl Iterator<Item = Self> {
        let full = std::mem::take(&mut self.full);
        full.into_iter().chain([self])
    }

    /// The names of a dimension's keys under the first policy of that dimension.
    pub(crate) fn keys_of(&self, policies: &PolicySet, dimension: usize) -> Option<&ScriptKeys> {
        let mut policies = policies.named().iter().zip(&self.names);
        policies.find(|(named, _)| named.key_dimension == dimension).map(|(_, keys)| keys)
    }

    /// Sets the estimated time at which the server decides the calls, in epoch microseconds.
    /// Calendar policies need it. Redis's own clock still decides.
    pub fn set_time(&mut self, estimated_now: Micros) {
        self.estimated_now = estimated_now;
    }

    /// Sets whether the script should expect that windows are open and admit most calls. This
    /// selects a code path of the script and changes no decision. Without it, a
    /// [`Flush`](crate::redis::Flush) learns the expectation from replies.
    pub fn set_optimistic(&self, expects_hits: bool) {
        self.predictor.set(expects_hits);
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.iter().map(Self::len).sum::<usize>() + self.calls.len()
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The keys that the script declares.
    #[must_use]
    pub fn keys(&self) -> ScriptKeys {
        let mut keys = ScriptKeys::default();
        self.add_keys_to(&mut keys);
        keys
    }

    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        self.names.iter().find(|own| !own.is_empty()).map(|own| own.get(0))
    }

    pub(crate) fn add_keys_to(&self, keys: &mut ScriptKeys) {
        self.names.iter().for_each(|own| keys.extend(own));
        keys.extend(&self.holds);
    }

    /// The calls, each with its key numbers.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&CallRequest, &[u16])> {
        let dimensions = self.numbers.len() / self.calls.len().max(1);
        self.calls.iter().zip(self.numbers.chunks_exact(dimensions.max(1)))
    }

    /// For each call: whether it is a plain take.
    pub(crate) fn takes(&self) -> impl Iterator<Item = bool> {
        self.calls.iter().map(|call| matches!(call, CallRequest::Take(_)))
    }

    /// The number of outcomes in the script's reply: one per call and policy.
    pub(crate) fn outcome_count(&self, policies: &PolicySet) -> usize {
        let of_call = |numbers: &[u16]| {
            policies.named().iter().filter(|named| numbers[named.key_dimension] > 0).count()
        };
        self.calls().map(|(_, numbers)| of_call(numbers)).sum()
    }

    /// Appends the script's argument: these calls under the policies.
    pub fn write(&self, policies: &PolicySet, request: &mut Vec<u8>) {
        let keys_of = |dimension| {
            let own = self.keys_of(policies, dimension);
            u16::try_from(own.map_or(0, ScriptKeys::len)).unwrap_or(u16::MAX)
        };
        if let Some(rule) = policies.ban() {
            request::push_ban(request, rule);
        }
        let one_each = self.names.iter().all(|keys| keys.len() == self.calls.len());
        let optimistic = self.predictor.expects_hits();
        let now = self.estimated_now;
        let push_takes =
            |request| request::push_takes(request, policies, now, &self.calls, optimistic);
        if one_each && push_takes(&mut *request).is_some() {
            return;
        }
        let plain = one_each && self.calls.iter().all(CallRequest::takes_one);
        let listed = if plain { 0 } else { u16::try_from(self.calls.len()).unwrap_or(u16::MAX) };
        let holds = u16::try_from(self.holds.len()).unwrap_or(u16::MAX);
        let form = if holds > 0 {
            form::WITH_HOLDS
        } else if keys_of(0) == 1 && request::are_for_permits(policies, &self.calls) {
            form::PERMITS
        } else {
            form::GENERAL
        };
        request::push_general(request, form, policies, now, keys_of, (listed, holds));
        if !plain {
            let mut hold = 0;
            for (call, numbers) in self.calls() {
                let has_hold = has_hold(call, numbers);
                hold += u16::from(has_hold);
                let hold = if has_hold { hold } else { 0 };
                request::push_call(request, policies, numbers, hold, call);
            }
        }
    }

    /// For each call: its group, so that all calls of a group use one variant, and calls on one key
    /// are in order if the groups are. `None` if all calls use one variant.
    pub(crate) fn groups_by_variant(&self) -> Option<Vec<usize>> {
        let first = self.variant_of(0);
        if self.variants.iter().all(|&variant| variant == first) {
            return None;
        }
        // By variant, and by dimension and key: the latest group with it, from 1; 0 if there is none.
        let last = self.variants.iter().max().map_or(0, |&variant| usize::from(variant));
        let mut of_variant = vec![0; last + 1];
        let dimensions = self.numbers.len() / self.calls.len().max(1);
        let max_number = self.numbers.iter().max().map_or(0, |&number| usize::from(number));
        let mut of_key = vec![vec![0; max_number + 1]; dimensions];
        let mut count = 0;
        let group = |(call, (_, numbers)): (usize, (_, &[u16]))| {
            let keys = || numbers.iter().map(|&number| usize::from(number)).enumerate();
            let latest = keys().map(|(dimension, number)| of_key[dimension][number]).max();
            let of_variant = &mut of_variant[usize::from(self.variant_of(call))];
            if *of_variant == 0 || latest > Some(*of_variant) {
                count += 1;
                *of_variant = count;
            }
            for (dimension, number) in keys().filter(|&(_, number)| number > 0) {
                of_key[dimension][number] = *of_variant;
            }
            *of_variant - 1
        };
        Some(self.calls().enumerate().map(group).collect())
    }

    /// For each call: its pass, which is the number of earlier calls on its key, at most
    /// [`LAST_PASS`]. `None` if no key repeats, if the policies have no fast path, or if passes
    /// would not pay off.
    pub(crate) fn passes(&self, policies: &PolicySet) -> Option<Vec<usize>> {
        let (calls, keys) = (self.calls.len(), self.names.first().map_or(0, ScriptKeys::len));
        let repeats =
            policies.key_dimensions() == 1 && keys < calls && calls <= MAX_CALLS_PER_KEY * keys;
        let takes = || self.calls.iter().all(CallRequest::takes_units);
        if !repeats || !request::has_fast_path(policies) || !takes() {
            return None;
        }
        let mut before = vec![0; keys];
        let pass = |&number: &u16| {
            let before = before.get_mut(usize::from(number).checked_sub(1)?)?;
            let pass = *before;
            *before = LAST_PASS.min(pass + 1);
            Some(pass)
        };
        self.numbers.iter().map(pass).collect()
    }
}

/// Whether a call has a hold key of its own in [`CallBatch::holds`].
pub(crate) fn has_hold(call: &CallRequest, numbers: &[u16]) -> bool {
    numbers[0] > 0 && matches!(call, CallRequest::Other(operation) if uses_holds(operation))
}

fn uses_holds(operation: &Operation) -> bool {
    use Operation::{Acquire, Extend, Renew, Repeatable, Reserve, Reset, Settle};
    let settles = matches!(operation, Extend { .. } | Settle { .. } | Renew { .. } | Reset);
    settles || matches!(operation, Reserve { .. } | Acquire { hold: Some(_), .. } | Repeatable(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;
    use crate::policy::Policy;
    use crate::policy::policy_set::NamedPolicy;

    fn gcra() -> PolicySet {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap()).into()
    }

    fn batch(calls: &[(&str, u64)]) -> CallBatch {
        let names = KeyNames::new("api", &gcra());
        let mut batch = CallBatch::new();
        for (key, cost) in calls {
            batch.push(&names, Key::new(key).unwrap(), *cost);
        }
        batch
    }

    fn written(batch: &CallBatch) -> Vec<u8> {
        let mut request = Vec::new();
        batch.write(&gcra(), &mut request);
        request
    }

    #[test]
    fn equal_keys_are_declared_once() {
        let batch = batch(&[("a", 1), ("b", 1), ("a", 1)]);
        let keys = batch.keys();
        let keys: Vec<_> = keys.iter().collect();
        assert_eq!(keys, [b"api:default:gcra:{a}", b"api:default:gcra:{b}"]);
        assert_eq!(batch.numbers, [1, 2, 1]);
    }

    #[test]
    fn a_thousand_keys_keep_their_numbers() {
        let names = KeyNames::new("api", &gcra());
        let mut batch = CallBatch::new();
        for pass in 0..3 {
            for number in 0..1_000 {
                batch.push(&names, Key::new(&format!("key {number}")).unwrap(), 1);
            }
            assert_eq!((batch.keys().len(), batch.len()), (1_000, 1_000 * (pass + 1)));
        }
    }

    #[test]
    fn take_empties_the_batch() {
        let names = KeyNames::new("api", &gcra());
        let mut batch = batch(&[("a", 1), ("b", 1)]);
        let taken = batch.take();
        assert_eq!((taken.len(), batch.len(), batch.is_empty()), (2, 0, true));
        batch.push(&names, Key::new("b").unwrap(), 1);
        let keys = batch.keys();
        assert_eq!(keys.iter().collect::<Vec<_>>(), [b"api:default:gcra:{b}"]);
    }

    #[test]
    fn one_call_on_each_key_needs_no_list_of_calls() {
        let numbers = 10 * 8;
        assert_eq!(written(&batch(&[("a", 1), ("b", 1)])).len(), 3 + numbers);
        assert_eq!(written(&batch(&[("a", 1), ("b", 2)])).len(), 3 + numbers + 2 * 8);
        assert_eq!(written(&batch(&[("a", 1), ("a", 1)])).len(), 9 + numbers + 2 * 11);
        assert_eq!(written(&batch(&[("a", 1), ("b", 0)])).len(), 9 + numbers + 2 * 11);
    }

    #[test]
    fn each_policy_has_a_name_for_each_key_of_its_dimension() {
        let named = |name: &str, key_dimension| {
            let policy = Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap());
            NamedPolicy { name: name.into(), policy, key_dimension }
        };
        let policies =
            PolicySet::multi(vec![named("ip", 0), named("user", 1), named("slow", 0)]).unwrap();
        let names = KeyNames::new("api", &policies);
        let mut batch = CallBatch::new();
        let [a, b, c] = ["a", "b", "c"].map(|key| Some(Key::new(key).unwrap()));
        batch.push_operation(&names, &[a, b], None, Operation::Take { cost: 1.into() });
        batch.push_operation(&names, &[a, c], None, Operation::Take { cost: 1.into() });
        batch.push_operation(&names, &[None, c], None, Operation::Unblock);
        assert_eq!(batch.numbers, [1, 1, 1, 2, 0, 2]);
        let batch = batch.take();
        assert_eq!(batch.outcome_count(&policies), 3 + 3 + 1);
        let keys = batch.keys();
        let keys: Vec<_> = keys.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        let expected =
            ["api:ip:gcra:{a}", "api:user:gcra:{b}", "api:user:gcra:{c}", "api:slow:gcra:{a}"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn hold_keys_follow_the_other_keys() {
        let names = KeyNames::new("api", &gcra());
        let mut batch = CallBatch::new();
        let [a, b] = ["a", "b"].map(|key| [Some(Key::new(key).unwrap())]);
        let reserve = Operation::Reserve { cost: 2.into(), hold: [7; 16], lasting: 5 };
        batch.push_operation(&names, &a, None, Operation::Penalize { units: 2.into() });
        let plain = written(&batch).len();
        batch.push_operation(&names, &b, None, reserve.clone());
        batch.push_operation(&names, &[None], None, Operation::Reset);
        batch.push_operation(&names, &a, None, Operation::Reset);
        let batch = batch.take();
        let keys = batch.keys();
        let keys: Vec<_> = keys.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        let holds = ["api:~holds:{b}", "api:~holds:{a}"];
        assert_eq!(keys[2..], holds);
        let request = written(&batch);
        // The number of hold keys; each call's code and key; a reservation's hold, cost, length.
        assert_eq!(request.len(), plain + 2 + 3 * 3 + 3 * 2 + 16 + 8 + 8);
        assert_eq!(request[request.len() - 2..], [0, 2], "the last call uses the second hold key");
    }
}
