//! A batch of calls of one limiter.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::keys::Keys;
use super::name::Names;
use super::outlook::Outlook;
use super::reply::{CallError, Reply};
use super::request::{self, Call};
use super::wire::Left;
use crate::algorithm::Algorithm as _;
use crate::decision::{self, Decision};
use crate::key::Key;
use crate::policy::Policy;
use crate::several::Told;
use crate::time::Micros;

/// The calls of one limiter that a script decides together, in order.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The names of the keys, each once.
    keys: Keys,
    calls: Vec<Call>,
    /// The server's time, as far as is known, when the calls are sent.
    about: Micros,
    /// The keys by their hash: to find those that are there already.
    known: HashTable<(u64, u16)>,
    hashes: RandomState,
    outlook: Arc<Outlook>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call; more than 65,535 keys do not fit.
    pub fn push(&mut self, names: &Names, key: Key<'_>, cost: u64) {
        let hash = self.hashes.hash_one(key.as_str());
        self.keys.push(|name| names.write(key, name));
        let (added, keys) = (self.keys.len(), &self.keys);
        let same = |&(other, number): &(u64, u16)| {
            other == hash && keys.get(usize::from(number) - 1) == keys.get(added - 1)
        };
        let key = if let Some(&(_, known)) = self.known.find(hash, same) {
            self.keys.drop_last();
            known
        } else {
            let number = u16::try_from(added).unwrap_or(u16::MAX);
            self.known.insert_unique(hash, (hash, number), |&(hash, _)| hash);
            number
        };
        self.calls.push(Call { key, cost });
    }

    /// Takes the calls out, and leaves room for as many. What is learned from their answers is learned for
    /// those that follow.
    #[must_use]
    pub fn take(&mut self) -> Self {
        self.known.clear();
        let keys = Keys::with_room_of(&self.keys);
        let calls = Vec::with_capacity(self.calls.len());
        Self {
            keys: std::mem::replace(&mut self.keys, keys),
            calls: std::mem::replace(&mut self.calls, calls),
            outlook: Arc::clone(&self.outlook),
            ..Self::default()
        }
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
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Appends what the script is asked: a group of calls under `policy`.
    pub fn write(&self, policy: &Policy, request: &mut Vec<u8>) {
        let one_each = self.calls.len() == self.keys.len();
        let plain = one_each && self.calls.iter().all(|call| call.cost == 1);
        let keys = u16::try_from(self.keys.len()).unwrap_or(u16::MAX);
        if plain {
            request::push_units(request, policy, self.about, keys, self.outlook.is_good());
        } else {
            request::push_calls(request, policy, self.about, keys, &self.calls);
        }
    }

    /// Learns from the answers how the next calls should be decided.
    pub(super) fn learn(&self, otherwise: usize) {
        self.outlook.learn(self.calls.len(), otherwise);
    }

    /// Reads the decisions on the calls out of a reply, from where it stands.
    pub fn decisions<'a>(
        &'a self,
        policy: &'a Policy,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Decision, CallError>> + 'a {
        self.told(policy, reply).map(|told| told.map(|told| told.decision))
    }

    /// [`decisions`](Self::decisions), and how each limit stands where limits have names.
    pub fn told<'a>(
        &'a self,
        policy: &'a Policy,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Told, CallError>> + 'a {
        let named = policy.named_limits() > 0;
        self.calls.iter().map(move |call| {
            let (outcome, left) = reply.next(policy)?;
            let now = reply.now();
            Ok(match left {
                Left::State(state) => {
                    decision::describe(policy, &state, now, call.cost, outcome).into()
                }
                Left::Told(standings) => Told::of(named, &standings, now, call.cost, outcome),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap())
    }

    fn batch(calls: &[(&str, u64)]) -> Batch {
        let names = Names::new("api", "default", &gcra());
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
        let keys: Vec<_> = batch.keys().iter().collect();
        assert_eq!(keys, [b"api:default:gcra:{a}", b"api:default:gcra:{b}"]);
        assert_eq!(batch.calls.iter().map(|call| call.key).collect::<Vec<_>>(), [1, 2, 1]);
    }

    #[test]
    fn a_thousand_keys_are_all_found_again() {
        let names = Names::new("api", "default", &gcra());
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
        let names = Names::new("api", "default", &gcra());
        let mut batch = batch(&[("a", 1), ("b", 1)]);
        let taken = batch.take();
        assert_eq!((taken.len(), batch.len(), batch.is_empty()), (2, 0, true));
        batch.push(&names, Key::new("b").unwrap(), 1);
        assert_eq!(batch.keys().iter().collect::<Vec<_>>(), [b"api:default:gcra:{b}"]);
    }

    #[test]
    fn one_unit_for_each_key_needs_no_list_of_calls() {
        let numbers = 10 * 8;
        assert_eq!(written(&batch(&[("a", 1), ("b", 1)])).len(), 3 + numbers);
        assert_eq!(written(&batch(&[("a", 1), ("b", 2)])).len(), 7 + numbers + 2 * 10);
        assert_eq!(written(&batch(&[("a", 1), ("a", 1)])).len(), 7 + numbers + 2 * 10);
    }
}
