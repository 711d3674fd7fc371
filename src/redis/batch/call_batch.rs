//! A batch of calls of one limiter.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::key::Key;
use crate::policy::operation::Operation;
use crate::policy::policy_set::Policies;
use crate::redis::batch::hit_predictor::Outlook;
use crate::redis::codec::request::{self, Asked};
use crate::redis::key_hash::Hashes;
use crate::redis::key_name::Names;
use crate::redis::script_keys::Keys;
use crate::time::Micros;

/// The waves in which calls on keys that repeat are put are 0 to this. What is left is in the last.
const LAST_WAVE: u8 = 3;

/// Where there are more calls by key, most of them would be in the last wave.
const MOST_CALLS_BY_KEY: usize = 2;

/// The calls of one limiter that a script decides together, in order.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// By policy: the names of its keys, each once.
    pub(crate) names: Vec<Keys>,
    /// By subject: its keys by their hash, to find those that are there already.
    known: Vec<HashTable<(u64, u16)>>,
    /// The names of the keys that keep holds: one for each call that is about holds, in order.
    pub(crate) holds: Keys,
    pub(crate) calls: Vec<Asked>,
    /// For each call as many as there are subjects: the numbers of their keys, from 1; 0 for none.
    pub(crate) numbers: Vec<u16>,
    /// The server's time, as far as is known, when the calls are sent.
    pub(crate) about: Micros,
    hashes: Hashes,
    pub(crate) outlook: Arc<Outlook>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call that takes units, by a limiter with one subject; more than 65,535 keys do not fit.
    pub fn push(&mut self, names: &Names, key: Key<'_>, cost: u64) {
        self.make_room(names);
        let number = self.number_of(names, 0, key, None);
        self.numbers.push(number);
        self.calls.push(Asked::Take(cost));
    }

    /// Adds any call: by subject the keys that it names, and a hash tag if it has one of its own.
    pub fn push_operation(
        &mut self,
        names: &Names,
        keys: &[Option<Key<'_>>],
        tag: Option<&str>,
        operation: Operation,
    ) {
        self.make_room(names);
        for subject in 0..names.subjects() {
            let key = keys.get(subject).copied().flatten();
            let number = key.map_or(0, |key| self.number_of(names, subject, key, tag));
            self.numbers.push(number);
        }
        if let Some(key) = keys.first().copied().flatten().filter(|_| about_holds(&operation)) {
            self.holds.push(|name| names.write_holds(key, tag, name));
        }
        self.calls.push(match operation {
            Operation::Take { cost } => Asked::Take(cost),
            other => Asked::Other(Box::new(other)),
        });
    }

    fn make_room(&mut self, names: &Names) {
        if self.known.is_empty() {
            self.known.resize_with(names.subjects(), HashTable::new);
            self.names.resize_with(names.subjects_of_policies().count(), Keys::default);
        }
    }

    /// The number of a subject's key, which is added to those of all policies that count by it.
    fn number_of(&mut self, names: &Names, subject: usize, key: Key<'_>, tag: Option<&str>) -> u16 {
        let mut policies = names.subjects_of_policies().enumerate();
        let mut of_subject = policies.by_ref().filter(|&(_, other)| other == subject);
        let Some((first, _)) = of_subject.next() else { return 0 };
        let own = &mut self.names[first];
        own.push(|name| names.write(first, key, tag, name));
        let added = own.len();
        // Of what a subject's names differ in: they begin alike. No text has a byte 255.
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
        if let Some(&(_, known)) = self.known[subject].find(hash, same) {
            self.names[first].drop_last();
            return known;
        }
        let number = u16::try_from(added).unwrap_or(u16::MAX);
        self.known[subject].insert_unique(hash, (hash, number), |&(hash, _)| hash);
        for (policy, _) in of_subject {
            self.names[policy].push(|name| names.write(policy, key, tag, name));
        }
        number
    }

    /// Takes the calls out, and leaves room for as many. What is learned from their answers is learned for
    /// those that follow.
    #[must_use]
    pub fn take(&mut self) -> Self {
        self.known.iter_mut().for_each(HashTable::clear);
        let names = self.names.iter().map(Keys::with_room_of).collect();
        let calls = Vec::with_capacity(self.calls.len());
        let numbers = Vec::with_capacity(self.numbers.len());
        Self {
            names: std::mem::replace(&mut self.names, names),
            holds: std::mem::take(&mut self.holds),
            calls: std::mem::replace(&mut self.calls, calls),
            numbers: std::mem::replace(&mut self.numbers, numbers),
            outlook: Arc::clone(&self.outlook),
            ..Self::default()
        }
    }

    /// The names of a subject's keys under the first policy that counts by it.
    pub(crate) fn keys_of(&self, policies: &Policies, subject: usize) -> Option<&Keys> {
        let mut policies = policies.named().iter().zip(&self.names);
        policies.find(|(named, _)| named.subject == subject).map(|(_, keys)| keys)
    }

    /// Says around which time the calls will be decided, for policies that take more than arithmetic;
    /// by Redis's clock it is decided all the same.
    pub fn set_time(&mut self, about: Micros) {
        self.about = about;
    }

    /// Says whether most calls should be admitted in windows that are open already: no decision depends on it,
    /// but the script's way to it does. Otherwise it is learned from the answers of a [`Round`](super::Round).
    pub fn expect(&self, is_good: bool) {
        self.outlook.set(is_good);
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The keys that the script declares.
    #[must_use]
    pub fn keys(&self) -> Keys {
        let mut keys = Keys::default();
        self.add_keys_to(&mut keys);
        keys
    }

    pub(crate) fn add_keys_to(&self, keys: &mut Keys) {
        self.names.iter().for_each(|own| keys.extend(own));
        keys.extend(&self.holds);
    }

    /// The calls, each with the numbers of its keys.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (&Asked, &[u16])> {
        let subjects = self.numbers.len() / self.calls.len().max(1);
        self.calls.iter().zip(self.numbers.chunks_exact(subjects.max(1)))
    }

    /// By call: whether it takes units, and does nothing else.
    pub(crate) fn takes(&self) -> impl Iterator<Item = bool> {
        self.calls.iter().map(|asked| matches!(asked, Asked::Take(_)))
    }

    /// How often the script tells what became of a call under a policy.
    pub(crate) fn outcomes(&self, policies: &Policies) -> usize {
        let named = |numbers: &[u16]| {
            policies.named().iter().filter(|named| numbers[named.subject] > 0).count()
        };
        self.calls().map(|(_, numbers)| named(numbers)).sum()
    }

    /// Appends what the script is asked: a group of calls under the policies.
    pub fn write(&self, policies: &Policies, request: &mut Vec<u8>) {
        let keys_of = |subject| {
            let own = self.keys_of(policies, subject);
            u16::try_from(own.map_or(0, Keys::len)).unwrap_or(u16::MAX)
        };
        let one_each = self.names.iter().all(|keys| keys.len() == self.calls.len());
        let expected = self.outlook.is_good();
        let push_takes =
            |request| request::push_takes(request, policies, self.about, &self.calls, expected);
        if one_each && push_takes(&mut *request).is_some() {
            return;
        }
        let plain = one_each && self.calls.iter().all(Asked::takes_one);
        let listed = if plain { 0 } else { u16::try_from(self.calls.len()).unwrap_or(u16::MAX) };
        let holds = u16::try_from(self.holds.len()).unwrap_or(u16::MAX);
        request::push_general(request, policies, self.about, keys_of, (listed, holds));
        if !plain {
            let mut hold = 0;
            for (asked, numbers) in self.calls() {
                let has_hold = has_hold(asked, numbers);
                hold += u16::from(has_hold);
                let hold = if has_hold { hold } else { 0 };
                request::push_call(request, policies, numbers, hold, asked);
            }
        }
    }

    /// By call: how many calls on its key go before it, up to [`LAST_WAVE`], if some keys repeat and there is
    /// a quick way for keys that do not. Nothing if that would gain nothing.
    pub(crate) fn waves(&self, policies: &Policies) -> Option<Vec<u8>> {
        let (calls, keys) = (self.calls.len(), self.names.first().map_or(0, Keys::len));
        let repeats = policies.subjects() == 1 && keys < calls && calls <= MOST_CALLS_BY_KEY * keys;
        let takes = || self.calls.iter().all(Asked::takes_units);
        if !repeats || !request::has_quick_way(policies) || !takes() {
            return None;
        }
        let mut before = vec![0; keys];
        let wave = |&number: &u16| {
            let before = before.get_mut(usize::from(number).checked_sub(1)?)?;
            let wave = *before;
            *before = LAST_WAVE.min(wave + 1);
            Some(wave)
        };
        self.numbers.iter().map(wave).collect()
    }

    /// Learns from the answers how the next calls should be decided.
    pub(crate) fn learn(&self, otherwise: usize) {
        self.outlook.learn(self.calls.len(), otherwise);
    }
}

/// Whether one of the keys that keep holds is a call's own.
pub(crate) fn has_hold(asked: &Asked, numbers: &[u16]) -> bool {
    numbers[0] > 0 && matches!(asked, Asked::Other(operation) if about_holds(operation))
}

/// Whether a call adds or takes holds.
fn about_holds(operation: &Operation) -> bool {
    use Operation::{Reserve, Reset, Settle};
    matches!(operation, Reserve { .. } | Settle { .. } | Reset)
}

/// How many groups the calls of waves are in.
pub(crate) fn groups_of(waves: &[u8]) -> usize {
    waves.iter().max().map_or(0, |&last| usize::from(last) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;
    use crate::policy::Policy;
    use crate::policy::policy_set::NamedPolicy;

    fn gcra() -> Policies {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap()).into()
    }

    fn batch(calls: &[(&str, u64)]) -> Batch {
        let names = Names::new("api", &gcra());
        let mut batch = Batch::new();
        for (key, cost) in calls {
            batch.push(&names, Key::new(key).unwrap(), *cost);
        }
        batch
    }

    fn written(batch: &Batch) -> Vec<u8> {
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
    fn a_thousand_keys_are_all_found_again() {
        let names = Names::new("api", &gcra());
        let mut batch = Batch::new();
        for round in 0..3 {
            for number in 0..1_000 {
                batch.push(&names, Key::new(&format!("key {number}")).unwrap(), 1);
            }
            assert_eq!((batch.keys().len(), batch.len()), (1_000, 1_000 * (round + 1)));
        }
    }

    #[test]
    fn what_is_taken_out_is_forgotten() {
        let names = Names::new("api", &gcra());
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
    fn each_policy_has_a_name_for_each_key_of_its_subject() {
        let named = |name: &str, subject| {
            let policy = Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap());
            NamedPolicy { name: name.into(), policy, subject }
        };
        let policies =
            Policies::several(vec![named("ip", 0), named("user", 1), named("slow", 0)]).unwrap();
        let names = Names::new("api", &policies);
        let mut batch = Batch::new();
        let [a, b, c] = ["a", "b", "c"].map(|key| Some(Key::new(key).unwrap()));
        batch.push_operation(&names, &[a, b], None, Operation::Take { cost: 1 });
        batch.push_operation(&names, &[a, c], None, Operation::Take { cost: 1 });
        batch.push_operation(&names, &[None, c], None, Operation::Unblock);
        assert_eq!(batch.numbers, [1, 1, 1, 2, 0, 2]);
        let batch = batch.take();
        assert_eq!(batch.outcomes(&policies), 3 + 3 + 1);
        let keys = batch.keys();
        let keys: Vec<_> = keys.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        let expected =
            ["api:ip:gcra:{a}", "api:user:gcra:{b}", "api:user:gcra:{c}", "api:slow:gcra:{a}"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn the_keys_of_holds_follow_on_the_others_for_calls_that_are_about_holds() {
        let names = Names::new("api", &gcra());
        let mut batch = Batch::new();
        let [a, b] = ["a", "b"].map(|key| [Some(Key::new(key).unwrap())]);
        let reserve = Operation::Reserve { cost: 2, hold: [7; 16], lasting: 5 };
        batch.push_operation(&names, &a, None, Operation::Penalize { units: 2 });
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
        // A number of keys; of each call its code and its key; of a reservation its hold, cost and length.
        assert_eq!(request.len(), plain + 2 + 3 * 3 + 3 * 2 + 16 + 8 + 8);
        assert_eq!(request[request.len() - 2..], [0, 2], "the last is about the second key");
    }
}
